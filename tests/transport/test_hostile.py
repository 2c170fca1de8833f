"""Whatever one client does, the others do not notice."""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
from hypercorn.utils import UnexpectedMessageError
from tests.transport.h2kit import connect_h2
from tests.transport.kit import Message, Receive, Send, Served, hello, settle
from tests.transport.neighbour import APP, with_a_neighbour


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),  # TLS to a plain port
        b"\x00" * 1000,
        b"\r\n" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nnot a preface at all",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"PRI / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
async def test_garbage(garbage: bytes) -> None:
    async with with_a_neighbour(APP) as served:
        client = await served.connect()
        await client.send(garbage)
        await settle()
        client.half_close()
        await client.ended()


async def test_noise() -> None:
    noise = random.Random(1)
    pieces = [
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST /refuse HTTP/1.1\r\nHost: x\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        b"\r\n",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"hello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x81\x85",
    ]
    async with with_a_neighbour(APP) as served:
        for _ in range(150):
            client = await served.connect()
            try:
                for _ in range(noise.randrange(1, 9)):
                    piece = noise.choice([*pieces, noise.randbytes(20)])
                    await client.send(piece)
                    if noise.random() < 0.3:
                        await trio.lowlevel.checkpoint()
            except trio.BrokenResourceError:
                pass  # the server had enough
            with suppress(OSError):  # half-closing what the server has reset
                noise.choice([client.close, client.reset, client.half_close])()
            client.close()
        # A websocket that reaches the handler for HTTP is the application's own mistake here.
        await settle()
        for what in served.errors_of(UnexpectedMessageError):
            assert what.startswith("the application failed on WEBSOCKET ")


async def data_after_an_early_answer(served: Served) -> None:
    client = await connect_h2(served)
    stream = await client.begin(b"/refuse", method=b"POST", end=False)
    await client.answer(stream)
    await client.raw_data(stream, bytes(1000))
    await client.raw_data(stream + 100, bytes(1000))


async def a_path_that_is_not_ascii(served: Served) -> None:
    client = await connect_h2(served)
    assert (await client.ask("/größe".encode())).status == 400


async def connect_without_a_path(served: Served) -> None:
    client = await connect_h2(served)
    assert (await client.answer(await client.begin(None, method=b"CONNECT"))).status == 405


async def junk_after_an_upgrade(served: Served) -> None:
    client = await served.connect()
    await client.send(
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\xff\xff"
    )
    await client.ended()


async def a_reset_in_every_state(served: Served) -> None:
    for data in (b"", b"GE", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"PRI * "):
        client = await served.connect()
        if data:
            await client.send(data)
        client.reset()


async def many_streams(served: Served) -> None:
    client = await connect_h2(served)
    for _ in range(300):
        await client.reset(await client.begin(b"/refuse", method=b"POST", end=False))


@pytest.mark.parametrize(
    "attack",
    [
        data_after_an_early_answer,
        a_path_that_is_not_ascii,
        connect_without_a_path,
        junk_after_an_upgrade,
        a_reset_in_every_state,
        many_streams,
    ],
)
async def test_attacks(attack: Callable[[Served], Awaitable[None]]) -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await trio.sleep_forever()
        await APP(scope, receive, send)

    async with with_a_neighbour(app) as served:
        await attack(served)


async def test_a_bug_in_a_connection_ends_that_connection_and_is_reported() -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/bug":
            # What a bug in protocol code looks like from outside: an exception in the reader.
            (connection,) = [one for one in server._population if "/bug" in str(one)]
            connection._protocol = None
        await hello(scope, receive, send)

    async with with_a_neighbour(app) as served:
        server = served.server
        client = await served.connect()
        assert (await client.ask("/bug")).body == b"/bug"
        await client.send(b"more")
        await client.ended()
        (what,) = served.errors_of(AssertionError)
        assert what.startswith("the connection failed: 127.0.0.1:")
