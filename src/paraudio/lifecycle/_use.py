"""What a request holds of a model: a slot, the configuration at its grant, and one session."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import trio

from paraudio.admission import Claim, Lease, effective_bound_s
from paraudio.engines import Job, Result, StreamEvent
from paraudio.engines.isolation import LiveHandle
from paraudio.journal import Kind
from paraudio.lifecycle._calls import Calls
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._initialize import Waiter
from paraudio.lifecycle._model import Model
from paraudio.lifecycle._pool import Seat
from paraudio.spec import ModelSpec


class Use:
    """A request's use of a model, from its admission to the end of its scope.

    Entering waits for a slot and binds the configuration. Leaving, on whichever way, stops what
    still runs, makes the session usable again and gives the slot back; so a response that was
    never started holds nothing. One call at a time.

    Cancelled while entering: nothing is held. Cancelled later: leaving takes as long as the
    backend needs to stop, and at most the hang timeout for the call and again for the reset; what
    a call that ignores its stop still holds then belongs to the model's own task.

    Attributes:
        request: The request's ID.
        spec: The configuration that the request runs under; later changes do not touch it.
        slot: The slot that it holds.
        queued_s: How long it waited for the slot, in seconds.
    """

    def __init__(self, context: Context, model: Model, request: str, bound_ms: int | None) -> None:
        self.request = request
        self.spec: ModelSpec = model.entry.spec
        self.slot = -1
        self.queued_s = 0.0
        self._context = context
        self._model = model
        self._bound_ms = bound_ms
        self._bound_s: float
        self._lease: Lease | None = None
        self._waiter: Waiter | None = None
        self._seat: Seat | None = None
        self._calls: Calls | None = None

    async def __aenter__(self) -> Self:
        """Wait for a slot and bind the configuration.

        Raises:
            ServerBusyError: The admission bound passed, or cannot be kept.
            QueueFullError: Too many wait already.
            ShuttingDownError: The process takes no new work.
        """
        entry, settings = self._model.entry, self._context.settings
        self._bound_s = effective_bound_s(
            self._bound_ms, entry.spec.busy_timeout_ms, settings.busy_timeout_ms
        )
        limit = entry.spec.max_queued_requests
        entered = trio.current_time()
        self._lease = lease = await entry.queue.admit(
            Claim.REQUEST,
            bound_s=self._bound_s,
            limit=settings.max_queued_requests if limit is None else limit,
            request=self.request,
        )
        self.spec = entry.spec
        self.slot = lease.slot
        self.queued_s = lease.held_since - entered
        self._context.changes(
            Kind.BOUND, entry.id, request=self.request, ticket=lease.ticket, config=entry.config
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop what runs, make the session usable again, give the slot back."""
        lease, self._lease = self._held, None
        if self._calls is not None:
            await self._calls.end()
        elif self._waiter is not None:
            if self._model.initializer.leave(self._waiter):
                return
            self._seat = self._waiter.seat.value
        if self._seat is None:
            self._model.recovery.vacate(lease)
        else:
            await self._model.recovery.give_back(self._seat.pool, lease)

    async def ready(self) -> None:
        """Wait until the model is loaded and this use has its session; always a checkpoint.

        Cancelled: the load goes on if this use drives it and it has begun; `ready` may be called
        again. After an error it may be called again too, and tries again.

        Raises:
            LoadError: This use drove the load, and it failed.
            InvalidRequestError: The model has more slots than its weights allow.
            ServerBusyError: No room for the model within the admission bound.
            InsufficientMemoryError: Too little memory is free.
            ShuttingDownError: The process stopped meanwhile.
        """
        lease = self._held
        if self._calls is None and self._waiter is None:
            pool = self._model.entry.usable_pool
            if pool is None:
                self._waiter = self._model.initializer.join(lease, self._bound_s)
            else:
                self._bind(lease, pool.take(lease.slot))
        if self._waiter is not None:
            await self._initialized(lease, self._waiter)
        else:
            await trio.lowlevel.checkpoint()

    @property
    def loading(self) -> bool:
        """Whether it waits for its model to be loaded."""
        return self._waiter is not None

    @property
    def running(self) -> bool:
        """Whether a call of it is under way."""
        return self._calls is not None and self._calls.busy

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the model itself; once it is ready."""
        return self._ready.pool.model.voices

    @property
    def can_stream(self) -> bool:
        """Whether `stream` works; once it is ready."""
        return self._ready.session.can_stream

    @property
    def can_batch(self) -> bool:
        """Whether `run_batch` works; once it is ready."""
        return self._ready.session.can_batch

    @property
    def can_live(self) -> bool:
        """Whether `live` works; once it is ready."""
        return self._ready.session.can_live

    async def run(self, job: Job) -> Result:
        """Run one job whole.

        Cancelled: the backend is told to stop at once.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
            BackendError: The run failed; the use goes on with a session that works.
            ShuttingDownError: The process stopped meanwhile.
        """
        return await self._ready.run(job)

    def stream(self, job: Job) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Run one job and pull its events; entering prepares, leaving stops what still runs."""
        return self._ready.stream(job)

    def run_batch(
        self, jobs: Sequence[Job]
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[int, Result]]]:
        """Run several jobs and pull their results as each ends; entering prepares."""
        return self._ready.run_batch(jobs)

    def live(self, job: Job) -> AbstractAsyncContextManager[LiveHandle]:
        """Begin a job whose input is still being made; leaving ends it, finished or not.

        Entering begins it. From then on it is one call: it is cancelled as any other, in a piece
        and between two, and nothing else runs until it is left.
        """
        return self._ready.live(job)

    async def _initialized(self, lease: Lease, waiter: Waiter) -> None:
        try:
            seat = await waiter.seat.wait()
        except Exception:
            self._waiter = None
            raise
        self._waiter = None
        self._bind(lease, seat)

    def _bind(self, lease: Lease, seat: Seat) -> None:
        self._seat = seat
        self._calls = Calls(self._context, self._model.entry, lease, seat)

    @property
    def _held(self) -> Lease:
        if self._lease is None:
            raise RuntimeError(f"the model {self.spec.id!r} is not in use: not entered, or left")
        return self._lease

    @property
    def _ready(self) -> Calls:
        if self._calls is None:
            raise RuntimeError(f"the model {self.spec.id!r} is not ready: wait for ready() first")
        return self._calls
