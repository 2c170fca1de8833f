"""The one session handle; what differs between isolations is the port behind it."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar

import trio

from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Piece, Result, StreamEvent
from paraudio.engines.isolation._live import Live
from paraudio.engines.isolation._pending import Call, Care, Pending
from paraudio.engines.isolation._protocols import LiveHandle
from paraudio.engines.worker import Failed
from paraudio.errors import BackendHungError

T = TypeVar("T")
log = logging.getLogger(__name__)


class Port(Protocol):
    """How one session is reached. Each call starts at once, without blocking, one at a time."""

    @property
    def can_stream(self) -> bool:
        """Whether the session streams."""

    @property
    def can_batch(self) -> bool:
        """Whether the session has a native batch."""

    @property
    def can_live(self) -> bool:
        """Whether the session takes input that is still being made."""

    @property
    def lost(self) -> bool:
        """Whether what the session lives in is known to have died."""

    @property
    def pid(self) -> int | None:
        """The process that the session has for itself, if it has one."""

    def run(self, job: Job, stop: Stop) -> Pending[Result]:
        """Prepare and run."""

    def open_stream(self, job: Job, stop: Stop) -> Pending[None]:
        """Prepare a job and begin to stream it."""

    def open_batch(self, jobs: Sequence[Job], stop: Stop) -> Pending[None]:
        """Prepare jobs and begin to run them."""

    def next_event(self, stop: Stop) -> Pending[StreamEvent | None]:
        """Pull one event of the open stream; None is its end."""

    def next_result(self, stop: Stop) -> Pending[tuple[int, Result] | None]:
        """Pull one result of the open batch; None is its end."""

    def begin(self, job: Job, stop: Stop) -> Pending[None]:
        """Begin a live job."""

    def feed(self, piece: Piece, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """Give one piece to the live job."""

    def finish(self, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """End the input of the live job."""

    def leave(self) -> Pending[None]:
        """Close the open stream, batch or live job, wherever it is."""

    def restore(self) -> Pending[None]:
        """Reset the session, else build a new one in its place."""

    def close(self) -> Pending[None]:
        """Free the session."""

    def abandon(self, call: Call) -> None:
        """Free the session although ``call`` is still in it: as soon as that can be done."""

    async def kill(self) -> bool:
        """End the call that runs, by force, and return when it has ended; False where none can."""

    async def revive(self) -> None:
        """Before a restore: bring back what the session lives in, if it died.

        Raises:
            BackendError: It could not be brought back.
        """


class Revival:
    """What brings a session back that died, and who ends that.

    Attributes:
        scope: Where it happens.
        ended: Set when it is over, whatever came of it.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.ended = trio.Event()

    async def cut(self, care: Care) -> None:
        """End it, and wait until what it had built is freed; at most the hang timeout."""
        self.scope.cancel()
        with trio.move_on_after(care.hang_timeout_s, shield=True):
            await self.ended.wait()


class Handle:
    """One session behind a port; see `paraudio.engines.isolation.SessionHandle`."""

    def __init__(self, port: Port, care: Care, name: str) -> None:
        self._port = port
        self._care = care
        self._name = name
        self._call: Call | None = None
        self._revival: Revival | None = None
        self._touched = False
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a call is still inside the backend."""
        return self._call is not None

    @property
    def lost(self) -> bool:
        """Whether what it lived in has died."""
        return self._port.lost

    @property
    def pid(self) -> int | None:
        """The process that the session has for itself; None where it lives in this one."""
        return self._port.pid

    @property
    def can_stream(self) -> bool:
        """Whether ``stream`` works."""
        return self._port.can_stream

    @property
    def can_batch(self) -> bool:
        """Whether ``run_batch`` works."""
        return self._port.can_batch

    @property
    def can_live(self) -> bool:
        """Whether ``live`` works."""
        return self._port.can_live

    async def run(self, job: Job) -> Result:
        """Prepare and run one job."""
        stop = Stop()
        await self._ready()
        return await self._through(lambda: self._port.run(job, stop), stop)

    def stream(self, job: Job) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Prepare a job and pull its events."""
        stop = Stop()
        return self._pulling(
            stop, lambda: self._port.open_stream(job, stop), lambda: self._port.next_event(stop)
        )

    def run_batch(
        self, jobs: Sequence[Job]
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[int, Result]]]:
        """Prepare several jobs and pull their results as each ends."""
        stop = Stop()
        return self._pulling(
            stop, lambda: self._port.open_batch(jobs, stop), lambda: self._port.next_result(stop)
        )

    @asynccontextmanager
    async def live(self, job: Job) -> AsyncIterator[LiveHandle]:
        """Begin a job that is fed piece by piece."""
        stop = Stop()
        await self._ready()
        await self._through(lambda: self._port.begin(job, stop), stop)
        fed = Live(
            lambda piece: self._through(lambda: self._port.feed(piece, stop), stop),
            lambda: self._through(lambda: self._port.finish(stop), stop),
            self._name,
        )
        try:
            yield fed
        finally:
            await self._leave_unless(fed.close(), stop)

    async def restore(self) -> None:
        """Make the session usable after a stream, a stop or a failure."""
        if not self._touched:
            await trio.lowlevel.checkpoint()
            return
        self._check_free()
        await self._revive()
        await self._through(self._port.restore, Stop())

    async def wait_idle(self) -> None:
        """Wait until no call is inside the backend."""
        call = self._call
        if call is None:
            await trio.lowlevel.checkpoint()
        else:
            await call.wait_ended()

    async def kill(self) -> bool:
        """End a call that ignores its stop, where the isolation can."""
        return await self._port.kill()

    async def close(self) -> None:
        """Free the session; never raises, and closes also when cancelled."""
        if self._closed:
            return
        self._closed = True
        if self._revival is not None:
            await self._revival.cut(self._care)
        if self._call is not None:
            self._port.abandon(self._call)
            return
        closing = self._port.close()
        await self._outlast(closing, "did not close cleanly")
        if not closing.ended:
            with trio.CancelScope(shield=True):  # bounded, as the end of a process is
                await self._port.kill()

    async def _revive(self) -> None:
        """Bring back what died; cut when the session is closed, since nobody would free it then."""
        self._revival = revival = Revival()
        try:
            with revival.scope:
                await self._port.revive()
        finally:
            self._revival = None
            revival.ended.set()

    async def _through(self, begin: Callable[[], Pending[T]], stop: Stop) -> T:
        """Make one call under the rule of `Pending.wait`; what it leaves behind is noted."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_free()
        call = self._enter(begin())
        self._touched = True  # until the reply says otherwise: a stopped call has none
        reply = await call.wait(stop, self._care)
        self._touched = reply.touched
        return reply.unwrap()

    def _enter(self, call: Pending[T]) -> Pending[T]:
        """Be busy until the call ends, and keep nothing of it afterwards."""
        if not call.ended:
            self._call = call
            call.then(self._note_idle)
        return call

    def _note_idle(self) -> None:
        self._call = None

    def _check_free(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError(f"{self._name} is closed")
        if self.busy:
            raise BackendHungError(f"{self._name} is still inside a call")

    @asynccontextmanager
    async def _pulling(
        self, stop: Stop, begin: Callable[[], Pending[None]], pull: Callable[[], Pending[T | None]]
    ) -> AsyncIterator[AsyncIterator[T]]:
        await self._ready()
        await self._through(begin, stop)
        items = Pull(lambda: self._through(pull, stop))
        try:
            yield items
        finally:
            await self._leave_unless(items.finish(), stop)

    async def _leave_unless(self, ended: bool, stop: Stop) -> None:
        """Close what is still open. After a call that hangs, ``restore`` or ``close`` does it."""
        if not ended and not self.busy and not self._closed:
            stop.set()
            await self._outlast(self._enter(self._port.leave()), "did not end a stream")

    async def _ready(self) -> None:
        """Use no session as another call left it; a death between two jobs fails neither."""
        self._touched = self._touched or self._port.lost
        if self._touched:
            await self.restore()

    async def _outlast(self, call: Pending[None], complaint: str) -> None:
        await call.outlast(self._care)
        if isinstance(call.reply, Failed):
            log.warning("%s %s", self._name, complaint, exc_info=call.reply.error)


class Pull(Generic[T]):
    """The items of an open stream or batch; each is computed when it is asked for."""

    def __init__(self, fetch: Callable[[], Awaitable[T | None]]) -> None:
        self._fetch = fetch
        self._finished = False

    def __aiter__(self) -> "Pull[T]":
        return self

    async def __anext__(self) -> T:
        """Compute the next item; after the end, after an error and after leaving there is none."""
        if self._finished:
            raise StopAsyncIteration
        try:
            item = await self._fetch()
        except Exception:  # not Cancelled: a call that was cancelled leaves something to close
            self._finished = True
            raise
        if item is None:
            self._finished = True
            raise StopAsyncIteration
        return item

    def finish(self) -> bool:
        """Allow no more pulls; returns whether there were none left anyway."""
        finished, self._finished = self._finished, True
        return finished
