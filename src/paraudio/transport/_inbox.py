"""What has come for the application and was not received by it yet: bounded, and never in the way.

``put`` is called by the task that reads the connection, ``take`` by the application. A full inbox
makes ``put`` wait, so the socket is not read and the client's sends stop: that is the backpressure.
Once the inbox is closed ``put`` returns at once and drops what it was given, so a finished
application can never hold the connection up.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import trio

from paraudio.transport._limits import INBOX_BYTES, INBOX_MESSAGES

Message: TypeAlias = dict[str, Any]

HTTP_GONE: Final[Message] = {"type": "http.disconnect"}


async def _nothing(_count: int = 0) -> None:
    """For connections that need not be told."""


class Inbox:
    """The part that both kinds share: who waits, and whether it is over.

    Attributes:
        starving_since: When the application began to wait for its client, or None if it does not.
    """

    __slots__ = ("_closed", "_gone", "_more", "_room", "starving_since")

    def __init__(self) -> None:
        self._gone: Message | None = None
        self._closed = False
        self._more: trio.Event | None = None
        self._room: trio.Event | None = None
        self.starving_since: float | None = None

    def leave(self, message: Message) -> None:
        """The client is gone: what it sent is void, and ``message`` is all that can be received."""
        self._gone = message
        self.close()

    def close(self) -> None:
        """Drop everything, now and from now on."""
        self._closed = True
        self._drop()
        self._wake_taker()
        self._wake_putter()

    @property
    def filled(self) -> bool:
        """Whether the next ``take`` has something of the client, or its end."""
        raise NotImplementedError

    def _drop(self) -> None:
        raise NotImplementedError

    async def _wait_for_more(self) -> None:
        if self._more is None:
            self._more = trio.Event()
        await self._more.wait()

    async def _wait_for_room(self) -> None:
        if self._room is None:
            self._room = trio.Event()
        await self._room.wait()

    def _wake_taker(self) -> None:
        self.starving_since = None
        if self._more is not None:
            self._more.set()
            self._more = None

    def _wake_putter(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


class BodyInbox(Inbox):
    """The body of one request; small pieces are received as one.

    Args:
        wanted: Awaited when the application first waits for a body: the time for ``100 Continue``.
        taken: Awaited with the number of bytes whenever the application has taken some.
        bounded: Whether ``put`` waits for room. HTTP/2 bounds each stream by its own window.
    """

    __slots__ = ("_asked", "_bound", "_complete", "_data", "_ended", "_taken", "_wanted")

    def __init__(
        self,
        *,
        wanted: Callable[[], Awaitable[None]] = _nothing,
        taken: Callable[[int], Awaitable[None]] = _nothing,
        bounded: bool = True,
    ) -> None:
        super().__init__()
        self._wanted = wanted
        self._taken = taken
        self._bound = INBOX_BYTES if bounded else math.inf
        self._data = bytearray()
        self._asked = False
        self._complete = False
        self._ended = False

    @property
    def filled(self) -> bool:
        """Whether the next ``take`` has a piece, or the end of the body."""
        return not self._ended and bool(self._data or self._complete)

    async def put(self, message: Message) -> None:
        """Add a piece; returns when the next one may come."""
        if not message["more_body"]:
            self._complete = True
        if self._closed:
            return
        self._data += message["body"]
        self._wake_taker()
        while len(self._data) >= self._bound and not self._closed:
            await self._wait_for_room()

    async def invite(self) -> None:
        """Tell a client that waits to be told that its body may come, as `take` would."""
        if not self._asked and not self._closed:
            self._asked = True
            await self._wanted()

    async def take(self) -> Message:
        """Wait for a piece, or for the client to leave; cancelled, nothing is lost."""
        while True:
            if self._gone is not None:
                return self._gone
            if self._closed:
                return HTTP_GONE
            if self.filled:
                return await self._next()
            if not self._asked and not self._ended:
                self._asked = True
                await self._wanted()
                continue
            if not self._ended:
                self.starving_since = trio.current_time()
            try:
                await self._wait_for_more()
            finally:
                self.starving_since = None

    async def _next(self) -> Message:
        data, self._data = bytes(self._data), bytearray()
        self._ended = self._complete
        self._wake_putter()
        if data:
            # Shielded: the bytes are in our hands, and the window must not shrink by a cancel.
            with trio.CancelScope(shield=True):
                await self._taken(len(data))
        return {"type": "http.request", "body": data, "more_body": not self._ended}

    def _drop(self) -> None:
        self._data = bytearray()


class MessageInbox(Inbox):
    """The messages of one websocket, in order."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self) -> None:
        super().__init__()
        self._messages: deque[Message] = deque()
        self._bytes = 0

    @property
    def filled(self) -> bool:
        """Whether the next ``take`` has a message."""
        return bool(self._messages)

    async def put(self, message: Message) -> None:
        """Add a message; returns when the next one may come."""
        if self._closed:
            return
        self._messages.append(message)
        self._bytes += _size(message)
        self._wake_taker()
        while self._full() and not self._closed:
            await self._wait_for_room()

    async def take(self) -> Message:
        """Wait for a message, or for the client to leave; cancelled, nothing is lost."""
        while not self._messages:
            if self._gone is not None:
                return self._gone
            await self._wait_for_more()
        message = self._messages.popleft()
        self._bytes -= _size(message)
        self._wake_putter()
        return message

    def _full(self) -> bool:
        return len(self._messages) >= INBOX_MESSAGES or self._bytes >= INBOX_BYTES

    def _drop(self) -> None:
        self._messages.clear()
        self._bytes = 0


def _size(message: Message) -> int:
    return len(message.get("bytes") or message.get("text") or "")
