"""Calls of the virtual isolation: one task each, which lets the call's steps pass."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

import trio

from paraudio.engines._steps import ItemSteps, Steps
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load
from paraudio.engines.isolation._pending import Call, Pending
from paraudio.engines.worker import Failed, Reply, translated
from paraudio.errors import BackendError
from paraudio.testing._gates import Arrival, Gates, Point

T = TypeVar("T")


class Calls:
    """Starts calls in a nursery, ends them at a stop, or by force."""

    def __init__(self, nursery: trio.Nursery, gates: Gates) -> None:
        self._nursery = nursery
        self._gates = gates
        self._scopes: dict[Call, trio.CancelScope] = {}
        self._forced: dict[Call, BackendError] = {}

    def start(
        self,
        what: str,
        work: Callable[[], Awaitable[Reply[T]]],
        stop: Stop | None = None,
        *,
        kind: type[BackendError] = BackendError,
    ) -> Pending[T]:
        """Start a call; without a ``stop`` it goes on to its end.

        Args:
            what: The call, for messages.
            work: What it does; an exception of it becomes a `Failed`.
            stop: What ends it early.
            kind: The error for what is not the caller's fault.
        """
        pending: Pending[T] = Pending(what)
        self._scopes[pending] = trio.CancelScope()
        self._nursery.start_soon(self._run, pending, work, stop, kind)
        return pending

    def force(self, call: Call, error: BackendError) -> None:
        """End a call as if its worker had died; it fails with ``error``."""
        if not call.ended:
            self._forced[call] = error
            self._scopes[call].cancel()

    async def enter(self, point: Point, load: Load, session: int = 0, text: str = "") -> None:
        """Report at a point, and wait there while the test holds it."""
        await self._gates.enter(
            Arrival(
                point,
                load.model_id,
                load.path,
                load.generation,
                session,
                text,
                trio.current_time(),
            )
        )

    async def _run(
        self,
        pending: Pending[T],
        work: Callable[[], Awaitable[Reply[T]]],
        stop: Stop | None,
        kind: type[BackendError],
    ) -> None:
        scope = self._scopes[pending]
        reply: Reply[T] = Failed(kind(f"{pending.what} was cut off: the isolation closed"))
        try:
            with scope, nullcontext() if stop is None else stop.calls(scope.cancel):
                reply = await _attempt(work, pending.what, kind)
            if scope.cancelled_caught:
                stopped = kind(f"{pending.what} was stopped")
                reply = Failed(self._forced.get(pending, stopped))
        finally:
            self._forced.pop(pending, None)
            del self._scopes[pending]
            pending.resolve(reply)


async def pass_time(steps: Steps[T]) -> T:
    """Let all steps pass on the event loop's clock; cancelled: the generator is closed."""
    try:
        while True:
            try:
                seconds = next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            await trio.sleep(seconds)
    finally:
        steps.close()


async def pass_to_item(steps: ItemSteps[T]) -> T | None:
    """Let the steps before the next item pass; None at the end."""
    for step in steps:
        if not isinstance(step, int | float):
            return step
        await trio.sleep(step)
    return None


async def _attempt(
    work: Callable[[], Awaitable[Reply[T]]], what: str, kind: type[BackendError]
) -> Reply[T]:
    try:
        return await work()
    except Exception as error:
        return Failed(translated(error, what, kind))
