"""One registered model: its data, the steps that change it, and the task that does its work."""

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

import trio

from paraudio.admission import Lease, ModelQueue
from paraudio.engines.isolation import Inspection
from paraudio.errors import ParaudioError
from paraudio.journal import Kind
from paraudio.lifecycle._abandoned import Abandoned
from paraudio.lifecycle._candidate import Candidate
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._pool import Pool
from paraudio.lifecycle._promise import Promise
from paraudio.lifecycle._states import State, Trigger, next_state
from paraudio.spec import Json, ModelSpec

log = logging.getLogger(__name__)

T = TypeVar("T")


class Entry:
    """A model from its registration to the end of the process; it never vanishes.

    The methods up to `commit` are the steps of its life. Each runs between two checkpoints and
    leaves state, metadata, residency and capacity in agreement; the caller holds the lease under
    which the step happens.

    Attributes:
        id: The model's ID.
        number: Counts the registrations, from 0; bulk operations enter queues in this order.
        queue: Who may use it.
        candidate: The committed configuration, complete.
        config: The number of that configuration, from 1.
        inspection: What is known of the files of that configuration, or None as yet.
        capacity: Sessions that the weights allow, as the last load or probe told, or None.
        state: What it is doing.
        pool: The published pool: the residency. None means that nothing is resident.
        generation: How many loads were started.
        teardowns: How many pools are being destroyed; their memory is not free yet.
        last_used: When it was last loaded or run, in seconds of the loop's clock.
        abandoned: What former loads and pools left behind.
    """

    # Invariants: state is READY => pool is not None; pool is not None => state is READY or
    # RECONFIGURING; only a manager's lease, or the driver of a load, changes state.

    def __init__(self, context: Context, candidate: Candidate, number: int) -> None:
        self.id = candidate.spec.id
        self.number = number
        self.queue = ModelQueue(self.id, candidate.spec.slots, record=context.changes)
        self.candidate = candidate
        self.config = 1
        self.inspection: Inspection | None = None
        self.capacity: int | None = None
        self.state = State.UNLOADED
        self.pool: Pool | None = None
        self.generation = 0
        self.teardowns = 0
        self.last_used = -inf
        self.abandoned = Abandoned(self.id, context.changes)
        self._context = context
        self._nursery: trio.Nursery | None = None
        self._early: list[Callable[[], Awaitable[None]]] = []

    @property
    def spec(self) -> ModelSpec:
        """The committed metadata."""
        return self.candidate.spec

    @property
    def usable_pool(self) -> Pool | None:
        """The pool that a request can have a session of at once, or None."""
        return None if self.pool is None or self.pool.broken else self.pool

    @property
    def held_slots(self) -> int:
        """Slots that somebody holds who can be expected to leave: all but the stuck ones."""
        queue = self.queue.snapshot()
        return queue.active_slots - queue.stuck_slots

    def touch(self) -> None:
        """Note that it is in use now."""
        self.last_used = trio.current_time()

    def register(self) -> None:
        """Record that the entry exists."""
        self._record(
            Kind.REGISTERED, slots=self.spec.slots, path=self.spec.path, config=self.config
        )

    def move(self, trigger: Trigger) -> None:
        """Change the state as the table says."""
        old, self.state = self.state, next_state(self.state, trigger)
        self._record(
            Kind.STATE, **{"from": old.value, "to": self.state.value, "event": trigger.value}
        )

    def inspected(self, inspection: Inspection) -> None:
        """The files were looked at; what a commit or a load has found out meanwhile is newer."""
        if self.inspection is None:
            self.inspection = inspection
            self._record(Kind.INSPECTED, config=self.config)

    def begin_load(self, ticket: int) -> None:
        """A load starts: nothing is visible of it but the state."""
        if self.state is State.UNLOADED:
            self.move(Trigger.LOAD)
        self.generation += 1
        self._record(
            Kind.LOAD_STARTED, ticket=ticket, generation=self.generation, config=self.config
        )

    def fail_load(self, ticket: int, error: BaseException) -> None:
        """A load ended without a pool; what of it still runs is counted."""
        self._record(Kind.LOAD_FAILED, ticket=ticket, generation=self.generation, error=str(error))
        self.move(Trigger.FAIL)
        self.note_abandoned(reserve=0 if self.inspection is None else self.inspection.memory)

    def publish(self, ticket: int, pool: Pool) -> None:
        """A complete pool becomes the residency."""
        self.pool = pool
        self.capacity = pool.capacity
        self.touch()
        self._record(
            Kind.PUBLISHED,
            ticket=ticket,
            generation=pool.generation,
            sessions=len(pool.sessions),
            config=self.config,
        )
        self.move(Trigger.PUBLISH)

    def clear(self, ticket: int | None, why: str) -> Pool | None:
        """End the residency, logically; the caller destroys the pool that this returns."""
        pool, self.pool = self.pool, None
        if pool is not None:
            self.teardowns += 1
            if self.state is State.READY:
                self.move(Trigger.RETIRE)
            self._record(Kind.RETIRED, ticket=ticket, generation=pool.generation, why=why)
        return pool

    def destroyed(self, pool: Pool) -> None:
        """A retired pool is gone, or was given up."""
        self.teardowns -= 1
        self._record(Kind.DESTROYED, generation=pool.generation)
        if self.state is State.UNLOADING:
            self.move(Trigger.DESTROY)
        self.note_abandoned()

    def note_abandoned(self, reserve: int = 0) -> None:
        """Count what a load, a probe or a pool that is gone has left running.

        Args:
            reserve: Bytes that each may still take; none for what is being freed.
        """
        self.abandoned.note(self.candidate.isolation.abandoned_of(self.id), reserve=reserve)

    def commit(self, lease: Lease, candidate: Candidate, inspection: Inspection) -> None:
        """Replace the complete metadata."""
        if not candidate.spec.same_sessions(self.spec):
            self.capacity = None
        self.candidate = candidate
        self.config += 1
        self.inspection = inspection
        self.queue.resize(lease, candidate.spec.slots)
        self._record(
            Kind.COMMITTED,
            ticket=lease.ticket,
            slots=self.spec.slots,
            path=self.spec.path,
            config=self.config,
        )

    def submit(self, job: Callable[[], Awaitable[None]]) -> bool:
        """Let the model's own task run a job, which must not raise; False once stopping."""
        if self._context.phases.stopping:
            return False
        if self._nursery is None:
            self._early.append(job)
        else:
            self._nursery.start_soon(job)
        return True

    def hand_over(self, lease: Lease, operation: Callable[[Lease], Awaitable[T]]) -> Promise[T]:
        """Give a lease and what is to be done under it to the model's own task.

        From here on the operation runs to its end whatever its caller does. The lease is released
        and the promise settled in one step.
        """
        promise: Promise[T] = Promise()

        async def job() -> None:
            with lease:
                try:
                    promise.keep(await operation(lease))
                except Exception as error:
                    if not isinstance(error, ParaudioError):
                        log.exception("model %r: an operation failed unexpectedly", self.id)
                    promise.fail(error)

        if not self.submit(job):
            lease.release()
            promise.fail(self._context.phases.refusal())
        return promise

    async def serve(self) -> None:
        """Run the model's jobs until stopping, and then until the last one has ended."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while self._early:
                nursery.start_soon(self._early.pop(0))
            await self._context.phases.wait_stopping()

    def _record(self, kind: Kind, **facts: Json) -> None:
        self._context.changes(kind, self.id, **facts)
