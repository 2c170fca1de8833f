"""A call that is inside a backend, and the one rule for waiting for it.

Cancelling the wait tells the backend to stop at once, in the same step; but the wait ends only
when the backend is out of the call, or has ignored the stop for the hang timeout. A thread that
still computes over a session is a fact that no exception can talk away, so nothing here ever
pretends that a call is over: a call that hangs stays *pending*, and is listed as abandoned until it
ends after all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

from paraudio.engines._stop import Stop
from paraudio.engines.worker import Done, Reply

T = TypeVar("T")

LATE_S: Final = 0.1
"""A process that runs is not later than this for a deadline, in seconds."""


class Abandoned:
    """The calls that ignored their stop and still run."""

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}

    def add(self, call: "Call") -> None:
        """List a call until it ends."""
        if not call.ended:
            self._calls[call] = None
            call.then(lambda: self._calls.pop(call, None))

    def of(self, model: str) -> list["Call"]:
        """Those of one model, oldest first; what a call is called begins with its model."""
        begins = (f"model {model!r}:", f"model {model!r},")
        return [call for call in self._calls if call.what.startswith(begins)]

    def lines(self) -> list[str]:
        """One line for each call, oldest first."""
        return [f"{call.what} ignored its stop and still runs" for call in self._calls]


@dataclass(frozen=True, slots=True)
class Care:
    """How patient an isolation is with its calls.

    Attributes:
        hang_timeout_s: How long a call may ignore its stop.
        abandoned: Where it is listed from then on.
    """

    hang_timeout_s: float
    abandoned: Abandoned = field(default_factory=Abandoned)


class Call:
    """One call inside a backend, whatever it will return.

    Attributes:
        what: The call, in words, for messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._ended = trio.Event()
        self._then: list[Callable[[], object]] = []

    @property
    def ended(self) -> bool:
        """Whether the backend is out of the call."""
        return self._ended.is_set()

    def then(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on the event loop when the call ends, or now if it has ended."""
        if self.ended:
            callback()
        else:
            self._then.append(callback)

    async def wait_ended(self) -> None:
        """Wait for the end without asking for it; cancelling stops only the waiting."""
        await self._ended.wait()

    async def outlast(self, care: Care) -> None:
        """Wait for the end whoever is cancelled, but not longer than the hang timeout.

        A call that has not ended by then is listed as abandoned. Where the timeout is noticed late,
        this process did not run and perhaps the backend neither, so it gets as much time again, at
        most the hang timeout.
        """
        with trio.move_on_after(care.hang_timeout_s, shield=True) as patience:
            await self._ended.wait()
        late_s = trio.current_time() - patience.deadline
        if patience.cancelled_caught and late_s > LATE_S:
            with trio.move_on_after(min(late_s, care.hang_timeout_s), shield=True):
                await self._ended.wait()
        care.abandoned.add(self)


class Pending(Call, Generic[T]):
    """A call that will return a ``T``; created when it starts, resolved once when it is out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._reply: Reply[T] | None = None

    @property
    def reply(self) -> Reply[T] | None:
        """What the call gave, or None while it runs."""
        return self._reply

    def resolve(self, reply: Reply[T]) -> None:
        """Say how the call ended; on the event loop, once."""
        if self._reply is not None:
            raise RuntimeError(f"{self.what} ended twice")
        self._reply = reply
        self._ended.set()
        callbacks, self._then = self._then, []
        for callback in callbacks:
            callback()

    async def wait(self, stop: Stop, care: Care) -> Reply[T]:
        """Wait for the end of the call.

        Cancelled: ``stop`` is set at once; returns (cancelled) when the call has ended, or after
        the hang timeout, and then the call is listed as abandoned.
        """
        try:
            await self._ended.wait()
        except trio.Cancelled:
            stop.set()
            await self.outlast(care)
            raise
        return self.taken()

    def taken(self) -> Reply[T]:
        """The reply of a call that has ended."""
        if self._reply is None:
            raise RuntimeError(f"{self.what} has not ended")
        return self._reply


async def obtain(
    call: Pending[T], stop: Stop, care: Care, discard: Callable[[T], "Pending[None] | None"]
) -> T:
    """Wait for a call that builds something, and return that.

    Args:
        call: The call.
        stop: What ends it early.
        care: How long it may ignore that.
        discard: Frees what was built.

    Cancelled: waits as `Pending.wait` does, and what was built after all is freed: before this
    returns, or, if the call ignored its stop, as soon as it ends.
    """
    try:
        return (await call.wait(stop, care)).unwrap()
    except trio.Cancelled:
        freeing: list[Pending[None]] = []

        def free() -> None:
            if isinstance(call.reply, Done) and (began := discard(call.reply.value)) is not None:
                freeing.append(began)

        call.then(free)
        for begun in freeing:
            await begun.outlast(care)
        raise
