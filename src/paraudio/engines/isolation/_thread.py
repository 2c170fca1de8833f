"""The thread isolation: blocking code in threads of this process.

A thread cannot be killed. So a call that ignores its stop keeps its session, and the session keeps
the weights: both are freed when the call ends after all, and until then it is listed.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import trio

from paraudio.engines._protocols import Family
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Load, Piece, Result, StreamEvent
from paraudio.engines.isolation._handle import Handle
from paraudio.engines.isolation._inspect import inspect_in_thread
from paraudio.engines.isolation._pending import Call, Care, Pending, obtain
from paraudio.engines.isolation._protocols import Inspection, ModelHandle, SessionHandle
from paraudio.engines.isolation._threads import start_in_thread
from paraudio.engines.isolation._weights import Weights
from paraudio.engines.worker import ModelHost, Reply, SessionHost, load_host

T = TypeVar("T")


@asynccontextmanager
async def open_thread_isolation(
    *, hang_timeout_s: float = 10.0
) -> AsyncIterator["ThreadIsolation"]:
    """Open an isolation that runs families in threads.

    Args:
        hang_timeout_s: How long a call may ignore its stop before it counts as hanging.

    Leaving it waits for nobody: a thread that still runs is in ``abandoned()``, and a process that
    has such threads must end with ``os._exit``.
    """
    yield ThreadIsolation(hang_timeout_s=hang_timeout_s)


class ThreadIsolation:
    """Runs families in threads; see `paraudio.engines.isolation.Isolation`."""

    def __init__(self, *, hang_timeout_s: float) -> None:
        self._care = Care(hang_timeout_s)

    async def inspect(self, family: Family, load: Load) -> Inspection:
        """Ask the family about a model without loading it."""
        return await inspect_in_thread(family, load, self._care)

    async def load(self, family: Family, load: Load) -> ModelHandle:
        """Load weights."""
        await trio.lowlevel.checkpoint_if_cancelled()
        stop = Stop()
        call = start_in_thread(
            f"model {load.model_id!r}: load", partial(load_host, family, load, stop)
        )
        return ThreadModel(await obtain(call, stop, self._care, _unload), self._care)

    def abandoned_of(self, model_id: str) -> Sequence[Call]:
        """The calls of one model that ignored their stop and still run."""
        return self._care.abandoned.of(model_id)

    def abandoned(self) -> list[str]:
        """One line for each call that ignored its stop and still runs."""
        return self._care.abandoned.lines()


class ThreadModel:
    """Loaded weights in this process; see `paraudio.engines.isolation.ModelHandle`."""

    def __init__(self, host: ModelHost, care: Care) -> None:
        self._host = host
        self._care = care
        self._weights = Weights(lambda: _unload(host))
        self._built = 0

    @property
    def capacity(self) -> int:
        """How many sessions may exist at once."""
        return self._host.capacity

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the model itself."""
        return self._host.voices

    async def session(self) -> SessionHandle:
        """Build a session."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._built += 1
        name = f"{self._host.name}, session {self._built}"
        stop = Stop()
        call = start_in_thread(f"{name}: building", self._host.session)
        self._weights.expect(call)
        host = await obtain(call, stop, self._care, partial(_close, self._weights, name))
        return Handle(ThreadPort(host, self._weights, name), self._care, name)

    async def close(self) -> None:
        """Free the weights."""
        if (freeing := self._weights.close()) is not None:
            await freeing.outlast(self._care)


@dataclass(frozen=True, slots=True)
class ThreadPort:
    """Calls one session in threads; see `paraudio.engines.isolation._handle.Port`."""

    host: SessionHost
    weights: Weights
    name: str

    @property
    def can_stream(self) -> bool:
        """Whether the session streams."""
        return self.host.can_stream

    @property
    def can_batch(self) -> bool:
        """Whether the session has a native batch."""
        return self.host.can_batch

    @property
    def can_live(self) -> bool:
        """Whether the session takes input that is still being made."""
        return self.host.can_live

    @property
    def lost(self) -> bool:
        """Never: this process is here."""
        return False

    @property
    def pid(self) -> int | None:
        """The session has no process of its own."""
        return None

    def run(self, job: Job, stop: Stop) -> Pending[Result]:
        """Prepare and run."""
        return self._start("run", partial(self.host.run, job, stop))

    def open_stream(self, job: Job, stop: Stop) -> Pending[None]:
        """Prepare a job and begin to stream it."""
        return self._start("stream", partial(self.host.open_stream, job, stop))

    def open_batch(self, jobs: Sequence[Job], stop: Stop) -> Pending[None]:
        """Prepare jobs and begin to run them."""
        return self._start("batch", partial(self.host.open_batch, jobs, stop))

    def next_event(self, stop: Stop) -> Pending[StreamEvent | None]:
        """Pull one event."""
        return self._start("stream", partial(self.host.next_event, stop))

    def next_result(self, stop: Stop) -> Pending[tuple[int, Result] | None]:
        """Pull one result."""
        return self._start("batch", partial(self.host.next_result, stop))

    def begin(self, job: Job, stop: Stop) -> Pending[None]:
        """Begin a live job."""
        return self._start("live", partial(self.host.begin, job, stop))

    def feed(self, piece: Piece, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """Give one piece to the live job."""
        return self._start("live", partial(self.host.feed, piece, stop))

    def finish(self, stop: Stop) -> Pending[tuple[StreamEvent, ...]]:
        """End the input of the live job."""
        return self._start("end of live input", partial(self.host.finish, stop))

    def leave(self) -> Pending[None]:
        """Close the open stream, batch or live job."""
        return self._start("end of a stream", self.host.leave)

    def restore(self) -> Pending[None]:
        """Reset the session, else build a new one in its place."""
        return self._start("restore", self.host.restore)

    def close(self) -> Pending[None]:
        """Free the session, and part from the weights."""
        return _close(self.weights, self.name, self.host)

    def abandon(self, call: Call) -> None:
        """Close the session when ``call`` ends."""
        call.then(self.close)

    async def kill(self) -> bool:
        """A thread cannot be killed."""
        await trio.lowlevel.checkpoint()
        return False

    async def revive(self) -> None:
        """There is nothing that could have died."""
        await trio.lowlevel.checkpoint()

    def _start(self, what: str, work: Callable[[], Reply[T]]) -> Pending[T]:
        return start_in_thread(f"{self.name}: {what}", work)


def _close(weights: Weights, name: str, host: SessionHost) -> Pending[None]:
    closing = start_in_thread(f"{name}: close", host.close)
    closing.then(weights.part)
    return closing


def _unload(host: ModelHost) -> Pending[None]:
    return start_in_thread(f"{host.name}: unload", host.close)
