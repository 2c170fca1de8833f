"""Transcription of English by PocketSphinx, with the time and the confidence of each word.

The library holds Python's lock for whole calls, so it must run in a process of its own, and is fed
in small pieces so that a stop is seen between them. Silence gives it words all the same; so its own
voice detector says first where somebody speaks, and only that is decoded, each stretch from the
same starting point: a result never depends on what was heard before it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from paraudio.audio import resample
from paraudio.engines._options import Option, check_options
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Load, Result, Samples, Segment, StreamEvent, Word
from paraudio.engines.families._spans import RATE, Rules, Span, find_speech
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

_MAX_SESSIONS: Final = 16
_MEMORY: Final = 160 << 20
_FRAME: Final = 480
"""Samples of a frame of the voice detector: 30 ms."""

_PIECE: Final = 1600
"""Samples that are decoded between two looks at the stop: 100 ms."""

_HOP: Final = 160
"""Samples of a frame of the decoder: 10 ms."""

_LOUDNESS: Final = 0.1
"""Root mean square that speech is brought to, of full scale: the models were trained near it."""

_FAINTEST: Final = 1e-3
_ABOVE_NOISE: Final = 1.8
"""Sound whose loudest frames are not this much louder than its quietest ones holds no speech."""

_RULES: Final = Rules(min_speech_ms=150, min_silence_ms=400, speech_pad_ms=250, max_speech_s=20)
_ENGLISH: Final = "en"
_SEARCH: Final = {"pl_window": 5}


class PocketsphinxAsrFamily:
    """Transcription by PocketSphinx's acoustic models."""

    name: str = "pocketsphinx_asr"
    tasks: Mapping[Task, frozenset[str]] = {"asr": frozenset({"offline"})}
    load_options: tuple[Option, ...] = ()
    session_options: tuple[Option, ...] = ()
    request_options: tuple[Option, ...] = ()
    isolation: IsolationName | None = "process"
    advertises: str = (
        "up to 16 slots: each session has a decoder and a process of its own; "
        "a result never depends on another"
    )

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Find the model's files.

        Raises:
            InvalidRequestError: ``path`` names no folder with an acoustic model, a language model
                and a dictionary.
        """
        _files(load)
        return {"sample_rate": RATE, "languages": ["en-US"]}

    def estimate(self, load: Load) -> int:
        """Bytes for the decoder with its models."""
        files = _files(load)
        sizes = (files.language_model.stat().st_size, files.dictionary.stat().st_size)
        return sum(sizes) + _MEMORY

    def load(self, load: Load, stop: Stop) -> "PocketsphinxAsrModel":
        """Check the files; each session loads its own decoder.

        Raises:
            InvalidRequestError: ``path`` names no such model.
            Stopped: ``stop`` was set.
        """
        stop.check()
        return PocketsphinxAsrModel(_files(load))


@dataclass(frozen=True, slots=True)
class _Files:
    """The three parts of a model."""

    acoustic_model: Path
    language_model: Path
    dictionary: Path


def _files(load: Load) -> _Files:
    """The parts of a model in a folder laid out as the package lays out its own.

    Raises:
        InvalidRequestError: One of them is missing; names ``path``.
    """
    root = Path(load.path or _library().get_model_path()) / "en-us"
    files = _Files(root / "en-us", root / "en-us.lm.bin", root / "cmudict-en-us.dict")
    needed = (files.acoustic_model / "mdef", files.language_model, files.dictionary)
    for file in needed:
        if not file.is_file():
            raise InvalidRequestError(
                f"path must be a folder with en-us/ as the pocketsphinx package has it; "
                f"{load.path!r} lacks {file.relative_to(root.parent)}",
                param="path",
            )
    return files


class PocketsphinxAsrModel:
    """Where a decoder is loaded from."""

    def __init__(self, files: _Files) -> None:
        self._files = files

    def capacity(self) -> int:
        """As many as there can be slots: decoders share nothing."""
        return _MAX_SESSIONS

    def voices(self) -> tuple[str, ...]:
        """None."""
        return ()

    def session(self) -> "PocketsphinxAsrSession":
        """Load a decoder."""
        return PocketsphinxAsrSession(self._files)

    def close(self) -> None:
        """There is nothing beyond the sessions."""


class PocketsphinxAsrSession:
    """Transcribes. The decoder is set back to its first state before each stretch."""

    def __init__(self, files: _Files) -> None:
        library = _library()
        config = library.Config(
            loglevel="FATAL",
            hmm=str(files.acoustic_model),
            lm=str(files.language_model),
            dict=str(files.dictionary),
            **_SEARCH,
        )
        self._decoder: Any = library.Decoder(config)
        self._means: str = self._decoder.get_cmn()
        self._detector: Any = library.Vad(mode=3)

    def prepare(self, job: Job) -> object:
        """Check a job and bring its sound to 16 kHz.

        Returns:
            Samples at 16 kHz, shape [frames].

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """
        check_options(job.options, PocketsphinxAsrFamily.request_options, param="options")
        if job.task != "asr":
            raise InvalidRequestError(f"this model does asr, not {job.task}", param="task")
        if job.language and job.language.replace("_", "-").split("-")[0].lower() != _ENGLISH:
            raise InvalidRequestError(
                f"language must be en, en-US or nothing, not {job.language!r}", param="language"
            )
        if job.audio is None:
            raise InvalidRequestError("audio is needed", param="audio")
        return _without_hum(resample(job.audio, RATE).samples)

    def run(self, prepared: object, stop: Stop) -> Result:
        """Transcribe the whole sound.

        Raises:
            Stopped: ``stop`` was set.
        """
        return _result(list(self._segments(_samples(prepared), stop)))

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Yield the text of each stretch of speech, then the whole result.

        Raises:
            Stopped: ``stop`` was set.
        """
        heard: list[tuple[Segment, list[Word]]] = []
        for segment in self._segments(_samples(prepared), stop):
            heard.append(segment)
            text = segment[0].text
            yield StreamEvent(text=text if len(heard) == 1 else f" {text}")
        yield StreamEvent(result=_result(heard))

    def reset(self) -> None:
        """Forget an utterance that was stopped, and decode a moment of silence as a proof."""
        self._decode(np.zeros(RATE // 2, np.float32), Stop())

    def close(self) -> None:
        """Let go of the decoder."""
        self._decoder = self._detector = None

    def _segments(self, sound: Samples, stop: Stop) -> Iterator[tuple[Segment, list[Word]]]:
        """Decode each stretch of speech that has words."""
        spans = self._spoken(sound)
        if not spans:
            return
        loudness = _rms(np.concatenate([sound[span.start : span.end] for span in spans]))
        self._decoder.set_cmn(self._means)
        for span in spans:
            speech = sound[span.start : span.end] * (_LOUDNESS / max(loudness, _FAINTEST))
            words = [_shifted(word, span) for word in self._decode(speech, stop)]
            if words:
                yield _segment(words), words

    def _spoken(self, sound: Samples) -> list[Span]:
        """Where somebody speaks, as the library's voice detector hears it."""
        loud, quiet = _levels(sound)
        if loud < _FAINTEST or loud < _ABOVE_NOISE * quiet:
            return []
        data = _pcm(sound * min(20.0, 2 * _LOUDNESS / loud))
        step = 2 * _FRAME
        data += b"\0" * (-len(data) % step)
        flags = [
            float(self._detector.is_speech(data[at : at + step]))
            for at in range(0, len(data), step)
        ]
        return find_speech(flags, len(sound), _RULES, frame=_FRAME)

    def _decode(self, speech: Samples, stop: Stop) -> list[Word]:
        """The words of one stretch, in samples from its beginning.

        An utterance is always ended, also when it is stopped: the decoder begins no other one
        before.
        """
        data = _pcm(speech)
        self._decoder.start_utt()
        try:
            for at in range(0, len(data), 2 * _PIECE):
                stop.check()
                self._decoder.process_raw(data[at : at + 2 * _PIECE])
        finally:
            self._decoder.end_utt()
        return [word for part in self._decoder.seg() or () if (word := _word(part)) is not None]


def _library() -> Any:
    """The module ``pocketsphinx``, imported where it is needed: in a worker."""
    return import_module("pocketsphinx")


def _samples(prepared: object) -> Samples:
    if not isinstance(prepared, np.ndarray):
        raise TypeError("run takes what prepare gave")
    return prepared


def _without_hum(sound: Samples) -> Samples:
    """The sound less its moving average over 10 ms: no offset, no hum below the voice."""
    if len(sound) <= _HOP:
        return np.zeros(len(sound), np.float32)
    sums = np.cumsum(np.pad(sound.astype(np.float64), _HOP // 2))
    means = (sums[_HOP:] - sums[:-_HOP]) / _HOP
    result: Samples = (sound - np.pad(means, (0, len(sound) - len(means)))[: len(sound)]).astype(
        np.float32
    )
    return result


def _levels(sound: Samples) -> tuple[float, float]:
    """How loud the loudest frames are, and how loud the quietest ones."""
    count = len(sound) // _FRAME
    if count == 0:
        return 0.0, 0.0
    frames = sound[: count * _FRAME].reshape(count, _FRAME)
    levels = np.sort(np.sqrt(np.mean(frames**2, axis=1)))
    return float(levels[-min(5, count)]), float(np.percentile(levels, 10))


def _rms(sound: Samples) -> float:
    return float(np.sqrt(np.mean(sound**2)))


def _pcm(sound: Samples) -> bytes:
    return (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()


def _word(part: Any) -> Word | None:
    """A word of the decoder's; None for its marks of silence and noise."""
    text = part.word.partition("(")[0]
    if not text or text[0] in "<[+":
        return None
    confidence = min(max(float(part.prob), 0.0), 1.0)
    return Word(text, part.start_frame * _HOP, (part.end_frame + 1) * _HOP, confidence)


def _shifted(word: Word, span: Span) -> Word:
    start = min(span.start + word.start, span.end)
    return Word(word.text, start, min(span.start + word.end, span.end), word.confidence)


def _segment(words: list[Word]) -> Segment:
    known = [word.confidence for word in words if word.confidence is not None]
    text = " ".join(word.text for word in words)
    return Segment(words[0].start, words[-1].end, text, sum(known) / len(known) if known else None)


def _result(heard: list[tuple[Segment, list[Word]]]) -> Result:
    return Result(
        text=" ".join(segment.text for segment, _ in heard),
        language="en-US",
        sample_rate=RATE,
        segments=tuple(segment for segment, _ in heard),
        words=tuple(word for _, words in heard for word in words),
    )
