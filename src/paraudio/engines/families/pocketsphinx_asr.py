"""CMU PocketSphinx: small English speech recognition with word times, on any processor.

The library holds the interpreter's lock for the whole of each call, so it must run in a process of
its own; the sound is fed in tenths of a second, between which a stop is seen. What is not speech
never reaches it (see ``_speech_gate``), and each stretch of speech is one utterance of at most
twenty seconds, because the library searches once more through all of it when it ends. Each request
begins with a new feature extraction: the old one's cepstral mean and noise tracker remember what
was heard before, and results must not depend on that.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from paraudio.audio import resample, to_int16
from paraudio.engines._options import Option, check_options, flag_option, text_option
from paraudio.engines._stop import Stop
from paraudio.engines._values import Audio, Job, Load, Result, Samples, Segment, StreamEvent, Word
from paraudio.engines.families._spans import RATE, Span
from paraudio.engines.families._speech_gate import hearing_gain, speech_spans
from paraudio.engines.families._sphinx_model import SphinxFiles, find_files
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_CHUNK: Final = RATE // 10
_HOP: Final = RATE // 100
_STRICTEST: Final = 3
_RUN_MEMORY: Final = 40 << 20

_FILLER: Final = re.compile(r"[<\[+]")
"""What the library writes for silence and noises begins with one of these."""

_VARIANT: Final = re.compile(r"\(\d+\)$")
"""Behind a word: which of its pronunciations was heard."""

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
        self._decoder = decoder
        self._language = language
        self._inside = False

    def prepare(self, job: Job) -> object:
        """Check a job.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        options = check_options(job.options, PocketsphinxAsrFamily.request_options, param="options")
        if job.task != "asr":
            raise InvalidRequestError(f"this model does asr, not {job.task}", param="task")
        if job.audio is None:
            raise InvalidRequestError("audio must be the sound to transcribe", param="audio")
        asked = _primary(job.language or self._language)
        if asked != _primary(self._language):
            raise InvalidRequestError(
                f"language must be {self._language!r}, or empty, for this model, not "
                f"{job.language!r}",
                param="language",
            )
        return _Listening(job.audio, flag_option(options, "vad"))

    def run(self, prepared: object, stop: Stop) -> Result:
        """Transcribe all of it.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next run.
        """
        return self._whole(list(self._hear(prepared, stop)))

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Yield the text of each stretch of speech as it is understood, then the whole.

        Raises:
            Stopped: ``stop`` was set; ``reset`` before the next run.
        """
        heard: list[tuple[Word, ...]] = []
        for words in self._hear(prepared, stop):
            space = " " if heard else ""
            heard.append(words)
            yield StreamEvent(text=space + _text(words))
        yield StreamEvent(result=self._whole(heard))

    def reset(self) -> None:
        """End what a stop cut short, and listen to a moment of silence to prove that it works."""
        if self._inside:
            self._decoder.end_utt()
            self._inside = False
        self._decode(np.zeros(_CHUNK, dtype=np.float32), Stop())

    def close(self) -> None:
        """Let go of the decoder, and with it of its weights."""
        self._decoder = None

    def _hear(self, prepared: object, stop: Stop) -> Iterator[tuple[Word, ...]]:
        """The words of each stretch that has any, in order."""
        if not isinstance(prepared, _Listening):
            raise TypeError(f"not a prepared job: {prepared!r}")
        samples = resample(prepared.audio, RATE, check=stop.check).samples
        spans = _spans(samples, stop, vad=prepared.vad)
        gain = np.float32(hearing_gain(samples, spans))
        self._decoder.reinit_feat()
        for span in spans:
            found = self._decode(samples[span.start : span.end] * gain, stop)
            words = tuple(_words(found, span))
            if words:
                yield words

    def _decode(self, samples: Samples, stop: Stop) -> list[Any]:
        """One utterance: what the library calls its segments."""
        stop.check()
        self._decoder.start_utt()
        self._inside = True
        for start in range(0, len(samples), _CHUNK):
            stop.check()
            chunk = to_int16(samples[start : start + _CHUNK])
            self._decoder.process_raw(chunk.tobytes(), False, False)
        stop.check()
        self._decoder.end_utt()
        self._inside = False
        return list(self._decoder.seg() or ())

    def _whole(self, heard: list[tuple[Word, ...]]) -> Result:
        segments = tuple(
            Segment(words[0].start, words[-1].end, _text(words), _confidence(words))
            for words in heard
        )
        return Result(
            text=" ".join(segment.text for segment in segments),
            language=self._language,
            sample_rate=RATE,
            segments=segments,
            words=tuple(word for words in heard for word in words),
        )


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


def _spans(samples: Samples, stop: Stop, *, vad: bool) -> list[Span]:
    from pocketsphinx import Vad  # noqa: PLC0415 - the library, where it is used

    if vad:
        return speech_spans(samples, Vad(_STRICTEST, RATE, 0.03).is_speech, stop)
    step = 20 * RATE
    return [Span(at, min(at + step, len(samples))) for at in range(0, len(samples), step)]


def _words(found: list[Any], span: Span) -> Iterator[Word]:
    """The words of an utterance, at their places in the whole sound."""
    for each in found:
        if _FILLER.match(each.word):
            continue
        start = span.start + each.start_frame * _HOP
        end = span.start + (each.end_frame + 1) * _HOP
        confidence = float(np.clip(each.prob, 0.0, 1.0))
        yield Word(_VARIANT.sub("", each.word), start, min(end, span.end), confidence)


def _text(words: tuple[Word, ...]) -> str:
    return " ".join(word.text for word in words)


def _confidence(words: tuple[Word, ...]) -> float:
    return sum(word.confidence or 0.0 for word in words) / len(words)


def _primary(tag: str) -> str:
    """The language of a tag, without its region."""
    return tag.replace("_", "-").split("-")[0].lower()
