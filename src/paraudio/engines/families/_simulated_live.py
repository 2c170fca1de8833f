"""What a simulated session makes of input that is still coming, piece by piece.

Where the pieces are cut changes nothing of what is heard: words, turns and boundaries depend on the
sound alone. Text is spoken as it was cut, one tone for each piece.
"""

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from paraudio.engines._pieces import sound_piece, text_piece
from paraudio.engines._values import (
    Audio,
    Boundary,
    Job,
    Piece,
    Result,
    Samples,
    Segment,
    StreamEvent,
    Word,
)
from paraudio.engines.families._simulated_sound import (
    LoudFinder,
    no_text,
    spans,
    tone,
    turns_between,
)
from paraudio.spec import Json

_WORD = "word"


class Listener(Protocol):
    """One live job."""

    def take(self, piece: Piece) -> list[StreamEvent]:
        """What is known by one more piece.

        Raises:
            InvalidRequestError: The piece is of the wrong kind.
        """

    def end(self) -> list[StreamEvent]:
        """What is left at the end of the input, the whole result last.

        Raises:
            InvalidRequestError: There was nothing to work on.
        """


def listener(job: Job, maker: Mapping[str, Json]) -> Listener:
    """What does a live job; ``maker`` says who, for the result."""
    if job.task == "tts":
        return _Speaker(job, maker)
    kinds: dict[str, type[_Hearing]] = {"asr": _Words, "diar": _Turns, "vad": _Speech}
    return kinds[job.task](job, maker)


class _Speaker:
    """Speaks each piece of text as it comes."""

    def __init__(self, job: Job, maker: Mapping[str, Json]) -> None:
        self._job = job
        self._maker = maker
        self._texts: list[str] = []
        self._sounds: list[Audio] = []

    def take(self, piece: Piece) -> list[StreamEvent]:
        text = text_piece(piece)
        if not text:
            return []
        sound = tone(replace(self._job, text=text))
        self._texts.append(text)
        self._sounds.append(sound)
        return [StreamEvent(audio=sound)]

    def end(self) -> list[StreamEvent]:
        if not self._sounds:
            raise no_text()
        text = "".join(self._texts)
        samples = np.concatenate([sound.samples for sound in self._sounds])
        audio = Audio(samples, self._sounds[0].rate)
        artifacts = {**self._maker, "text": text}
        return [StreamEvent(result=Result(text=text, audio=audio, artifacts=artifacts))]


class _Hearing:
    """Counts what is heard; what it is taken for is a subclass's business."""

    def __init__(self, job: Job, maker: Mapping[str, Json]) -> None:
        self.job = job
        self.rate = 0
        self.frames = 0
        self._maker = maker
        self._checksum = 0

    def take(self, piece: Piece) -> list[StreamEvent]:
        audio = sound_piece(piece, self.rate or None)
        self.rate = audio.rate
        samples = np.ascontiguousarray(audio.samples)
        before, self.frames = self.frames, self.frames + len(samples)
        self._checksum = zlib.crc32(samples.tobytes(), self._checksum)
        return self.hear(samples, before)

    def end(self) -> list[StreamEvent]:
        asked = self.job.text or self.job.prompt or ""
        artifacts = {
            **self._maker,
            "text": asked,
            "frames": self.frames,
            "checksum": self._checksum,
        }
        events, result = self.conclude()
        whole = replace(result, sample_rate=self.rate, artifacts=artifacts)
        return [*events, StreamEvent(result=whole)]

    def hear(self, samples: Samples, before: int) -> list[StreamEvent]:
        """What more sound tells, behind the ``before`` frames that were heard already."""
        raise NotImplementedError

    def conclude(self) -> tuple[list[StreamEvent], Result]:
        """What the end tells, and the whole."""
        raise NotImplementedError

    def _seconds(self, before: int) -> range:
        """The seconds that are complete now, and were not ``before``; counted from 0."""
        return range(before // self.rate, self.frames // self.rate)


class _Words(_Hearing):
    """A word for each second, known as a partial first."""

    def hear(self, samples: Samples, before: int) -> list[StreamEvent]:  # noqa: ARG002 - see above
        events = []
        for second in self._seconds(before):
            events.append(StreamEvent(partial=f"{_WORD}{second + 1}"))
            events.append(_word_event(second))
        return events

    def conclude(self) -> tuple[list[StreamEvent], Result]:
        words = tuple(
            Word(f"{_WORD}{second + 1}", start, end)
            for second, (start, end) in enumerate(spans(0, self.frames, self.rate))
        )
        has_rest = bool(self.frames and self.frames % self.rate)
        text = " ".join(word.text for word in words)
        return [_word_event(len(words) - 1)] * has_rest, Result(
            text=text,
            language=self.job.language or "en",
            segments=(Segment(0, self.frames, text),) if self.frames else (),
            words=words,
        )


class _Turns(_Hearing):
    """A turn for each second; two speakers take turns."""

    def hear(self, samples: Samples, before: int) -> list[StreamEvent]:  # noqa: ARG002 - see above
        seconds = self._seconds(before)
        turns = turns_between(seconds.start * self.rate, seconds.stop * self.rate, self.rate)
        return [StreamEvent(turns=(turn,)) for turn in turns]

    def conclude(self) -> tuple[list[StreamEvent], Result]:
        turns = turns_between(0, self.frames, self.rate)
        has_rest = bool(self.frames and self.frames % self.rate)
        return [StreamEvent(turns=turns[-1:])] * has_rest, Result(speaker_turns=turns)


class _Speech(_Hearing):
    """Where it is loud, somebody speaks."""

    def __init__(self, job: Job, maker: Mapping[str, Json]) -> None:
        super().__init__(job, maker)
        self._finder: LoudFinder | None = None
        self._found: list[Boundary] = []

    def hear(self, samples: Samples, before: int) -> list[StreamEvent]:  # noqa: ARG002 - see above
        if self._finder is None:
            self._finder = LoudFinder(self.rate)
        return self._noted(self._finder.take(samples))

    def conclude(self) -> tuple[list[StreamEvent], Result]:
        events = [] if self._finder is None else self._noted(self._finder.end())
        places = [boundary.at for boundary in self._found]
        stretches = zip(places[::2], places[1::2], strict=True)
        return events, Result(segments=tuple(Segment(start, end) for start, end in stretches))

    def _noted(self, found: list[Boundary]) -> list[StreamEvent]:
        self._found += found
        return [StreamEvent(boundary=boundary) for boundary in found]


def _word_event(second: int) -> StreamEvent:
    return StreamEvent(text=f"{' ' if second else ''}{_WORD}{second + 1}")
