"""CMU PocketSphinx: small English speech recognition with word times, on any processor.

The library holds the interpreter's lock for the whole of each call, so it must run in a process of
its own; the sound is fed in tenths of a second, between which a stop is seen. What is not speech
never reaches it (see ``_speech_gate``), and each stretch of speech is one utterance of at most
twenty seconds, because the library searches once more through all of it when it ends. Each request
begins with a new feature extraction: the old one's cepstral mean and noise tracker remember what
was heard before, and results must not depend on that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from paraudio.audio import resample
from paraudio.engines._options import Option, check_options, flag_option, text_option
from paraudio.engines._stop import Stop
from paraudio.engines._values import Audio, Job, Load, Piece, Result, Samples, StreamEvent, Word
from paraudio.engines.families._spans import RATE, Span
from paraudio.engines.families._speech_gate import hearing_gain, speech_spans
from paraudio.engines.families._sphinx_decoding import (
    CHUNK,
    LONGEST,
    Decoding,
    text_of,
    whole_of,
    words_of,
)
from paraudio.engines.families._sphinx_live import LiveHearing
from paraudio.engines.families._sphinx_model import SphinxFiles, find_files
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_STRICTEST: Final = 3
_RUN_MEMORY: Final = 40 << 20

# On sixty read sentences the fast search took 0.55 of the time, at 10.9 instead of 7.9% errors.
_PRECISE: Final = {"pl_window": 5}
_FAST: Final = {"pl_window": 10, "ds": 2, "topn": 2, "maxhmmpf": 3000, "maxwpf": 10}


class PocketsphinxAsrFamily:
    """Transcription by PocketSphinx."""

    name: str = "pocketsphinx_asr"
    tasks: Mapping[Task, frozenset[str]] = {"asr": frozenset({"offline", "streaming"})}
    load_options: tuple[Option, ...] = (
        Option(
            name="language",
            kind=str,
            default="en",
            doc="The language of the model in path, as a tag; requests for others are refused.",
        ),
    )
    session_options: tuple[Option, ...] = (
        Option(
            name="fast",
            kind=bool,
            default=False,
            doc="Search less: nearly twice as fast, with half as many errors again.",
        ),
    )
    request_options: tuple[Option, ...] = (
        Option(
            name="vad",
            kind=bool,
            default=True,
            doc="Listen to what is speech only; without it, silence and noise become words.",
        ),
    )
    isolation: IsolationName | None = "process"
    imitates: bool = False
    advertises: str = (
        "up to 16 slots: each session is a decoder in a process of its own and shares nothing"
    )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Find the model's files.

        Raises:
            InvalidRequestError: ``path`` holds no such model.
        """
        files = find_files(load)
        options = check_options(load.options, self.load_options, param="load_options")
        return {
            "sample_rate": RATE,
            "languages": [text_option(options, "language")],
            "dictionary": files.dictionary.name,
        }

    def estimate(self, load: Load) -> int:
        """Bytes for the model, of which each session loads its own, and for a search."""
        return find_files(load).size() * 2 + _RUN_MEMORY

    def load(self, load: Load, stop: Stop) -> "PocketsphinxAsrModel":
        """Find the files; each session reads them for itself.

        Raises:
            InvalidRequestError: ``path`` holds no such model.
            Stopped: ``stop`` was set.
        """
        files = find_files(load)
        options = check_options(load.options, self.load_options, param="load_options")
        session_options = check_options(
            load.session_options, self.session_options, param="session_options"
        )
        stop.check()
        return PocketsphinxAsrModel(
            files, text_option(options, "language"), fast=flag_option(session_options, "fast")
        )


class PocketsphinxAsrModel:
    """A model's files; the library keeps its weights in each decoder."""

    def __init__(self, files: SphinxFiles, language: str, *, fast: bool) -> None:
        self._files = files
        self._language = language
        self._fast = fast

    def capacity(self) -> int:
        """As many sessions as there can be slots."""
        return _MAX_SESSIONS

    def voices(self) -> tuple[str, ...]:
        """None."""
        return ()

    def session(self) -> "PocketsphinxAsrSession":
        """Build a decoder, which takes most of a second."""
        return PocketsphinxAsrSession(_decoder(self._files, fast=self._fast), self._language)

    def close(self) -> None:
        """There is nothing to free."""


@dataclass(frozen=True, slots=True)
class _Listening:
    """A prepared job: sound at any rate, and whether to listen to speech only."""

    audio: Audio
    vad: bool


class PocketsphinxAsrSession:
    """A decoder, and nothing beside it."""

    def __init__(self, decoder: Any, language: str) -> None:
        self._decoding: Decoding | None = Decoding(decoder)
        self._language = language
        self._live: LiveHearing | None = None

    def prepare(self, job: Job) -> object:
        """Check a job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        vad = self._checked(job)
        if job.audio is None:
            raise InvalidRequestError("audio must be the sound to transcribe", param="audio")
        return _Listening(job.audio, vad)

    def _checked(self, job: Job) -> bool:
        """Check what does not depend on the sound; whether to listen to speech only."""
        options = check_options(job.options, PocketsphinxAsrFamily.request_options, param="options")
        if job.task != "asr":
            raise InvalidRequestError(f"this model does asr, not {job.task}", param="task")
        asked = _primary(job.language or self._language)
        if asked != _primary(self._language):
            raise InvalidRequestError(
                f"language must be {self._language!r}, or empty, for this model, not "
                f"{job.language!r}",
                param="language",
            )
        return flag_option(options, "vad")

    def run(self, prepared: object, stop: Stop) -> Result:
        """Transcribe all of it.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next run.
        """
        return whole_of(list(self._hear(prepared, stop)), self._language)

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Yield the text of each stretch of speech as it is understood, then the whole.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next run.
        """
        heard: list[tuple[Word, ...]] = []
        for words in self._hear(prepared, stop):
            space = " " if heard else ""
            heard.append(words)
            yield StreamEvent(text=space + text_of(words))
        yield StreamEvent(result=whole_of(heard, self._language))

    def begin(self, job: Job, stop: Stop) -> None:
        """Check a live job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
            Stopped: ``stop`` was set.
        """
        vad = self._checked(job)
        stop.check()
        decoding = self._open()
        decoding.renew()
        self._live = LiveHearing(decoding, _judge() if vad else None)

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        """Listen to a piece: the text of each utterance that ends, and a guess at one that goes on.

        Raises:
            InvalidRequestError: It is no sound, or at another rate than the one before.
            Stopped: ``stop`` was set; ``reset`` before the next job.
        """
        return self._begun().take(piece, stop)

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        """Listen to what is left, and give the whole.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next job.
        """
        live = self._begun()
        events = live.end(stop)
        return [*events, StreamEvent(result=whole_of(live.heard, self._language))]

    def reset(self) -> None:
        """End what was cut short, and listen to a moment of silence to prove that it works."""
        self._live = None
        decoding = self._open()
        decoding.recover()
        decoding.decode(np.zeros(CHUNK, dtype=np.float32), Stop())

    def close(self) -> None:
        """Let go of the decoder, and with it of its weights."""
        self._decoding = self._live = None

    def _open(self) -> Decoding:
        if self._decoding is None:
            raise RuntimeError("the session is closed")
        return self._decoding

    def _begun(self) -> LiveHearing:
        if self._live is None:
            raise RuntimeError("no live job has begun")
        return self._live

    def _hear(self, prepared: object, stop: Stop) -> Iterator[tuple[Word, ...]]:
        """The words of each stretch that has any, in order."""
        if not isinstance(prepared, _Listening):
            raise TypeError(f"not a prepared job: {prepared!r}")
        samples = resample(prepared.audio, RATE, check=stop.check).samples
        spans = _spans(samples, stop, vad=prepared.vad)
        gain = np.float32(hearing_gain(samples, spans))
        decoding = self._open()
        decoding.renew()
        for span in spans:
            found = decoding.decode(samples[span.start : span.end] * gain, stop)
            words = tuple(words_of(found, span))
            if words:
                yield words


def _decoder(files: SphinxFiles, *, fast: bool) -> Any:
    from pocketsphinx import Config, Decoder  # noqa: PLC0415 - the library, where it is used

    return Decoder(
        Config(
            hmm=str(files.acoustic),
            dict=str(files.dictionary),
            lm=str(files.language),
            loglevel="FATAL",
            **(_FAST if fast else _PRECISE),
        )
    )


def _judge() -> Callable[[bytes], bool]:
    """What judges the frames of one sound; it remembers the noise of that."""
    from pocketsphinx import Vad  # noqa: PLC0415 - the library, where it is used

    is_speech: Callable[[bytes], bool] = Vad(_STRICTEST, RATE, 0.03).is_speech
    return is_speech


def _spans(samples: Samples, stop: Stop, *, vad: bool) -> list[Span]:
    if vad:
        return speech_spans(samples, _judge(), stop)
    return [Span(at, min(at + LONGEST, len(samples))) for at in range(0, len(samples), LONGEST)]


def _primary(tag: str) -> str:
    """The language of a tag, without its region."""
    return tag.replace("_", "-").split("-")[0].lower()
