"""A websocket client."""

from collections.abc import Sequence
from typing import Any

import trio
import wsproto
from tests.transport.kit import Client, Served
from wsproto.events import AcceptConnection, CloseConnection, Event, RejectConnection, Request


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
