"""Whether the system runs this process, which every promise of a time rests on.

A process that is stopped (by a signal, a debugger, a frozen container) or gets no processor keeps
no promise, and can tell only afterwards. A thread beats ten times a second. When the event loop
has something to record and the thread has not beaten either, and the process has used little of a
processor meanwhile, then the system did not run it. A loop that computes, or waits for a disk, is
none of that: it uses a processor, or the thread beats.

On many processors a process can use that much in the moment before it is stopped. So where the
system tells (Linux), a thread that slept through has a say, too: one that only waits for the
interpreter's lock asks for it again every few milliseconds.
"""

import logging
import re
import resource
import sys
import threading
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final

import trio

log = logging.getLogger(__name__)

BEAT_S: Final = 0.1
"""Between two beats."""
SLACK_S: Final = 0.1
"""How late a beat may be that has not been missed."""
IDLE_SHARE: Final = 0.5
"""A process that used less than this share of a processor was not at work; nor was one whose thread
asked for the interpreter's lock less often than for this share of the time."""

_SLEPT: Final = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


class Pulse:
    """Times at which the system did not run this process; until it is begun, it knows of none.

    Args:
        spent: Seconds of a processor that the process has used.
        slept: How often the thread has gone to sleep, or None where that is not known; None asks
            the system.

    Attributes:
        due: When something is to be asked of it: from then on a beat is missing. Seconds of the
            clock that it was begun with.
    """

    def __init__(
        self,
        spent: Callable[[], float] = time.process_time,
        slept: Callable[[], int | None] | None = None,
    ) -> None:
        self.due = inf
        self._spent = spent
        self._slept = self._slept_so_far if slept is None else slept
        self._thread = 0
        self._lock = threading.Lock()  # held for a few steps, by the thread and by the loop
        self._clock: Callable[[], float] = time.monotonic
        self._beaten = 0.0
        self._used = 0.0
        self._sleeps: int | None = None
        self._paused = 0.0

    async def run(self) -> None:
        """Beat, on the clock of the loop, until cancelled; leaves no thread behind."""
        self.begin(trio.lowlevel.current_clock().current_time)
        over = threading.Event()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat_on, over)
                try:
                    await trio.sleep_forever()
                finally:
                    over.set()
        finally:
            self.due = inf

    async def _beat_on(self, over: threading.Event) -> None:
        """Beat in a thread; without one nothing tells a pause from a loop that waits."""
        try:
            await trio.to_thread.run_sync(self._beat, over)
        except RuntimeError as error:  # the system has no thread to give
            self.due = inf
            log.warning("nobody sees when the system does not run this process: %s", error)

    def begin(self, clock: Callable[[], float]) -> None:
        """Begin to look, by a clock that may be read in any thread."""
        self._clock = clock
        self._beaten, self._used, self._sleeps = clock(), self._spent(), self._slept()
        self.due = self._beaten + BEAT_S + SLACK_S

    def beat(self) -> None:
        """Look at the time, in the thread."""
        with self._lock:
            self._look()

    def take(self) -> float:
        """The seconds in which the process did not run and which nobody has taken yet."""
        with self._lock:
            self._look()
            paused, self._paused = self._paused, 0.0
            self.due = self._beaten + BEAT_S + SLACK_S
            return paused

    def _look(self) -> None:
        now, used, sleeps = self._clock(), self._spent(), self._slept()
        late = now - self._beaten - BEAT_S
        if late > SLACK_S and self._stood_still(late, used, sleeps):
            self._paused += late
        self._beaten, self._used, self._sleeps = now, used, sleeps
        # What was found is told before whatever comes next, whoever of the two found it.
        self.due = -inf if self._paused else now + BEAT_S + SLACK_S

    def _stood_still(self, late: float, used: float, sleeps: int | None) -> bool:
        """Whether the process did not run while a beat was late."""
        if used - self._used < late * IDLE_SHARE:
            return True
        if sleeps is None or self._sleeps is None:
            return False
        return (sleeps - self._sleeps) * sys.getswitchinterval() < late * IDLE_SHARE

    def _slept_so_far(self) -> int | None:
        """How often the thread has gone to sleep, as Linux counts it."""
        if sys.platform != "linux" or not self._thread:
            return None
        if threading.get_native_id() == self._thread:
            # Ten times a second: no file for that, which would take a descriptor each time.
            return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        try:
            found = _SLEPT.search(Path(f"/proc/self/task/{self._thread}/status").read_bytes())
        except OSError:
            return None
        return int(found[1]) if found else None

    def _beat(self, over: threading.Event) -> None:
        self._thread = threading.get_native_id()
        while not over.wait(BEAT_S):
            self.beat()
