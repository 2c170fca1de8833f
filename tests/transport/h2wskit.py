"""A websocket client within a stream of HTTP/2."""

from collections.abc import Iterable

import trio
from h2.connection import ConnectionState
from tests.transport.h2kit import H2Answer, H2Client, connect_h2
from tests.transport.kit import Served
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event


class H2WsClient:
    """One websocket, from the client's end."""

    open_state = ConnectionState.CLIENT_OPEN

    def __init__(self, client: H2Client, stream: int) -> None:
        self.client = client
        self.stream = stream
        self.machine = Connection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._taken = 0

    @property
    def answer(self) -> H2Answer:
        return self.client.answers[self.stream]

    async def send(self, event: Event) -> None:
        await self.client.upload(self.stream, self.machine.send(event), end=False)

    async def end(self) -> None:
        """Close the client's side of the stream."""
        self.client.connection.end_stream(self.stream)
        await self.client.flush()

    async def next(self) -> Event:
        """Wait for the next event; `trio.EndOfChannel` when the server has ended the stream."""
        while not self._events:
            news = self.answer.body[self._taken :]
            if news:
                self._taken += len(news)
                self.machine.receive_data(news)
                self._events += self.machine.events()
            elif self.answer.ended or self.answer.reset is not None:
                raise trio.EndOfChannel
            else:
                await self.client._pump()
        return self._events.pop(0)

    async def closed(self) -> CloseConnection:
        """Wait for the server's close."""
        while not isinstance(event := await self.next(), CloseConnection):
            pass
        return event


async def open_h2ws(
    server: Served | H2Client,
    target: bytes = b"/",
    *,
    headers: Iterable[tuple[bytes, bytes]] = (),
    version: bytes | None = b"13",
    protocol: bytes = b"websocket",
    accepted: bool = True,
) -> H2WsClient:
    """Open a websocket, on a connection that there is or on one of its own; see it accepted."""
    client = server if isinstance(server, H2Client) else await connect_h2(server)
    given = [] if version is None else [(b"sec-websocket-version", version)]
    stream = await client.head(
        (b":method", b"CONNECT"),
        (b":protocol", protocol),
        (b":scheme", b"http"),
        (b":path", target),
        (b":authority", b"test"),
        *given,
        *headers,
        end=False,
    )
    websocket = H2WsClient(client, stream)
    while accepted and not websocket.answer.status:
        await client._pump()
    if accepted:
        assert websocket.answer.status == 200
    return websocket
