"""An application beside whose clients an innocent one has a stream, which must not notice them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    Served,
    answer,
    begin,
    body_of,
    hello,
    more,
    routes,
    serving,
    settle,
)

from paraudio.transport import ASGIApp


class Ticker:
    """A stream that goes on when the test says so: the innocent neighbour."""

    def __init__(self) -> None:
        self.scope, self.tick = Scope(), trio.Event()

    async def __call__(self, _: Message, __: Receive, send: Send) -> None:
        with self.scope:
            await begin(send)
            while True:
                await more(send, b"tick")
                await self.tick.wait()
                self.tick = trio.Event()


async def refuse(scope: Message, receive: Receive, send: Send) -> None:
    await answer(send, b"no", status=413)


@asynccontextmanager
async def with_a_neighbour(app: ASGIApp) -> AsyncIterator[Served]:
    """Serve, with a stream running that must still run afterwards, and a next client served."""
    ticker = Ticker()

    async def both(scope: Message, receive: Receive, send: Send) -> None:
        await (ticker if scope["path"] == "/tick" else app)(scope, receive, send)

    async with serving(both) as served:
        neighbour = await served.connect()
        await neighbour.send(b"GET /tick HTTP/1.1\r\nHost: x\r\n\r\n")
        await neighbour.until(b"tick\r\n")
        yield served
        await settle()
        ticker.tick.set()
        await neighbour.until(b"tick\r\n")
        assert not ticker.scope.ended.is_set()
        assert (await (await served.connect()).ask("/fine")).body == b"/fine"


async def read(scope: Message, receive: Receive, send: Send) -> None:
    await answer(send, await body_of(receive))


APP = routes(root=hello, fine=hello, read=read, refuse=refuse)
