"""What of a sound is speech while it is still being captured: the gate of ``_speech_gate``, live.

The gate knows the loudest and the quietest of a whole recording. The watch knows what came so far:
it judges the first second when it is there, and each frame after that by all before it. So a sound
of up to a second is judged as a recording is, and a longer one by less, though by more and more.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from paraudio.audio import to_int16
from paraudio.engines._values import Boundary, Samples
from paraudio.engines.families._spans import LiveFinder
from paraudio.engines.families._speech_gate import (
    FRAME,
    LOUDEST,
    QUIETEST,
    RULES,
    RUMBLE,
    is_still,
    level_gain,
    levels,
    without_rumble,
)

_WARM: Final = 33
"""Frames, one second, that are judged together: speech that begins at once must stand out too."""

_REMEMBERED: Final = 1000
"""Frames, half a minute, of which the quietest are known."""


class SpeechWatch:
    """Finds speech in sound that comes in pieces; where it is cut changes nothing.

    Args:
        is_speech: Judges one frame of 16 bit samples; it remembers, so it belongs to this sound.
    """

    def __init__(self, is_speech: Callable[[bytes], bool]) -> None:
        self._is_speech = is_speech
        self._finder = LiveFinder(replace(RULES, max_speech_s=float("inf")), FRAME)
        self._sound: Samples = np.zeros(RUMBLE, dtype=np.float32)
        self._length = 0
        self._waiting: list[Samples] = []
        self._warm = False
        self._loudest: list[float] = []
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def reach(self) -> int:
        """How far the stretch that goes on is sure to reach, in samples."""
        return self._finder.reach

    @property
    def pause(self) -> int:
        """How long it has been quiet in the stretch that goes on, in samples."""
        return self._finder.pause

    def frames(self, samples: Samples) -> list[Samples]:
        """Take more sound, and return the frames that are complete, each to be judged in turn."""
        self._length += len(samples)
        sound = np.concatenate((self._sound, samples))
        whole = max(0, len(sound) - 2 * RUMBLE) // FRAME * FRAME
        self._sound = sound[whole:].copy()
        return list(without_rumble(sound[: whole + 2 * RUMBLE]).reshape(-1, FRAME)) if whole else []

    def last_frames(self) -> list[Samples]:
        """The frames that are left at the end of the sound, filled with silence."""
        rest = len(self._sound) - RUMBLE
        if rest <= 0:
            return []
        wanted = -(-rest // FRAME) * FRAME
        filled = np.zeros(wanted + 2 * RUMBLE, dtype=np.float32)
        filled[: len(self._sound)] = self._sound
        return list(without_rumble(filled).reshape(-1, FRAME))

    def judge(self, frame: Samples) -> list[Boundary]:
        """The places that are settled by one more frame, which is the next of ``frames``."""
        self._note(frame)
        if not self._warm:
            self._waiting.append(frame)
            if len(self._waiting) < _WARM:
                return []
            return self._finder.take(self._judged_first())
        return self._finder.take([self._flag(frame)])

    def end(self, last: list[Samples]) -> list[Boundary]:
        """The places that the end of the sound settles; ``last`` are its ``last_frames``."""
        flags: list[float] = []
        for frame in last:
            self._note(frame)
            if self._warm:
                flags.append(self._flag(frame))
            else:
                self._waiting.append(frame)
        if not self._warm:
            flags = self._judged_first()
        boundaries, _ = self._finder.finish(flags, self._length)
        return boundaries

    def _judged_first(self) -> list[float]:
        waiting, self._waiting, self._warm = self._waiting, [], True
        return [self._flag(frame) for frame in waiting]

    def _note(self, frame: Samples) -> None:
        level = float(levels(frame)[0])
        self._recent.append(level)
        if len(self._loudest) < LOUDEST:
            heapq.heappush(self._loudest, level)
        else:
            heapq.heappushpop(self._loudest, level)

    def _flag(self, frame: Samples) -> float:
        loud = self._loudest[0]
        if is_still(loud, float(np.percentile(self._recent, QUIETEST))):
            return 0.0
        heard = to_int16(frame * np.float32(level_gain(loud))).astype("<i2")
        return float(self._is_speech(heard.tobytes()))
