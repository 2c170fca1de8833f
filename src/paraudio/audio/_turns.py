"""Threads that work one at a time, a slice each, first come first served.

ffmpeg's libraries decode packet by packet, and PyAV lets go of the interpreter's lock for each, for
a few microseconds. Threads that take the lock from one another at every packet spend more on that
than on the work: two mp3s take three times as long as one, eight eighteen times. In turns they
take the time of their work, and everything else in the process competes with one, not with all.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SLICE_S: Final = 0.005
"""How long a thread works before the next one's turn comes, in seconds."""


class Turns:
    """Who may work. Only for threads; whoever waits cannot be interrupted, for some slices."""

    def __init__(
        self, *, slice_s: float = SLICE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slice_s = slice_s
        self._clock = clock
        self._state = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False
        self._ends = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and pass it on when leaving, whatever happened."""
        self._take()
        try:
            yield
        finally:
            self._pass_on()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    def offer(self) -> None:
        """Pass the turn on and wait for the next, if the slice is over and somebody waits."""
        if self._waiting and self._clock() >= self._ends:
            self._pass_on()
            self._take()

    def _take(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        with self._state:
            if self._taken:
                self._waiting.append(gate)
            else:
                self._taken = True
                gate.release()
        gate.acquire()  # opens with the turn
        self._ends = self._clock() + self._slice_s

    def _pass_on(self) -> None:
        with self._state:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
