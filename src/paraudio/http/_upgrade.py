"""A websocket within its exchange: let in or refused as a request is, listed, cancelled, closed."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from quart_trio.wrappers import TrioWebsocket

from paraudio.errors import RequestCancelledError
from paraudio.http._access import note_end
from paraudio.http._errors import split_cancelled
from paraudio.http._exchange import Exchange
from paraudio.http._sending import Message, Sender
from paraudio.transport import Messages, WebsocketConnection

if TYPE_CHECKING:
    from paraudio.http._app import Api

log = logging.getLogger(__name__)

GOING_AWAY: Final = 1001
"""The server shuts down."""
POLICY: Final = 1008
"""The client broke a rule, or ran out of time."""
FAILED: Final = 1011
"""The server failed."""

_MOST_REASON_BYTES: Final = 123


class Socket:
    """One websocket, as a handler sees it.

    Args:
        exchange: The scope that it is served in.
        websocket: Its head.
        messages: What the client sends.
        send: Takes messages of ASGI.

    Attributes:
        accepted: Whether it is open, or was.
        closed: Whether we have closed it.
    """

    def __init__(
        self,
        exchange: Exchange,
        websocket: TrioWebsocket,
        messages: Messages,
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.websocket = websocket
        self.accepted = False
        self.closed = False
        self._exchange = exchange
        self._messages = messages
        self._send = send

    @property
    def offered(self) -> list[str]:
        """The subprotocols that the client offers."""
        return list(self.websocket.requested_subprotocols)

    async def accept(self, subprotocol: str | None = None) -> None:
        """Open it."""
        self.accepted = True
        sender = self._exchange.sender
        sender.status, sender.streamed = 101, True
        headers = [(b"x-request-id", self._exchange.id.encode())]
        await self._send(
            {"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers}
        )

    async def receive(self) -> str | bytes:
        """Wait for the client's next message; cancelled, nothing is lost."""
        return await self._messages.receive()

    async def send(self, text: str) -> None:
        """Send a text; returns when the connection has taken it."""
        await self._send({"type": "websocket.send", "text": text, "bytes": None})

    async def close(self, code: int, reason: str) -> None:
        """Close it; the last thing that is sent."""
        if not self.closed:
            self.closed = True
            brief = reason.encode()[:_MOST_REASON_BYTES].decode(errors="ignore")
            await self._send({"type": "websocket.close", "code": code, "reason": brief})


class Upgrade(WebsocketConnection):
    """One websocket in quart, within its own exchange."""

    async def serve(
        self,
        websocket: TrioWebsocket,
        messages: Messages,
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Serve a websocket; what it holds is released when it is closed, or cut off."""
        exchange = Exchange(self.api.core, websocket, Sender(_refusing(send)))
        socket = Socket(exchange, websocket, messages, send)
        try:
            await self._answer(exchange, socket)
        finally:
            note_end(exchange)

    @property
    def api(self) -> "Api":
        """The application."""
        return cast("Api", self.app)

    async def _answer(self, exchange: Exchange, socket: Socket) -> None:
        try:
            async with exchange:
                await self.api.handle_upgrade(exchange, socket)
        except (Exception, BaseExceptionGroup) as failure:
            if not exchange.cancelled or split_cancelled(failure)[0]:
                raise
        if not exchange.cancelled:
            return
        if socket.accepted:
            error = RequestCancelledError(f"the request {exchange.id} was cancelled by its ID")
            await socket.close(POLICY, error.message)
        elif not exchange.sender.complete:
            await self.api.tell_cancelled(exchange)


def _refusing(send: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Sends a plain HTTP answer in place of a websocket."""

    async def refuse(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return refuse
