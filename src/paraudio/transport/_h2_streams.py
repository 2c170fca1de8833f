"""The two halves of an HTTP/2 stream: what comes from the client, and what waits to go to it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import trio
from hypercorn.protocol.h2 import (
    BUFFER_HIGH_WATER,
    BUFFER_LOW_WATER,
    BufferCompleteError,
    StreamBuffer,
)

from paraudio.transport._asgi import Flag
from paraudio.transport._call import AppCall
from paraudio.transport._lateness import Lateness


@dataclass(slots=True, eq=False)
class Upload:
    """The request half of a stream.

    Attributes:
        call: Who takes the body.
        unacknowledged: How many bytes of window the client waits to get back.
        ended: Whether the client has sent everything.
        blocked_since: When the answer began to wait for the client's window, or None.
        senders: How many wait for it: the application, and a websocket's pings and answers.
        declared: How many bytes the client said that it would send, or None.
        received: How many have come.
        waits: Whether the client sends its body when it is told to (``Expect: 100-continue``).
        parting: Whether a websocket's end is under way.
        over: Set when the client has nothing more to send on the stream, or it is closed.
    """

    call: AppCall
    unacknowledged: int = 0
    ended: bool = False
    blocked_since: float | None = None
    senders: int = 0
    declared: int | None = None
    received: int = 0
    waits: bool = False
    parting: bool = False
    over: trio.Event = field(default_factory=trio.Event)
    _reading: Lateness = field(default_factory=Lateness)
    _writing: Lateness = field(default_factory=Lateness)

    @property
    def broken(self) -> bool:
        """Whether an ended body is not as long as its head said."""
        return self.declared is not None and self.received != self.declared

    def late(self, now: float, waiting: Callable[[], bool]) -> bool:
        """Whether the client has neither sent nor taken anything for too long."""
        patience = self.call.patience
        return self._reading.passed(
            self.call.starving_since, patience.body_stall_s, now, waiting
        ) or self._writing.passed(self.blocked_since, patience.send_stall_s, now, waiting)


def declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The ``content-length`` of a request; h2 has seen that it is a number, and only one."""
    lengths = [int(value) for name, value in headers if name == b"content-length"]
    return lengths[0] if lengths else None


def waits_to_be_told(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a client sends its body only when it has read ``100 Continue``."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)


class Outbox(StreamBuffer):
    """What the application has sent on a stream and the client has not taken.

    Hypercorn's own lets the application go on whenever a frame is tried, also when the client's
    window is shut and nothing has left; and for it an answer has left when its bytes have, though
    the end of the stream has not.
    """

    def set_complete(self) -> None:
        """Add the end; `drain` waits for that to be taken as well."""
        if not self._complete and self._is_empty.is_set():
            self._is_empty = Flag()
        super().set_complete()

    async def push(self, data: bytes) -> None:
        """Add a piece; returns when most of it has left, or the stream is over."""
        if self._complete:
            raise BufferCompleteError
        self.buffer.extend(data)
        await self._is_empty.clear()
        while len(self.buffer) >= BUFFER_HIGH_WATER:
            await self._paused.clear()
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        """Take up to so many bytes to be sent now."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data
