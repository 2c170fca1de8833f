"""A websocket client, and applications for it."""

from collections.abc import Sequence
from typing import Any

import trio
import wsproto
from tests.transport.kit import Client, Message, Receive, Send, Served, hello
from wsproto.events import AcceptConnection, CloseConnection, Event, RejectConnection, Request

from paraudio.transport import ASGIApp


class WsClient:
    """One websocket, from the client's end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.machine = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._events: list[Event] = []

    async def send(self, event: Event) -> None:
        await self.client.send(self.machine.send(event))

    async def next(self) -> Event:
        """Wait for the next event; `trio.EndOfChannel` when the server has closed the socket."""
        while not self._events:
            data = await self.client.stream.receive_some(65536)
            if not data:
                raise trio.EndOfChannel
            self.machine.receive_data(bytes(data))
            self._events += self.machine.events()
        return self._events.pop(0)

    async def closed(self) -> CloseConnection:
        """Wait for the server's close."""
        while not isinstance(event := await self.next(), CloseConnection):
            pass
        return event


async def connect_ws(
    served: Served, target: str = "/", *, accepted: bool = True, extensions: Sequence[Any] = ()
) -> WsClient:
    """Open a websocket, and see it accepted."""
    websocket = WsClient(await served.connect())
    await websocket.send(Request(host="test", target=target, extensions=list(extensions)))
    if accepted:
        assert isinstance(await websocket.next(), AcceptConnection)
    return websocket


async def status_of(websocket: WsClient) -> int:
    """The status that a websocket was refused with."""
    event = await websocket.next()
    assert isinstance(event, RejectConnection)
    return event.status_code


def websockets(handler: ASGIApp) -> ASGIApp:
    """An application whose handler gets the websockets; a plain request gets its path."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await (handler if scope["type"] == "websocket" else hello)(scope, receive, send)

    return app


async def accept(receive: Receive, send: Send) -> None:
    assert await receive() == {"type": "websocket.connect"}
    await send({"type": "websocket.accept"})


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    await accept(receive, send)
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})
