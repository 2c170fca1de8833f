"""A guard that notices code which blocks the event loop."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from unittest import mock

import trio

T = TypeVar("T")

_SAMPLE_EVERY_S: Final = 0.05
_SCHEDULER_FILE: Final = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True, slots=True)
class Stall:
    """One step of a task in which nothing else could run for too long.

    Attributes:
        task: The task.
        computed_s: Seconds that the thread computed.
        waited_s: Seconds that it waited for something, not counting the wait for a processor.
    """

    task: str
    computed_s: float
    waited_s: float

    def __str__(self) -> str:
        return (
            f"task {self.task} blocked the event loop: it computed for {self.computed_s:.2f} s "
            f"and waited for {self.waited_s:.2f} s in one step"
        )


class LoopGuard(trio.abc.Instrument):
    """Measures every step of every task of one trio run.

    A step is judged by what it did, not by how long the machine took: the seconds that its thread
    computed, and the seconds that it waited (slept, took a lock, read a file). The time in which
    it was ready to run and the system let others run first, which Linux tells, is neither.
    """

    def __init__(
        self,
        report: Callable[[Stall], object],
        *,
        limit_s: float = 0.5,
        wait_limit_s: float | None = None,
    ) -> None:
        """Make a guard.

        Args:
            report: Takes each stall, on the thread of the run.
            limit_s: Seconds that one step may compute.
            wait_limit_s: Seconds that it may wait; None takes ``limit_s``. A virtual machine whose
                host takes its processor or its memory away waits too, and does not know of it.
        """
        self._report = report
        self._limit_s = limit_s
        self._wait_limit_s = limit_s if wait_limit_s is None else wait_limit_s
        self._began = math.inf  # a guard that joins a run midway has not seen its step begin
        self._computed = 0.0
        self._sampled = 0.0
        self._denied = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - trio's protocol
        """Note when the step begins."""
        self._began = time.perf_counter()
        self._computed = time.thread_time()
        if self._began - self._sampled > _SAMPLE_EVERY_S:
            # Reading it for every step would cost more than most steps do.
            self._sampled = self._began
            self._denied = _denied_s()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Judge the step that ended."""
        passed = time.perf_counter() - self._began
        if passed < min(self._limit_s, self._wait_limit_s):
            return
        computed = time.thread_time() - self._computed
        waited = passed - computed - (_denied_s() - self._denied)
        if computed > self._limit_s or waited > self._wait_limit_s:
            self._report(Stall(task.name, computed, max(waited, 0.0)))


@contextmanager
def guarded_runs(
    report: Callable[[Stall], object], *, limit_s: float = 0.5, wait_limit_s: float | None = None
) -> Iterator[None]:
    """Within the block, every run of trio that starts in this process has a guard.

    Args:
        report: Takes each stall, on the thread of the run that it happened in.
        limit_s: As for `LoopGuard`.
        wait_limit_s: As for `LoopGuard`.
    """

    def guarded(start: Callable[..., T]) -> Callable[..., T]:
        def run(*args: object, instruments: Sequence[object] = (), **options: object) -> T:
            guard = LoopGuard(report, limit_s=limit_s, wait_limit_s=wait_limit_s)
            return start(*args, instruments=[*instruments, guard], **options)

        return run

    guest = trio.lowlevel.start_guest_run
    with (
        mock.patch.object(trio, "run", guarded(trio.run)),
        mock.patch.object(trio.lowlevel, "start_guest_run", guarded(guest)),
    ):
        yield


def _denied_s() -> float:
    """Seconds that this thread was ready and not run, so far; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(_SCHEDULER_FILE.read_text(encoding="ascii").split()[1]) / 1e9
    return 0.0
