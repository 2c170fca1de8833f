"""The way out of an answer: how far it has got, and nothing on the wire before there is a body."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import trio

Message: TypeAlias = dict[str, Any]
"""A message of ASGI; every library names them its own way."""

_EVENTS: Final = b"text/event-stream"


class Sender:
    """Sends the messages of one answer, its head with the first piece of its body.

    So whoever is cancelled before that has sent nothing, and another answer can take its place.

    Attributes:
        status: The HTTP status that was sent; 0 before.
        streamed: Whether the body comes in pieces.
        events: Whether the answer is a stream of events.
        complete: Whether the last piece was sent.
    """

    __slots__ = ("_head", "_send", "complete", "events", "status", "streamed")

    def __init__(self, send: Callable[[Any], Awaitable[None]]) -> None:
        self.status = 0
        self.streamed = False
        self.events = False
        self.complete = False
        self._send = send
        self._head: Message | None = None

    @property
    def started(self) -> bool:
        """Whether anything was sent."""
        return self.status != 0

    async def __call__(self, message: Any) -> None:
        """Send one message."""
        if message["type"] == "http.response.start":
            self._head = message
            return
        more = bool(message["more_body"])
        if self._head is not None:
            head, self._head = self._head, None
            self.status, self.streamed = head["status"], more
            self.events = _has_events(head)
            # The transport keeps a head until there is a body. An empty piece sends it, so that one
            # who is cancelled knows whether it was sent.
            with trio.CancelScope(shield=True):
                await self._send(head)
                await self._send(_piece(b"", more=True))
        self.complete = not more
        await self._send(message)

    async def finish(self, data: bytes) -> None:
        """Send the last piece of an answer that has begun."""
        await self(_piece(data, more=False))


def _piece(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _has_events(head: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(_EVENTS)
        for name, value in head["headers"]
    )
