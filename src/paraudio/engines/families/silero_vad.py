"""Silero's voice activity detector: where in a sound somebody speaks.

Two forms of the same model are taken: the one that reads a whole row of frames in one call
(``silero_vad_16k_sequence.onnx``), and the one that reads frame by frame (``silero_vad.onnx``).
Both give the same probabilities. Each frame carries the last 64 samples of the one before: without
them the model finds nothing and says nothing about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from paraudio.audio import resample
from paraudio.engines._options import Option, check_options, number_option
from paraudio.engines._ort import OrtSession, Tensor
from paraudio.engines._stop import Stop
from paraudio.engines._values import Audio, Job, Load, Result, Samples, Segment
from paraudio.engines.families._files import check_inputs, open_model, weights_file
from paraudio.engines.families._memory import give_back
from paraudio.engines.families._spans import RATE, Rules, find_speech
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_FRAME: Final = 512
_CONTEXT: Final = 64
_STATE: Final = 128
_BLOCK: Final = 512
"""Frames of one call, sixteen seconds: what a stop waits for at most, and what memory holds."""

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
    advertises: str = (
        "up to 16 slots: sessions share one onnxruntime session, each with its own state; "
        "16 requests at once give the segments of 16 in a row"
    )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Find the model's file.

        Raises:
            InvalidRequestError: ``path`` or ``weight`` names none.
        """
        return {"sample_rate": RATE, "file": weights_file(load, names=_PREFERRED).name}

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
        names = {info.name for info in session.inputs}
        if "state" in names:
            check_inputs(session, {"input", "state", "sr"}, "Silero detector of 16 kHz")
            return SileroVadModel(_Stepwise(session))
        check_inputs(session, {"input", "h", "c"}, "Silero detector of 16 kHz")
        return SileroVadModel(_Sequence(session))


class SileroVadModel:
    """An open detector."""

    def __init__(self, detector: "_Detector") -> None:
        self._detector: _Detector | None = detector

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
    """Listens. The state of a run lives in the run."""

    def __init__(self, detector: "_Detector") -> None:
        self._detector: _Detector | None = detector

    def prepare(self, job: Job) -> object:
        """Check a job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        options = check_options(job.options, SileroVadFamily.request_options, param="options")
        if job.task != "vad":
            raise InvalidRequestError(f"this model does vad, not {job.task}", param="task")
        if job.audio is None:
            raise InvalidRequestError("audio must be the sound to listen to", param="audio")
        given = [name for name, value in options.items() if value is not None]
        rules = Rules(**{name: number_option(options, name) for name in given})
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
        spans = find_speech(probabilities.tolist(), len(samples), prepared.rules, frame=_FRAME)
        return Result(
            sample_rate=RATE,
            segments=tuple(
                Segment(span.start, span.end, confidence=_mean(probabilities, span.start, span.end))
                for span in spans
            ),
        )

    def reset(self) -> None:
        """Listen to one frame, to prove that the model still does; there is nothing to forget."""
        block = np.zeros((1, _CONTEXT + _FRAME), dtype=np.float32)
        detector = self._open()
        detector.step(block, detector.start(), Stop())

    def close(self) -> None:
        """Let go of the model's weights."""
        self._detector = None

    def _open(self) -> "_Detector":
        if self._detector is None:
            raise RuntimeError("the session is closed")
        return self._detector


def frames(samples: Samples) -> Iterator[Samples]:
    """The frames of a sound, each behind the last samples of the one before.

    Args:
        samples: Shape [samples], at 16 kHz.

    Yields:
        Shape [frames, 576]; silence stands before the first frame and fills the last.
    """
    count = -(-len(samples) // _FRAME)
    if not count:
        return
    padded = np.zeros(_CONTEXT + count * _FRAME, dtype=np.float32)
    padded[_CONTEXT : _CONTEXT + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, _CONTEXT + _FRAME)[::_FRAME]
    for first in range(0, count, _BLOCK):
        yield np.ascontiguousarray(windows[first : first + _BLOCK])


class _Detector(Protocol):
    """One form of the model."""

    def start(self) -> Sequence[Tensor]:
        """The state before the first frame."""

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        """Probabilities of a block of frames, shape [frames], and the state behind it."""


class _Sequence:
    """Reads a row of frames in one call."""

    def __init__(self, session: OrtSession) -> None:
        self._session = session

    def start(self) -> Sequence[Tensor]:
        return [np.zeros((1, 1, _STATE), dtype=np.float32) for _ in range(2)]

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        hidden, cell = state
        found, *state = self._session.run({"input": block, "h": hidden, "c": cell}, stop)
        return found.reshape(-1), state


class _Stepwise:
    """Reads one frame a call."""

    def __init__(self, session: OrtSession) -> None:
        self._session = session
        self._rate = np.array(RATE, dtype=np.int64)

    def start(self) -> Sequence[Tensor]:
        return [np.zeros((2, 1, _STATE), dtype=np.float32)]

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        (current,) = state
        found = np.empty(len(block), dtype=np.float32)
        for index, frame in enumerate(block):
            feeds = {"input": frame[np.newaxis], "state": current, "sr": self._rate}
            probability, current = self._session.run(feeds, stop)
            found[index] = probability.item()
        return found, [current]


def _mean(probabilities: Samples, start: int, end: int) -> float:
    """The mean probability of the frames of a stretch."""
    within = probabilities[start // _FRAME : -(-end // _FRAME)]
    return float(np.clip(within.mean(), 0, 1)) if len(within) else 0.0
