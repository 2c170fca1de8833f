"""Silero's voice activity detector: where in a sound somebody speaks.

Two forms of the same model are taken: the one that reads a whole row of frames in one call
(``silero_vad_16k_sequence.onnx``), and the one that reads frame by frame (``silero_vad.onnx``).
Both give the same probabilities. Each frame carries the last 64 samples of the one before: without
them the model finds nothing and says nothing about it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paraudio.audio import resample
from paraudio.engines._options import Option, check_options, number_option
from paraudio.engines._stop import Stop
from paraudio.engines._values import (
    Audio,
    Job,
    Load,
    Piece,
    Result,
    Samples,
    Segment,
    StreamEvent,
)
from paraudio.engines.families._files import check_inputs, inputs_of, open_model, weights_file
from paraudio.engines.families._memory import give_back
from paraudio.engines.families._silero_detector import (
    CONTEXT,
    FRAME,
    Detector,
    Rowwise,
    Stepwise,
    frames,
)
from paraudio.engines.families._silero_live import Listener
from paraudio.engines.families._spans import RATE, Rules, Span, find_speech
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_PREFERRED: Final = ("silero_vad_16k_sequence.onnx", "silero_vad.onnx")
_MEMORY: Final = 32 << 20


class SileroVadFamily:
    """Voice activity by Silero's models, at 16 kHz."""

    name: str = "silero_vad"
    tasks: Mapping[Task, frozenset[str]] = {"vad": frozenset({"offline"})}
    load_options: tuple[Option, ...] = ()
    session_options: tuple[Option, ...] = ()
    request_options: tuple[Option, ...] = (
        Option(
            name="threshold",
            kind=float,
            default=0.5,
            minimum=0.01,
            maximum=0.99,
            doc="Probability from which a frame of 32 ms is speech.",
        ),
        Option(
            name="min_speech_ms",
            kind=int,
            default=250,
            minimum=0,
            maximum=60_000,
            doc="Shorter stretches of speech are dropped, in milliseconds.",
        ),
        Option(
            name="min_silence_ms",
            kind=int,
            default=100,
            minimum=0,
            maximum=60_000,
            doc="Shorter pauses do not end a stretch, in milliseconds.",
        ),
        Option(
            name="speech_pad_ms",
            kind=int,
            default=30,
            minimum=0,
            maximum=10_000,
            doc="What is added at both ends of a stretch, in milliseconds.",
        ),
        Option(
            name="max_speech_s",
            kind=float,
            default=None,
            minimum=1,
            doc="Longer stretches are cut at their longest pause, in seconds; none by default.",
        ),
    )
    isolation: IsolationName | None = None
    imitates: bool = False
    advertises: str = (
        "up to 16 slots: sessions share one onnxruntime session, each with its own state; "
        "16 requests at once give the segments of 16 in a row"
    )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Find the model's file.

        Raises:
            InvalidRequestError: ``path`` or ``weight`` names none.
        """
        file = weights_file(load, names=_PREFERRED)
        _check(inputs_of(file))
        return {"sample_rate": RATE, "file": file.name}

    def estimate(self, load: Load) -> int:
        """Bytes for the weights and the memory of a run."""
        return weights_file(load, names=_PREFERRED).stat().st_size * 4 + _MEMORY

    def load(self, load: Load, stop: Stop) -> "SileroVadModel":
        """Open the model.

        Raises:
            InvalidRequestError: The file is no model of Silero's that is known here.
            Stopped: ``stop`` was set; nothing is left behind.
        """
        session = open_model(weights_file(load, names=_PREFERRED), load, stop)
        names = frozenset(info.name for info in session.inputs)
        _check(names)
        return SileroVadModel(Stepwise(session) if "state" in names else Rowwise(session))


def _check(names: frozenset[str]) -> None:
    """Make sure that a model has the inputs of one of the kinds that are known."""
    needed = {"input", "state", "sr"} if "state" in names else {"input", "h", "c"}
    check_inputs(names, needed, "Silero detector of 16 kHz")


class SileroVadModel:
    """An open detector."""

    def __init__(self, detector: Detector) -> None:
        self._detector: Detector | None = detector

    def capacity(self) -> int:
        """As many sessions as there can be slots: they cost nothing until they run."""
        return _MAX_SESSIONS

    def voices(self) -> tuple[str, ...]:
        """None."""
        return ()

    def session(self) -> "SileroVadSession":
        """Build a session over the open detector."""
        if self._detector is None:
            raise RuntimeError("the detector is closed")
        return SileroVadSession(self._detector)

    def close(self) -> None:
        """Let go of the weights."""
        self._detector = None
        give_back()


@dataclass(frozen=True, slots=True)
class _Listening:
    """A prepared job: sound at any rate, and what counts as speech."""

    audio: Audio
    rules: Rules


class SileroVadSession:
    """Listens. The state of a run lives in the run, that of a live job until its reset."""

    def __init__(self, detector: Detector) -> None:
        self._detector: Detector | None = detector
        self._live: Listener | None = None

    def prepare(self, job: Job) -> object:
        """Check a job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        rules = _rules(job)
        if job.audio is None:
            raise InvalidRequestError("audio must be the sound to listen to", param="audio")
        return _Listening(job.audio, rules)

    def run(self, prepared: object, stop: Stop) -> Result:
        """Find the stretches of speech.

        Raises:
            Stopped: ``stop`` was set; the session is as good as before.
        """
        if not isinstance(prepared, _Listening):
            raise TypeError(f"not a prepared job: {prepared!r}")
        samples = resample(prepared.audio, RATE, check=stop.check).samples
        found = [np.empty(0, dtype=np.float32)]
        detector = self._open()
        state = detector.start()
        for block in frames(samples):
            probabilities, state = detector.step(block, state, stop)
            found.append(probabilities)
        probabilities = np.concatenate(found)
        spans = find_speech(probabilities.tolist(), len(samples), prepared.rules, frame=FRAME)
        return _result(spans, probabilities)

    def begin(self, job: Job, stop: Stop) -> None:  # noqa: ARG002 - takes no time
        """Check a live job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        self._live = Listener(self._open(), _rules(job))

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        """Listen to a piece, and tell where speech begins and ends as soon as that is settled.

        Raises:
            InvalidRequestError: It is no sound, or at another rate than the one before.
            Stopped: ``stop`` was set; ``reset`` before the next job.
        """
        return [StreamEvent(boundary=each) for each in self._begun().take(piece, stop)]

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        """Tell what the end settles, and the whole: what ``run`` finds in the same sound.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next job.
        """
        live = self._begun()
        events = [StreamEvent(boundary=each) for each in live.end(stop)]
        return [*events, StreamEvent(result=_result(live.spans, live.probabilities))]

    def reset(self) -> None:
        """Forget a live job, and listen to one frame, to prove that the model still does."""
        self._live = None
        block = np.zeros((1, CONTEXT + FRAME), dtype=np.float32)
        detector = self._open()
        detector.step(block, detector.start(), Stop())

    def close(self) -> None:
        """Let go of the model's weights."""
        self._detector = self._live = None

    def _begun(self) -> Listener:
        if self._live is None:
            raise RuntimeError("no live job has begun")
        return self._live

    def _open(self) -> Detector:
        if self._detector is None:
            raise RuntimeError("the session is closed")
        return self._detector


def _rules(job: Job) -> Rules:
    """What a job says that speech is, checked with its task."""
    options = check_options(job.options, SileroVadFamily.request_options, param="options")
    if job.task != "vad":
        raise InvalidRequestError(f"this model does vad, not {job.task}", param="task")
    given = [name for name, value in options.items() if value is not None]
    return Rules(**{name: number_option(options, name) for name in given})


def _result(spans: Sequence[Span], probabilities: Samples) -> Result:
    return Result(
        sample_rate=RATE,
        segments=tuple(
            Segment(span.start, span.end, confidence=_mean(probabilities, span.start, span.end))
            for span in spans
        ),
    )


def _mean(probabilities: Samples, start: int, end: int) -> float:
    """The mean probability of the frames of a stretch."""
    within = probabilities[start // FRAME : -(-end // FRAME)]
    return float(np.clip(within.mean(), 0, 1)) if len(within) else 0.0
