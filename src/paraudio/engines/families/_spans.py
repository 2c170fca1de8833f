"""From the probabilities of frames to stretches of speech.

The rules are those that Silero publishes beside its model (``get_speech_timestamps_from_probs`` in
silero-vad 6.2): speech begins with the first frame at ``threshold``, ends where it stays below
``threshold - 0.15`` for ``min_silence``, is dropped if shorter than ``min_speech``, is cut at its
longest pause where it is longer than ``max_speech``, and is padded into the silence around it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RATE: Final = 16_000
"""Samples a second of everything here."""

_HYSTERESIS: Final = 0.15
_LOWEST: Final = 0.01
_PAUSE: Final = RATE * 98 // 1000
"""A pause must be longer than this, in samples, to be where a long stretch is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What counts as speech.

    Attributes:
        threshold: Probability from which a frame is speech.
        min_speech_ms: Shorter stretches are dropped.
        min_silence_ms: Shorter pauses are part of a stretch.
        speech_pad_ms: What is added at both ends of a stretch.
        max_speech_s: Longer stretches are cut.
    """

    threshold: float = 0.5
    min_speech_ms: float = 250
    min_silence_ms: float = 100
    speech_pad_ms: float = 30
    max_speech_s: float = math.inf


@dataclass(slots=True)
class Span:
    """A stretch of speech, in samples."""

    start: int
    end: int


def find_speech(
    probabilities: Sequence[float], length: int, rules: Rules, *, frame: int
) -> list[Span]:
    """Find the stretches of speech.

    Args:
        probabilities: One for each frame, in order.
        length: Samples of the sound; its last frame may be short.
        rules: What counts as speech.
        frame: Samples of a frame.

    Returns:
        Stretches in order, padded, none overlapping another.
    """
    finder = _Finder(rules, frame)
    for index, probability in enumerate(probabilities):
        finder.take(index * frame, probability)
    finder.finish(length)
    _pad(finder.found, length, rules.speech_pad_ms * RATE / 1000)
    return finder.found


class _Finder:
    """Goes from frame to frame, inside or outside of speech.

    ``_quiet_since`` is where the pause began that may turn out to be the end, ``_pauses`` are those
    that turned out to be pauses: where they began and how long they were.
    """

    def __init__(self, rules: Rules, frame: int) -> None:
        self.found: list[Span] = []
        self._rules = rules
        self._leave = max(rules.threshold - _HYSTERESIS, _LOWEST)
        self._longest = rules.max_speech_s * RATE - frame - 2 * rules.speech_pad_ms * RATE / 1000
        self._start: int | None = None
        self._quiet_since: int | None = None
        self._pauses: list[tuple[int, int]] = []

    def take(self, at: int, probability: float) -> None:
        """The next frame, which begins at sample ``at``."""
        loud = probability >= self._rules.threshold
        if loud and self._quiet_since is not None:
            if at - self._quiet_since > _PAUSE:
                self._pauses.append((self._quiet_since, at - self._quiet_since))
            self._quiet_since = None
        if self._start is None:
            if loud:
                self._start = at
            return
        if at - self._start > self._longest and self._cut(self._start, at):
            return
        if probability < self._leave:
            self._quiet(at)

    def finish(self, length: int) -> None:
        """The sound ends at sample ``length``."""
        if self._start is not None and self._is_long(self._start, length):
            self.found.append(Span(self._start, length))

    def _cut(self, start: int, at: int) -> bool:
        """End a stretch that is too long; True where speech must begin anew."""
        if self._pauses:
            end, pause = max(self._pauses, key=lambda each: each[1])
            self.found.append(Span(start, end))
            self._leave_speech()
            self._start = end + pause
            return False
        self.found.append(Span(start, at))
        self._leave_speech()
        return True

    def _quiet(self, at: int) -> None:
        if self._start is None:
            return
        if self._quiet_since is None:
            self._quiet_since = at
        if at - self._quiet_since >= self._rules.min_silence_ms * RATE / 1000:
            if self._is_long(self._start, self._quiet_since):
                self.found.append(Span(self._start, self._quiet_since))
            self._leave_speech()

    def _is_long(self, start: int, end: int) -> bool:
        return end - start > self._rules.min_speech_ms * RATE / 1000

    def _leave_speech(self) -> None:
        self._start = self._quiet_since = None
        self._pauses = []


def _pad(spans: list[Span], length: int, pad: float) -> None:
    """Widen each stretch; two that come close share the silence between them."""
    for index, span in enumerate(spans):
        if index == 0:
            span.start = int(max(0, span.start - pad))
        if index == len(spans) - 1:
            span.end = int(min(length, span.end + pad))
            continue
        following = spans[index + 1]
        silence = following.start - span.end
        if silence < 2 * pad:
            span.end += silence // 2
            following.start = max(0, following.start - silence // 2)
        else:
            span.end = int(min(length, span.end + pad))
            following.start = int(max(0, following.start - pad))
