"""The border to the application, and what hypercorn's protocol classes expect around them."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio
from hypercorn.events import Event

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI 3 application. Every framework types scope and messages its own way, so none is named."""

Report: TypeAlias = Callable[[str, BaseException], None]
"""Told what failed, in words, and why; synchronous, and must not raise."""


class Flag:
    """A `trio.Event` in the shape that hypercorn's protocol classes use, which can be cleared."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def fire(self) -> None:
        """Set it, from code that does not await."""
        self._event.set()

    async def set(self) -> None:
        """Set it."""
        self._event.set()

    async def clear(self) -> None:
        """Unset it; whoever waits already goes on waiting for the setting that was meant."""
        if self._event.is_set():
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()


class Context:
    """What hypercorn calls the worker's context: here only whether the server drains."""

    event_class = Flag

    def __init__(self) -> None:
        self.terminate = Flag()
        self.terminated = Flag()

    async def mark_request(self) -> None:
        """Hypercorn's count of requests, after which a worker would be replaced."""

    @staticmethod
    async def sleep(wait: float) -> None:
        """Sleep for ``wait`` seconds."""
        await trio.sleep(wait)

    @staticmethod
    def time() -> float:
        """The loop's clock, seconds."""
        return trio.current_time()


class Cut(Event):
    """The answer is not complete, and only a reset can say so: the connection ends with one."""
