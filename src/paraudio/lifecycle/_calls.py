"""The backend calls of one use: one at a time, recorded, and stopped when the use ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Literal, Self, TypeVar

import trio

from paraudio.admission import Lease
from paraudio.engines import Job, Piece, Result, StreamEvent
from paraudio.engines.isolation import LiveHandle, SessionHandle
from paraudio.journal import Kind
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._pool import Seat

T = TypeVar("T")

Outcome = Literal["ok", "error", "stopped", "stuck"]


class Run:
    """One call.

    Attributes:
        session: What runs it.
        outcome: How it ended, as far as that is known.
    """

    __slots__ = ("outcome", "session")

    def __init__(self, session: SessionHandle) -> None:
        self.session = session
        self.outcome: Outcome = "stopped"

    def fail(self) -> None:
        """Note an error, unless the backend was done before it came about."""
        if self.outcome != "ok":
            self.outcome = "error"


class Pieces(Generic[T]):
    """The pieces of a result as they come; notes when the last one has come."""

    __slots__ = ("_pieces", "_run")

    def __init__(self, run: Run, pieces: AsyncIterator[T]) -> None:
        self._run = run
        self._pieces = pieces

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            self._run.outcome = "ok"
            raise


class Fed:
    """A live job; notes when it has come to its end."""

    __slots__ = ("_live", "_run")

    def __init__(self, run: Run, live: LiveHandle) -> None:
        self._run = run
        self._live = live

    async def feed(self, piece: Piece) -> Sequence[StreamEvent]:
        """Give one piece, and wait until it is worked through."""
        return await self._live.feed(piece)

    async def finish(self) -> Sequence[StreamEvent]:
        """End the input, and wait for what is left."""
        events = await self._live.finish()
        self._run.outcome = "ok"
        return events


class Calls:
    """The calls that one lease makes to its session.

    Args:
        context: The runtime's.
        entry: The model.
        lease: The slot.
        seat: The session of the slot.

    Attributes:
        pool: Where the session belongs.
        session: What the calls are made to.
    """

    def __init__(self, context: Context, entry: Entry, lease: Lease, seat: Seat) -> None:
        self._context = context
        self._entry = entry
        self._lease = lease
        self.pool, self.session = seat
        self._ended = False
        self._scope: trio.CancelScope | None = None
        self._quiet = trio.Event()

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return self._scope is not None

    async def run(self, job: Job) -> Result:
        """Run one job whole."""
        async with self._call() as run:
            result = await run.session.run(job)
            run.outcome = "ok"
        return result

    @asynccontextmanager
    async def stream(self, job: Job) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run one job and pull its events."""
        async with self._call() as run, run.session.stream(job) as events:
            yield Pieces(run, events)

    @asynccontextmanager
    async def run_batch(
        self, jobs: Sequence[Job]
    ) -> AsyncIterator[AsyncIterator[tuple[int, Result]]]:
        """Run several jobs and pull their results."""
        async with self._call() as run, run.session.run_batch(jobs) as results:
            yield Pieces(run, results)

    @asynccontextmanager
    async def live(self, job: Job) -> AsyncIterator[LiveHandle]:
        """Run one job whose input is still being made: one call, from its begin to its leaving."""
        async with self._call() as run, run.session.live(job) as live:
            yield Fed(run, live)

    async def end(self) -> None:
        """Allow no further call, and stop one that another task still makes.

        Cancelled: takes at most the hang timeout.
        """
        self._ended = True
        if self._scope is not None:
            self._scope.cancel()
            with trio.move_on_after(self._context.hang_s, shield=True):
                await self._quiet.wait()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[Run]:
        """Everything around one call: the journal, and stopping.

        What the last call left in the session, the session itself clears away before the next.

        Raises:
            ShuttingDownError: The process stopped meanwhile.
            RuntimeError: Another call runs, or the use was left: both are mistakes of the caller.
        """
        if self._scope is not None:
            raise RuntimeError("a use makes one call at a time")
        run = Run(self.session)
        self._scope = scope = trio.CancelScope()
        try:
            with self._context.phases.interruptible(), scope:
                self._begin()
                try:
                    yield run
                except Exception:
                    run.fail()
                    raise
                finally:
                    self._finish(run)
        finally:
            self._scope = None
            self._quiet.set()
        if scope.cancelled_caught:
            raise RuntimeError(f"the use of model {self._entry.id!r} ended during its call")

    def _begin(self) -> None:
        if self._ended:
            raise RuntimeError(f"the use of model {self._entry.id!r} has ended")
        if self._context.phases.stopping:
            raise self._context.phases.refusal()
        self._record(Kind.RUN_STARTED, slot=self._lease.slot, generation=self.pool.generation)

    def _finish(self, run: Run) -> None:
        if self.session.busy:
            run.outcome = "stuck"
        self._entry.touch()
        self._record(Kind.RUN_ENDED, outcome=run.outcome)
        if self._context.phases.stopping and run.outcome in {"stopped", "stuck"}:
            self._context.cut(
                f"request {self._lease.request}: its run on model {self._entry.id!r} was cancelled",
            )

    def _record(self, kind: Kind, **facts: str | int) -> None:
        self._context.changes(
            kind,
            self._entry.id,
            request=self._lease.request,
            ticket=self._lease.ticket,
            **facts,
        )
