"""Listeners of another kind: coroutines beside the HTTP server, with the same duty to drain."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import trio

from paraudio.lifecycle import Runtime
from paraudio.server._stopping import Phase, Shutdown

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """What a listener of another kind gets of the server that it is part of.

    Attributes:
        runtime: The models and the way to use them; it outlives every listener.
    """

    runtime: Runtime
    _shutdown: Shutdown

    async def wait_draining(self) -> None:
        """Wait until nothing new is to be taken; a checkpoint."""
        await self._shutdown.wait(Phase.DRAINING)


Listener: TypeAlias = Callable[[Service], Awaitable[None]]
"""Serves clients until `Service.wait_draining` returns, lets what runs finish, and returns.

The drain waits for it. What has not returned when the drain is over is cancelled, and named in the
exit report. One that fails is logged and ends alone.
"""


class CustomListeners:
    """The listeners of other kinds of one server.

    Args:
        listeners: The coroutines.
        service: What each is given.
    """

    def __init__(self, listeners: Sequence[Listener], service: Service) -> None:
        self._listeners = listeners
        self._service = service
        self._scope = trio.CancelScope()
        self._running: dict[int, str] = {}
        self._ended = trio.Event()
        self._cuts: list[str] = []

    @property
    def running(self) -> int:
        """How many have not returned."""
        return len(self._running)

    async def run(self) -> None:
        """Run all of them to their ends, or until `stop`."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for number, listener in enumerate(self._listeners):
                        nursery.start_soon(self._run, number, listener)
        finally:
            self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until every one has returned."""
        await self._ended.wait()

    def stop(self) -> None:
        """Cancel what has not returned."""
        self._cuts += [f"the listener {name} was cut off" for name in self._running.values()]
        self._scope.cancel("the server stops")

    def cuts(self) -> list[str]:
        """One line for each listener that `stop` cut off."""
        return list(self._cuts)

    async def _run(self, number: int, listener: Listener) -> None:
        name = getattr(listener, "__qualname__", repr(listener))
        self._running[number] = name
        try:
            await listener(self._service)
        except Exception:
            log.exception("the listener %s failed", name)
        finally:
            del self._running[number]
