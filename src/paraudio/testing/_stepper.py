"""A stepper: drives a trio program from synchronous code, one settled step after another.

Hypothesis draws the rules of a state machine synchronously, while the program under test must go on
living between two rules. So the program runs as a *guest* of a host loop that is nothing but a
queue which `Stepper` empties when it is told to: one thread, nothing moves between two steps, and
time moves only when it is told to. The order in which trio runs ready tasks is drawn from a seed,
so a history that fails once fails again, and shrinks.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, TypeVarTuple

import outcome
import trio
import trio.testing

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_TICKS_A_STEP: Final = 100_000
_DEADLINES_AN_ADVANCE: Final = 10_000


class StepBlockedError(Exception):
    """A step waited for something that no task of the program will do before the step ends."""


class NotSettledError(Exception):
    """The program never came to rest: its tasks keep each other busy."""


class Stepper:
    """A trio program under the control of synchronous code; a context manager that ends it.

    Programs must wait for nothing outside of trio: no threads, no real sockets.
    """

    def __init__(self, *, seed: int = 0) -> None:
        """Begin a run of trio with no tasks and a clock that stands still.

        Args:
            seed: Decides in which order tasks that are ready run.
        """
        self._clock = trio.testing.MockClock()
        self._host: deque[Callable[[], object]] = deque()
        self._ended: outcome.Outcome[None] | None = None
        self._nursery: trio.Nursery | None = None
        self._job: Callable[[], Awaitable[None]] | None = None
        seed_schedule(seed)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._host.append,
            done_callback=self._note_end,
            host_uses_signal_set_wakeup_fd=True,
            restrict_keyboard_interrupt_to_checkpoints=True,
            clock=self._clock,
        )
        self._pump(lambda: self._nursery is not None)

    @property
    def now(self) -> float:
        """Seconds on the program's clock."""
        return self._clock.current_time()

    def start(self, program: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task that goes on between steps, and let it run until all tasks are blocked.

        Raises:
            Exception: What the task raised at once.
        """

        async def begin() -> None:
            self._running().start_soon(program, *args)

        self.step(begin)

    def step(self, work: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run ``work`` to its end and let all that follows from it happen; no time passes.

        Returns:
            What ``work`` returned.

        Raises:
            Exception: What ``work`` raised, or what ended the program.
            StepBlockedError: ``work`` did not end; it was cancelled.
            NotSettledError: Tasks went on and on.
        """
        job = _Job(lambda: work(*args))
        self._job = job.run
        self._pump(lambda: job.settled)
        return job.result()

    def advance(self, seconds: float) -> None:
        """Let time pass: one deadline after another, and all that follows from each.

        Raises:
            Exception: What ended the program.
            NotSettledError: Deadlines came on and on.
        """
        passage = _Passage(self._clock, self.now + seconds)
        self._job = passage.run
        self._pump(lambda: passage.settled)
        if not passage.arrived:
            raise NotSettledError(f"more than {_DEADLINES_AN_ADVANCE} deadlines in {seconds} s")

    def close(self) -> None:
        """Cancel all tasks and end the run; time passes for tasks that take theirs to leave.

        Raises:
            Exception: What a task raised on the way out.
        """
        if self._ended is None:
            self._running().cancel_scope.cancel()
            self._pump(lambda: False)
        self._raise_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _main(self) -> None:
        """Take jobs for ever.

        This task never blocks for longer than the others are at work, so the guest never needs a
        thread to wait in.
        """
        async with trio.open_nursery() as self._nursery:
            try:
                while True:
                    await trio.lowlevel.checkpoint()
                    job, self._job = self._job, None
                    if job is not None:
                        await job()
            finally:
                self._clock.autojump_threshold = 0  # nobody is left who lets time pass

    def _pump(self, reached: Callable[[], bool]) -> None:
        """Run the host loop until something is so, or the run has ended."""
        for _ in range(_TICKS_A_STEP):
            if self._ended is not None or reached():
                break
            self._host.popleft()()
        else:
            raise NotSettledError(f"the program did not settle in {_TICKS_A_STEP} ticks")
        if self._ended is not None and not reached():
            self._raise_end()

    def _note_end(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    def _raise_end(self) -> None:
        """Raise what ended the run, once."""
        ended, self._ended = self._ended, outcome.Value(None)
        if ended is not None:
            ended.unwrap()

    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("the program has not begun")
        return self._nursery


class _Job(Generic[T]):
    """One step inside the run."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.settled = False
        self._work = work
        self._outcome: outcome.Outcome[T] | None = None

    async def run(self) -> None:
        """Do the work beside this task, which waits until nothing moves any more."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._capture)
            await _settle()
            in_time = self._outcome is not None
            if not in_time:
                nursery.cancel_scope.cancel()
        if not in_time:
            await _settle()
        self.settled = True

    def result(self) -> T:
        """What the work returned or raised."""
        if self._outcome is None:
            raise StepBlockedError("the step did not end, although nothing else can happen")
        return self._outcome.unwrap()

    async def _capture(self) -> None:
        try:
            value = await self._work()
        except Exception as error:
            self._outcome = outcome.Error(error)
        else:
            self._outcome = outcome.Value(value)


class _Passage:
    """Time that passes, all of it inside the run: going in and out for each deadline costs more."""

    def __init__(self, clock: trio.testing.MockClock, end: float) -> None:
        self.settled = False
        self.arrived = False
        self._clock = clock
        self._end = end

    async def run(self) -> None:
        """Jump from deadline to deadline, and at last to the end, and let all happen after each."""
        for _ in range(_DEADLINES_AN_ADVANCE):
            ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
            left = self._end - self._clock.current_time()
            self.arrived = ahead > left
            self._clock.jump(max(min(ahead, left), 0.0))
            await _settle()
            if self.arrived:
                break
        self.settled = True


async def _settle() -> None:
    """Wait until nothing moves, also of those who wait for that themselves and then go on."""
    await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()


def seed_schedule(seed: int) -> None:
    """Make the order in which trio runs ready tasks a function of ``seed``, from here on.

    trio keeps this door open for Hypothesis only, so it is knocked on by name.
    """
    scheduler = import_module("trio._core._run")
    vars(scheduler)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    vars(scheduler)["_r"].seed(seed)
