"""From the probabilities of frames to stretches of speech.

The rules are those that Silero publishes beside its model (``get_speech_timestamps_from_probs`` in
silero-vad 6.2): speech begins with the first frame at ``threshold``, ends where it stays below
``threshold - 0.15`` for ``min_silence``, is dropped if shorter than ``min_speech``, is cut at its
longest pause where it is longer than ``max_speech``, and is padded into the silence around it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paraudio.engines._values import Boundary

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


class LiveFinder:
    """Finds the same stretches in frames that come one after another, and tells them in time.

    A place is told once nothing that follows can move it: a beginning when the stretch is long
    enough to stay, an end when the pause is long enough to be padded.

    Args:
        rules: What counts as speech.
        frame: Samples of a frame.
    """

    # ``_started`` and ``_ended`` count the stretches whose places were told.

    def __init__(self, rules: Rules, frame: int) -> None:
        self._finder = _Finder(rules, frame)
        self._pad = rules.speech_pad_ms * RATE / 1000
        self._least_pad = int(min(self._pad, rules.min_silence_ms * RATE / 2000))
        self._frame = frame
        self._at = 0
        self._started = 0
        self._ended = 0

    @property
    def reach(self) -> int:
        """How far the stretch that goes on is sure to reach; 0 where there is none."""
        if self._finder.start is None:
            return 0
        return self._at - self.pause + min(self.pause, self._least_pad)

    @property
    def pause(self) -> int:
        """How long it has been quiet in the stretch that goes on."""
        quiet_since = self._finder.quiet_since
        return 0 if quiet_since is None else self._at - quiet_since

    def take(self, probabilities: Sequence[float]) -> list[Boundary]:
        """The places that are settled by some more whole frames."""
        told: list[Boundary] = []
        for probability in probabilities:
            self._finder.take(self._at, probability)
            self._at += self._frame
            told += self._settled()
        return told

    def finish(
        self, probabilities: Sequence[float], length: int
    ) -> tuple[list[Boundary], list[Span]]:
        """The places that the end settles, and all stretches.

        Args:
            probabilities: Of the frames that remain, of which the last may be short.
            length: Samples of the sound.
        """
        for probability in probabilities:
            self._finder.take(self._at, probability)
            self._at += self._frame
        self._finder.finish(length)
        spans = self._finder.found
        _pad(spans, length, self._pad)
        starts = [(span.start, Boundary("start", span.start)) for span in spans[self._started :]]
        ends = [(span.end, Boundary("end", span.end)) for span in spans[self._ended :]]
        merged = sorted([*ends, *starts], key=lambda each: each[0])
        return [boundary for _, boundary in merged], spans

    def _settled(self) -> Iterator[Boundary]:
        while (settled := self._next()) is not None:
            yield settled

    def _next(self) -> Boundary | None:
        """The next place, if it is settled."""
        if self._started == self._ended:
            start = self._start_of(self._started)
            if start is None:
                return None
            self._started += 1
            return Boundary("start", self._padded_start(self._started - 1, start))
        end = self._padded_end(self._ended)
        if end is None:
            return None
        self._ended += 1
        return Boundary("end", end)

    def _start_of(self, index: int) -> int | None:
        """Where a stretch begins, unpadded, if it is sure to stay."""
        found = self._finder.found
        if index < len(found):
            return found[index].start
        return self._finder.sure_start(self._at) if index == len(found) else None

    def _padded_start(self, index: int, start: int) -> int:
        silence = start - self._finder.found[index - 1].end if index else 2 * self._pad
        return int(max(0, start - (silence // 2 if silence < 2 * self._pad else self._pad)))

    def _padded_end(self, index: int) -> int | None:
        if index >= len(self._finder.found):
            return None
        end = self._finder.found[index].end
        following = self._start_of(index + 1)
        if following is not None and following - end < 2 * self._pad:
            return end + (following - end) // 2
        pending = self._finder.start if index + 1 == len(self._finder.found) else following
        silence = (self._at if pending is None else pending) - end
        return int(end + self._pad) if silence >= 2 * self._pad else None


class _Finder:
    """Goes from frame to frame, inside or outside of speech.

    ``start`` is where the stretch began that goes on, ``quiet_since`` is where the pause began
    that may turn out to be the end, ``_pauses`` are those that turned out to be pauses: where they
    began and how long they were.
    """

    def __init__(self, rules: Rules, frame: int) -> None:
        self.found: list[Span] = []
        self._rules = rules
        self._leave = max(rules.threshold - _HYSTERESIS, _LOWEST)
        self._longest = rules.max_speech_s * RATE - frame - 2 * rules.speech_pad_ms * RATE / 1000
        self.start: int | None = None
        self.quiet_since: int | None = None
        self._pauses: list[tuple[int, int]] = []

    def take(self, at: int, probability: float) -> None:
        """The next frame, which begins at sample ``at``."""
        loud = probability >= self._rules.threshold
        if loud and self.quiet_since is not None:
            if at - self.quiet_since > _PAUSE:
                self._pauses.append((self.quiet_since, at - self.quiet_since))
            self.quiet_since = None
        if self.start is None:
            if loud:
                self.start = at
            return
        if at - self.start > self._longest and self._cut(self.start, at):
            return
        if probability < self._leave:
            self._quiet(at)

    def sure_start(self, at: int) -> int | None:
        """Where the stretch began that goes on at sample ``at``, if it is sure to be long enough.

        In a pause that is not known as the end yet, that was sure before, or is not.
        """
        if self.start is None or self.quiet_since is not None:
            return None
        return self.start if self._is_long(self.start, at) else None

    def finish(self, length: int) -> None:
        """The sound ends at sample ``length``."""
        if self.start is not None and self._is_long(self.start, length):
            self.found.append(Span(self.start, length))

    def _cut(self, start: int, at: int) -> bool:
        """End a stretch that is too long; True where speech must begin anew."""
        if self._pauses:
            end, pause = max(self._pauses, key=lambda each: each[1])
            self.found.append(Span(start, end))
            self._leave_speech()
            self.start = end + pause
            return False
        self.found.append(Span(start, at))
        self._leave_speech()
        return True

    def _quiet(self, at: int) -> None:
        if self.start is None:
            return
        if self.quiet_since is None:
            self.quiet_since = at
        if at - self.quiet_since >= self._rules.min_silence_ms * RATE / 1000:
            if self._is_long(self.start, self.quiet_since):
                self.found.append(Span(self.start, self.quiet_since))
            self._leave_speech()

    def _is_long(self, start: int, end: int) -> bool:
        return end - start > self._rules.min_speech_ms * RATE / 1000

    def _leave_speech(self) -> None:
        self.start = self.quiet_since = None
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
