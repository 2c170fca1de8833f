"""A session of the virtual isolation."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import trio

from paraudio.engines._steps import (
    ItemSteps,
    SteppedFamily,
    SteppedLiveSession,
    SteppedModel,
    SteppedSession,
)
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Load, Piece, Result, StreamEvent
from paraudio.engines.isolation._pending import Call, Care, Pending
from paraudio.engines.isolation._weights import Weights
from paraudio.engines.worker import (
    Done,
    Failed,
    Reply,
    attempt,
    begin,
    built,
    deltas,
    ending,
    prepare,
    prepare_all,
)
from paraudio.errors import BackendCrashedError, BackendError
from paraudio.testing._gates import Point
from paraudio.testing._virtual_calls import Calls, pass_time, pass_to_item

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """What the sessions of one virtual load share.

    Attributes:
        family: What was loaded, for the reload after a kill.
        load: How.
        model: The weights.
        weights: Who uses them.
        calls: How calls are started.
        care: How patient the isolation is.
        ports: Every open session of the isolation.
        can_kill: Whether a call can be ended by force.
        name: The model, for messages.
    """

    family: SteppedFamily
    load: Load
    model: SteppedModel
    weights: Weights
    calls: Calls
    care: Care
    ports: list["VirtualPort"]
    can_kill: bool
    name: str


class VirtualPort:
    """Drives the steps of one session; see `paraudio.engines.isolation._handle.Port`."""

    can_stream: bool = True
    can_batch: bool = True

    def __init__(self, home: Residence, session: SteppedSession, number: int) -> None:
        self._home = home
        self._model = home.model
        self._session: SteppedSession | None = session
        self._number = number
        self.name = f"{home.name}, session {number}"
        self._events: ItemSteps[StreamEvent] | None = None
        self._results: ItemSteps[tuple[int, Result]] | None = None
        self._live: SteppedLiveSession | None = None
        self._call: Call | None = None
        self._lost = False

    @property
    def can_live(self) -> bool:
        """Whether the session takes input that is still being made."""
        return isinstance(self._session, SteppedLiveSession)

    @property
    def lost(self) -> bool:
        """Whether the session was killed and not revived."""
        return self._lost

    @property
    def pid(self) -> int | None:
        """The session has no process of its own."""
        return None

    def run(self, job: Job, stop: Stop) -> Pending[Result]:
        """Prepare and run."""

        async def work() -> Reply[Result]:
            prepared = prepare(self._alive(), job, f"{self.name}: preparation")
            if isinstance(prepared, Failed):
                return prepared
            await self._enter("run", job.text)
            return Done(await pass_time(self._alive().run_steps(prepared.value)))

        return self._start("run", work, stop)

    def open_stream(self, job: Job, stop: Stop) -> Pending[None]:
        """Prepare a job and begin to stream it."""

        async def work() -> Reply[None]:
            prepared = prepare(self._alive(), job, f"{self.name}: preparation")
            if isinstance(prepared, Failed):
                return prepared
            await self._enter("run", job.text)
            self._events = self._alive().stream_steps(prepared.value)
            return Done(None, touched=True)

        return self._start("stream", work, stop)

    def open_batch(self, jobs: Sequence[Job], stop: Stop) -> Pending[None]:
        """Prepare jobs and begin to run them."""

        async def work() -> Reply[None]:
            prepared = prepare_all(self._alive(), jobs, f"{self.name}: preparation")
            if isinstance(prepared, Failed):
                return prepared
            await self._enter("run", " | ".join(job.text or "" for job in jobs))
            self._results = self._alive().batch_steps(prepared.value)
            return Done(None, touched=True)

        return self._start("batch", work, stop)

    def next_event(self, stop: Stop) -> Pending[StreamEvent | None]:
        """Pull one event."""
        return self._next(self._events, stop)

    def next_result(self, stop: Stop) -> Pending[tuple[int, Result] | None]:
        """Pull one result."""
        return self._next(self._results, stop)

    def begin(self, job: Job, stop: Stop) -> Pending[None]:
        """Begin a live job."""

        async def work() -> Reply[None]:
            session = self._alive()
            if not isinstance(session, SteppedLiveSession):
                raise BackendError(f"{self.name} takes no live input")
            reply = begin(session, job, stop, f"{self.name}: preparation")
            if isinstance(reply, Done):
                await self._enter("run", job.text)
                self._live = session
            return reply

        return self._start("live", work, stop)

    def feed(self, piece: Piece, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """Give one piece to the live job."""

        async def work() -> Reply[tuple[StreamEvent, ...]]:
            session = self._begun()
            await self._enter("chunk", piece if isinstance(piece, str) else None)
            return Done(deltas(await pass_time(session.feed_steps(piece))), touched=True)

        return self._start("live", work, stop)

    def finish(self, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """End the input of the live job."""

        async def work() -> Reply[tuple[StreamEvent, ...]]:
            session, self._live = self._begun(), None
            await self._enter("chunk")
            return Done(ending(await pass_time(session.finish_steps())), touched=True)

        return self._start("end of live input", work, stop)

    def leave(self) -> Pending[None]:
        """Close the open stream, batch or live job."""

        async def work() -> Reply[None]:
            self._drop()
            return Done(None, touched=True)

        return self._start("end of a stream", work)

    def restore(self) -> Pending[None]:
        """Reset the session, else build a new one in its place."""

        async def work() -> Reply[None]:
            self._drop()
            await self._enter("restore")
            try:
                self._alive().reset()
            except Exception:
                self._replace()
            return Done(None)

        return self._start("restore", work)

    def close(self) -> Pending[None]:
        """Free the session, and part from the weights."""

        async def work() -> Reply[None]:
            self._drop()
            try:
                await self._enter("close_session")
            finally:  # a worker that is killed meanwhile takes its session along
                self._discard()
            return Done(None)

        closing = self._start("close", work)
        closing.then(self._home.weights.part)
        if self in self._home.ports:
            self._home.ports.remove(self)
        return closing

    def abandon(self, call: Call) -> None:
        """Kill the session where that can be; else close it when ``call`` ends."""
        if self._home.can_kill:
            self.crash()
        call.then(self.close)

    async def kill(self) -> bool:
        """End the running call by force."""
        if not self._home.can_kill:
            await trio.lowlevel.checkpoint()
            return False
        self.crash()
        if self._call is not None:
            await self._call.wait_ended()
        return True

    async def revive(self) -> None:
        """Load again in place of what was killed."""
        if not self._lost:
            return
        steps = self._home.family.load_steps(self._home.load)
        reviving = self._start("revival", lambda: _done(pass_time(steps)), stop := Stop())
        reply = await reviving.wait(stop, self._home.care)
        self._model = reply.unwrap()
        attempt(self._replace, f"{self.name}: revival").unwrap()
        self._lost = False

    def crash(self) -> None:
        """Die like a worker process: the running call fails, and the session is gone."""
        self._lost = True
        self._events = self._results = self._live = None
        if self._call is not None:
            self._home.calls.force(self._call, BackendCrashedError(f"{self.name}: the worker died"))

    def _next(self, items: ItemSteps[T] | None, stop: Stop) -> Pending[T | None]:
        async def work() -> Reply[T | None]:
            if items is None:
                raise self._nothing("is open")
            await self._enter("chunk")
            return Done(await pass_to_item(items), touched=True)

        return self._start("stream", work, stop)

    def _start(
        self, what: str, work: Callable[[], Awaitable[Reply[T]]], stop: Stop | None = None
    ) -> Pending[T]:
        deaf = self._session is not None and self._session.ignores_stop
        heeded = None if deaf else stop
        self._call = call = self._home.calls.start(f"{self.name}: {what}", work, heeded)
        return call

    def is_of(self, model: str, session: int | None) -> bool:
        """Whether this is a session of the model, or the one of that number."""
        return self._home.load.model_id == model and session in {None, self._number}

    def _begun(self) -> SteppedLiveSession:
        if self._live is None:
            raise self._nothing("has begun")
        return self._live

    def _nothing(self, happened: str) -> BackendError:
        """Why a pull or a piece finds nothing: its worker died, or nobody opened anything."""
        if self._lost:
            return BackendCrashedError(f"{self.name}: the worker died")
        return BackendError(f"{self.name}: nothing {happened}")

    async def _enter(self, point: Point, text: str | None = None) -> None:
        await self._home.calls.enter(point, self._home.load, self._number, text or "")

    def _drop(self) -> None:
        for items in (self._events, self._results):
            if items is not None:
                items.close()
        self._events = self._results = self._live = None

    def _replace(self) -> None:
        self._discard()
        self._session = built(self._model.session(), self.name)

    def _discard(self) -> None:
        """Close the session; one whose replacement failed is closed already."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _alive(self) -> SteppedSession:
        return built(self._session, self.name)


async def _done(value: Awaitable[T]) -> Reply[T]:
    return Done(await value)
