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
    """Who may work. Only for threads: they wait."""

    def __init__(
        self, *, slice_s: float = SLICE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slice_s = slice_s
        self._clock = clock
        self._state = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._holder: threading.Lock | None = None
        self._worker = 0
        self._ends = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and pass it on when leaving, whatever happened."""
        gate = threading.Lock()
        try:
            self._wait(gate)
            yield
        finally:
            self._leave(gate)

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    def offer(self) -> None:
        """Pass the turn on and wait for the next, if the slice is over and somebody waits.

        Whoever has no turn offers nothing.
        """
        gate, mine = self._holder, self._worker == threading.get_ident()
        if gate is not None and mine and self._waiting and self._clock() >= self._ends:
            self._leave(gate)
            self._wait(gate)

    def _wait(self, gate: threading.Lock) -> None:
        gate.acquire(blocking=False)  # shut, if it is not yet
        with self._state:
            if self._holder is None:
                self._holder = gate
                gate.release()
            else:
                self._waiting.append(gate)
        gate.acquire()  # opens with the turn
        self._worker = threading.get_ident()
        self._ends = self._clock() + self._slice_s

    def _leave(self, gate: threading.Lock) -> None:
        """Pass the turn on, or wait no longer: a signal, Ctrl-C, may have ended the wait."""
        with self._state:
            if gate in self._waiting:
                self._waiting.remove(gate)
            elif self._holder is gate:
                self._worker = 0
                self._holder = self._waiting.popleft() if self._waiting else None
                if self._holder is not None:
                    self._holder.release()
