"""PocketSphinx's decoder in our terms: utterances of sound in, words at their places out."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from paraudio.audio import to_int16
from paraudio.engines._stop import Stop
from paraudio.engines._values import Result, Samples, Segment, Word
from paraudio.engines.families._spans import RATE, Span

CHUNK: Final = RATE // 10
"""Samples of one call of the library, which holds the interpreter's lock: a tenth of a second."""

LONGEST: Final = 20 * RATE
"""Samples of an utterance at most: the library searches through all of it again at its end."""

_HOP: Final = RATE // 100

_FILLER: Final = re.compile(r"[<\[+]")
"""What the library writes for silence and noises begins with one of these."""

_VARIANT: Final = re.compile(r"\(\d+\)$")
"""Behind a word: which of its pronunciations was heard."""


class Decoding:
    """A decoder, fed in tenths of a second from the start of an utterance on.

    Attributes:
        inside: Whether an utterance is open.
    """

    def __init__(self, decoder: Any) -> None:
        self.inside = False
        self._decoder = decoder
        self._rest: Samples = np.empty(0, dtype=np.float32)

    def renew(self) -> None:
        """Forget the loudness and the noise of everything that was heard before."""
        self._decoder.reinit_feat()

    def start(self) -> None:
        """Begin an utterance."""
        self._decoder.start_utt()
        self.inside = True
        self._rest = self._rest[:0]

    def push(self, samples: Samples, stop: Stop) -> None:
        """Take more of the utterance.

        Raises:
            Stopped: ``stop`` was set.
        """
        sound = np.concatenate((self._rest, samples))
        whole = len(sound) // CHUNK * CHUNK
        self._rest = sound[whole:].copy()
        for start in range(0, whole, CHUNK):
            stop.check()
            self._process(sound[start : start + CHUNK])

    def end(self, stop: Stop) -> list[Any]:
        """End the utterance: what the library calls its segments.

        Raises:
            Stopped: ``stop`` was set.
        """
        stop.check()
        if len(self._rest):
            self._process(self._rest)
            stop.check()
        self._decoder.end_utt()
        self.inside = False
        return list(self._decoder.seg() or ())

    def decode(self, samples: Samples, stop: Stop) -> list[Any]:
        """A whole utterance.

        Raises:
            Stopped: ``stop`` was set.
        """
        stop.check()
        self.start()
        self.push(samples, stop)
        return self.end(stop)

    def guess(self) -> str:
        """What the open utterance is taken for so far; may be empty."""
        found = self._decoder.hyp()
        words = found.hypstr.split() if found is not None else ()
        return " ".join(_VARIANT.sub("", word) for word in words if not _FILLER.match(word))

    def recover(self) -> None:
        """End an utterance that was cut short."""
        if self.inside:
            self._decoder.end_utt()
            self.inside = False

    def _process(self, samples: Samples) -> None:
        self._decoder.process_raw(to_int16(samples).tobytes(), False, False)


def words_of(found: Sequence[Any], span: Span) -> Iterator[Word]:
    """The words of an utterance, at their places in the whole sound."""
    for each in found:
        if _FILLER.match(each.word):
            continue
        start = span.start + each.start_frame * _HOP
        end = span.start + (each.end_frame + 1) * _HOP
        confidence = float(np.clip(each.prob, 0.0, 1.0))
        yield Word(_VARIANT.sub("", each.word), start, min(end, span.end), confidence)


def text_of(words: Sequence[Word]) -> str:
    """The words in a row."""
    return " ".join(word.text for word in words)


def whole_of(heard: Sequence[tuple[Word, ...]], language: str) -> Result:
    """The result of the utterances that had words."""
    segments = tuple(
        Segment(words[0].start, words[-1].end, text_of(words), _confidence(words))
        for words in heard
    )
    return Result(
        text=" ".join(segment.text for segment in segments),
        language=language,
        sample_rate=RATE,
        segments=segments,
        words=tuple(word for words in heard for word in words),
    )


def _confidence(words: Sequence[Word]) -> float:
    return sum(word.confidence or 0.0 for word in words) / len(words)
