"""The two halves of an HTTP/2 stream: what comes from the client, and what waits to go to it."""

from dataclasses import dataclass

from hypercorn.protocol.h2 import (
    BUFFER_HIGH_WATER,
    BUFFER_LOW_WATER,
    BufferCompleteError,
    StreamBuffer,
)

from paraudio.transport._call import AppCall


@dataclass(slots=True, eq=False)
class Upload:
    """The request half of a stream.

    Attributes:
        call: Who takes the body.
        unacknowledged: How many bytes of window the client waits to get back.
        ended: Whether the client has sent everything.
        blocked_since: When the answer began to wait for the client's window, or None.
    """

    call: AppCall
    unacknowledged: int = 0
    ended: bool = False
    blocked_since: float | None = None


class Outbox(StreamBuffer):
    """What the application has sent on a stream and the client has not taken.

    Hypercorn's own lets the application go on whenever a frame is tried, also when the client's
    window is shut and nothing has left.
    """

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
