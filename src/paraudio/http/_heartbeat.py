"""Comments in a stream of events that is quiet, for proxies that close what is silent.

A comment is a line that readers of events skip. It is sent by a task beside the one that makes the
events, because that one may be waiting for a model, whose call must not be cancelled for it. The
two never send at the same moment: who comes second waits for the first, and no comment is sent
behind an event that a slow client has not taken yet.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from paraudio.config import Settings
from paraudio.transport import Writer

COMMENT: Final = b": keep-alive\n\n"


def quiet_s(settings: Settings) -> float:
    """After how many seconds without an event a comment is sent; infinite for never."""
    return settings.sse_heartbeat_ms / 1000 or math.inf


async def kept_alive(
    write: Writer, every_s: float, write_to: Callable[[Writer], Awaitable[None]]
) -> None:
    """Write a stream of events, with a comment after each stretch without any.

    Cancelled, or when the stream raises, nothing is sent any more, and what it raised is raised.

    Args:
        write: Sends bytes; returns when the socket has taken them.
        every_s: The longest stretch in seconds; infinite for any.
        write_to: Writes the stream with the writer that it is given.
    """
    if every_s == math.inf:
        await write_to(write)
        return
    heart = _Heart(write, every_s)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heart.beat)
            await write_to(heart.write)
            nursery.cancel_scope.cancel("the stream has ended")
    except BaseExceptionGroup as group:
        # Whoever awaits this is to see what the stream raised, as without a heart.
        failure = group.exceptions[0] if len(group.exceptions) == 1 else group
    if failure is not None:
        raise failure


class _Heart:
    """Beats while nothing else is sent."""

    # Invariant: at most one of a beat and an event is being sent.

    def __init__(self, write: Writer, every_s: float) -> None:
        self._write = write
        self._every_s = every_s
        self._quiet_since = trio.current_time()
        self._sending = False
        self._beating: trio.Event | None = None

    async def write(self, data: bytes) -> None:
        """Send a part of the stream."""
        while self._beating is not None:
            await self._beating.wait()
        self._sending = True
        try:
            await self._write(data)
        finally:
            self._sending = False
            self._quiet_since = trio.current_time()

    async def beat(self) -> None:
        """Send comments, until it is cancelled."""
        while True:
            await trio.sleep_until(self._quiet_since + self._every_s)
            now = trio.current_time()
            if self._sending:
                self._quiet_since = now  # the client has more than enough to read
            elif now >= self._quiet_since + self._every_s:
                await self._beat()

    async def _beat(self) -> None:
        self._beating = beating = trio.Event()
        try:
            await self._write(COMMENT)
        finally:
            self._quiet_since = trio.current_time()
            self._beating = None
            beating.set()
