"""Whatever one client does, the others do not notice."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from h11 import RemoteProtocolError
from hypercorn.utils import UnexpectedMessageError
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Answer,
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
from paraudio.transport._refusals import parser_fault


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


def test_what_came_is_shown_as_it_came() -> None:
    shown = repr(bytearray(b"GET (here)"))
    told = parser_fault(RemoteProtocolError(f"illegal request line: {shown}")).message
    assert told == "this is no valid HTTP/1.1: illegal request line: 'GET (here)'"


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


POST = b"POST /fine HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"


async def refused(data: bytes) -> tuple[Answer, dict[str, object]]:
    """The answer to bytes that are no request, after which the connection is over."""
    async with with_a_neighbour(APP) as served:
        client = await served.connect()
        await client.send(data)
        got = await client.answer("POST")
        assert got.complete
        assert got.headers[b"content-type"] == b"application/json"
        assert got.headers[b"content-length"] == b"%d" % len(got.body)
        assert got.headers[b"connection"] == b"close"
        assert await client.rest() == b""
    told = json.loads(got.body)
    assert set(told) == {"error"}
    error = told["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert error["type"] == "invalid_request_error"
    return got, error


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        CHUNKED + b"Content-Length: 4\r\n\r\n",
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
        POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n",
        POST + b"Content-Length: 4, 5\r\n\r\n",
        POST + b"Content-Length: +4\r\n\r\n",
        POST + b"Content-Length: -4\r\n\r\n",
        POST + b"Content-Length: 4 4\r\n\r\n",
        POST + b"Content-Length: 0x4\r\n\r\n",
        POST + b"Content-Length: \r\n\r\n",
        POST + b"Content-Length: 99999999999999999999999999999999999999\r\n\r\n",
        POST + b"Content-Length : 4\r\n\r\n",
        POST + b"Content-Length\t: 4\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n",
        POST + b" Transfer-Encoding: chunked\r\n\r\n",
        POST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n",
        POST + b"X: y\r\n\tfolded\r\n\r\n",
        POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n",
        POST + b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
        POST + b"X: a\x00b\r\n\r\n",
        POST + b"X\x00: a\r\n\r\n",
        POST + b"X y: a\r\n\r\n",
        POST + b": a\r\n\r\n",
        POST + b"no colon at all\r\n\r\n",
        POST + b"Host: y\r\n\r\n",
        b"POST /fine HTTP/1.1\nHost: x\n\n",
        b"POST /fine HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /fine\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /fine HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST  /fine HTTP/1.1\r\nHost: x\r\n\r\n",
        b" POST /fine HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /fine\r\nHost: x\r\n\r\n",
        b"POST /fine HTTP/1.1\r\n\r\n",
        b"\r\nPOST /fine HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_a_head_that_two_readers_could_take_for_two_things_is_400(head: bytes) -> None:
    got, error = await refused(head + SMUGGLED)
    assert (got.status, error["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    "chunks",
    [
        b"-1\r\n",
        b"+4\r\nabcd\r\n0\r\n\r\n",
        b"0x4\r\nabcd\r\n0\r\n\r\n",
        b"\r\nabcd\r\n",
        b"4 4\r\nabcd\r\n",
        b"4\nabcd\n0\n\n",
        b"4\r\nabcdX\r\n0\r\n\r\n",
        b"4\r\nabcd0\r\n\r\n",
        b"fffffffffffffffffffff\r\n",
        b"4;\x00\r\nabcd\r\n",
        b"4\x00\r\nabcd\r\n",
        b"4;a\rb\r\nabcd\r\n0\r\n\r\n",
        b"4\r\nabcd\r\n0\r\n\n",
        b"4\r\nabcd\r\n0\r\nx: y\n\n",
        b"4\r\nabcd\r\n0\r\nx: y\n\r\n",
        b"4\r\nabcd\r\n0\r\nx: y\r\n folded\r\n\r\n",
    ],
)
async def test_bad_chunks_are_400_to_whoever_reads_them(chunks: bytes) -> None:
    got, error = await refused(CHUNKED.replace(b"fine", b"read") + b"\r\n" + chunks + SMUGGLED)
    assert (got.status, error["code"]) == (400, "malformed_request")


@pytest.mark.parametrize(
    "coding",
    [
        b"gzip",
        b"gzip, chunked",
        b"chunked, chunked",
        b"chunked, identity",
        b"xchunked",
        b"identity",
    ],
)
async def test_an_unknown_transfer_coding_is_the_clients_fault(coding: bytes) -> None:
    got, error = await refused(POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + SMUGGLED)
    assert (got.status, error["code"]) == (400, "unsupported_transfer_encoding")
    assert "chunked" in str(error["message"])


async def test_a_large_head_is_told_what_is_wrong() -> None:
    got, error = await refused(POST + b"X: " + b"a" * 40_000)
    assert (got.status, error["code"]) == (431, "headers_too_large")


async def test_what_is_repeated_of_a_broken_request_is_short() -> None:
    _, error = await refused(b"\xff\x00" * 10_000 + b"\r\n\r\n")
    assert len(str(error["message"])) <= 300


async def test_a_proxys_method_is_told_which_there_are() -> None:
    got, error = await refused(b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n")
    assert (got.status, error["code"]) == (405, "method_not_allowed")
    assert got.headers[b"allow"] == b"GET, HEAD, POST, DELETE, OPTIONS"


async def test_a_refused_question_for_a_head_gets_no_body() -> None:
    async with with_a_neighbour(APP) as served:
        client = await served.connect()
        await client.send(b"HEAD nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert body == b""


async def test_a_chunk_head_after_an_answer_says_nothing_more() -> None:
    async with with_a_neighbour(APP) as served:
        client = await served.connect()
        await client.send(CHUNKED + b"\r\n")
        assert (await client.answer("POST")).body == b"/fine"
        await client.send(b"nonsense\r\n")
        await client.ended()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [(b"GET", b"nowhere", 400), (b"POST", b"*", 400), (b"HEAD", b"nowhere", 400)],
)
async def test_http_2_says_what_is_wrong_in_the_same_way(
    method: bytes, path: bytes, status: int
) -> None:
    async with with_a_neighbour(APP) as served:
        client = await connect_h2(served)
        got = await client.answer(await client.begin(path, method=method))
        assert got.status == status
        assert got.headers[b"content-type"] == b"application/json"
        if method == b"HEAD":
            assert got.body == b""
        else:
            assert json.loads(got.body)["error"]["code"] == "malformed_request"


HANDSHAKE = b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (HANDSHAKE % b"wait" + b"\r\n", 400, "malformed_request"),
        (HANDSHAKE % b"wait" + KEY.replace(b"13", b"12") + b"\r\n", 426, "upgrade_required"),
        (HANDSHAKE % b"wait" + KEY + b"\r\n\x81\x85abcd", 400, "malformed_request"),
        (HANDSHAKE % b"close" + KEY + b"\r\n", 403, "forbidden"),
        (HANDSHAKE % b"end" + KEY + b"\r\n", 500, "server_error"),
    ],
)
async def test_a_handshake_that_fails_is_answered_in_the_same_shape(
    sent: bytes, status: int, code: str
) -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await APP(scope, receive, send)
        elif scope["path"] == "/close":
            await send({"type": "websocket.close"})
        elif scope["path"] == "/wait":
            await trio.sleep_forever()

    async with with_a_neighbour(app) as served:
        client = await served.connect()
        await client.send(sent)
        got = await client.answer()
        assert (got.status, got.complete) == (status, True)
        assert got.headers[b"content-type"] == b"application/json"
        assert got.headers[b"connection"].endswith(b"close")
        assert json.loads(got.body)["error"]["code"] == code
        client.close()
