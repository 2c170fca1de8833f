import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypercorn.protocol.ws_stream import WebsocketBuffer
from tests.certificates import certified
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    pass_time,
    serving,
    settle,
    until_gone,
)
from tests.transport.wskit import accept, connect_ws, echo, status_of, websockets
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    TextMessage,
)
from wsproto.events import Message as WsMessage
from wsproto.extensions import PerMessageDeflate

from paraudio.transport import Limits
from paraudio.transport._limits import TURN
from paraudio.transport._websocket import PING_S


async def test_text_and_bytes_come_back() -> None:
    async with serving(websockets(echo)) as served:
        websocket = await connect_ws(served, "/echo?x=1")
        await websocket.send(TextMessage(data="häuser"))
        assert await websocket.next() == TextMessage(data="häuser")
        await websocket.send(BytesMessage(data=b"\x00\xff" * 100_000))
        got = b""
        while len(got) < 200_000:
            event = await websocket.next()
            assert isinstance(event, BytesMessage)
            got += event.data
        assert got == b"\x00\xff" * 100_000
        await websocket.send(Ping(payload=b"here"))
        assert await websocket.next() == Pong(payload=b"here")


@pytest.mark.parametrize("how", ["close frame", "fin", "rst"])
async def test_leaving_cancels_a_handler_that_is_busy(how: str) -> None:
    handler = Scope()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await handler.hang()

    async with serving(websockets(busy)) as served:
        websocket = await connect_ws(served)
        await settle()
        if how == "close frame":
            await websocket.send(CloseConnection(code=1000))
        elif how == "fin":
            websocket.client.close()
        else:
            websocket.client.reset()
        await handler.ended.wait()
        assert handler.cancelled


async def test_the_server_closes_with_a_code() -> None:
    finished = Scope()

    async def close(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        with finished:
            await send({"type": "websocket.close", "code": 4321, "reason": "enough"})
            assert (await receive())["type"] == "websocket.disconnect"

    async with serving(websockets(close)) as served:
        websocket = await connect_ws(served)
        closed = await websocket.closed()
        assert (closed.code, closed.reason) == (4321, "enough")
        await websocket.send(closed.response())
        await finished.ended.wait()
        assert not finished.cancelled
        await websocket.client.ended()


async def test_a_handler_that_fails_closes_with_1011() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        raise ValueError

    async with serving(websockets(fail)) as served:
        websocket = await connect_ws(served)
        assert (await websocket.closed()).code == 1011
        assert served.errors_of(ValueError) == ["the application failed on WEBSOCKET /"]


async def test_a_refused_websocket_is_403() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close"})

    async with serving(websockets(refuse)) as served:
        websocket = await connect_ws(served, accepted=False)
        assert await status_of(websocket) == 403
        await websocket.client.ended()


@pytest.mark.parametrize("junk", [b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x00"])
async def test_junk_before_the_handshake_is_done_ends_it(junk: bytes) -> None:
    handler = Scope()
    go = trio.Event()

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await go.wait()

    async with serving(websockets(late)) as served:
        client = await served.connect()
        await client.send(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await handler.began.wait()
        await client.send(junk)
        assert (await client.answer()).status == 400
        await handler.ended.wait()
        assert handler.cancelled
        client.close()
        await settle()
        assert served.server.connections().total == 0
        assert (await (await served.connect()).ask("/fine")).body == b"/fine"


@pytest.mark.parametrize("junk", [b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x81\x05hello"])
async def test_junk_after_the_handshake_closes_it(junk: bytes) -> None:
    handler = Scope()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await handler.hang()

    async with serving(websockets(busy)) as served:
        websocket = await connect_ws(served)
        await websocket.client.send(junk)
        assert (await websocket.closed()).code == 1002
        await handler.ended.wait()
        assert handler.cancelled
        assert (await (await served.connect()).ask("/fine")).body == b"/fine"


KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


async def test_a_version_of_http_that_we_do_not_know_is_taken_for_ours() -> None:
    async with serving(websockets(echo)) as served:
        client = await served.connect()
        await client.send(
            b"GET /echo HTTP/1.2\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\n" + KEY + b"\r\n"
        )
        head = await client.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Sec-WebSocket-Version: 12\r\n" + KEY, 426),
        (b"Sec-WebSocket-Version: \r\n" + KEY, 426),
        (b"Sec-WebSocket-Version: 13\r\n", 400),
        (KEY, 400),
        (b"", 400),
        (b"Sec-WebSocket-Version: 13\r\nConnection: \xff\r\n" + KEY, 400),
        (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: a, \xff\r\n" + KEY, 400),
        (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: \xff\r\n" + KEY, 400),
    ],
)
async def test_a_broken_handshake_is_refused_and_closed(head: bytes, status: int) -> None:
    async with serving(websockets(echo)) as served:
        client = await served.connect()
        await client.send(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            + head
            + b"\r\n"
        )
        got = await client.answer()
        assert got.status == status
        if status == 426:
            assert got.headers[b"sec-websocket-version"] == b"13"
            assert got.headers[b"upgrade"] == b"websocket"
            assert got.headers[b"connection"] == b"upgrade, close"
            assert json.loads(got.body)["error"]["code"] == "upgrade_required"
        else:
            assert b"sec-websocket-version" not in got.headers
        await client.rest()
        client.close()
        await settle()
        assert served.server.connections().total == 0


@pytest.mark.parametrize("letter", ["x", "\u20ac"], ids=["one byte each", "three bytes each"])
async def test_a_message_over_the_limit_closes_with_1009(letter: str) -> None:
    most = 999 // len(letter.encode())
    async with serving(websockets(echo), limits=Limits(max_message_bytes=999)) as served:
        websocket = await connect_ws(served)
        for _ in range(2):
            await websocket.send(TextMessage(data=letter * most))
            assert await websocket.next() == TextMessage(data=letter * most)
        await websocket.send(TextMessage(data=letter * (most + 1)))
        assert (await websocket.closed()).code == 1009


async def test_a_message_of_tiny_fragments_leaves_others_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks, fragments, at = 0, 5000, list[int]()
    extend = WebsocketBuffer.extend

    def noted(self: WebsocketBuffer, event: WsMessage[Any]) -> None:
        at.append(ticks)
        extend(self, event)

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(WebsocketBuffer, "extend", noted)
    async with serving(websockets(echo)) as served, trio.open_nursery() as nursery:
        websocket = await connect_ws(served)
        nursery.start_soon(tick)
        part = websocket.machine.send(TextMessage(data="x", message_finished=False))
        rest = [
            websocket.machine.send(TextMessage(data="x", message_finished=last))
            for last in [False] * (fragments - 2) + [True]
        ]
        await websocket.client.send(part + b"".join(rest))
        assert await websocket.next() == TextMessage(data="x" * fragments)
        nursery.cancel_scope.cancel()
    assert max(Counter(at).values()) <= 2 * TURN  # tasks run in no fixed order


async def test_nothing_is_compressed() -> None:
    async with serving(websockets(echo)) as served:
        websocket = await connect_ws(served, accepted=False, extensions=[PerMessageDeflate()])
        accepted = await websocket.next()
        assert isinstance(accepted, AcceptConnection)
        assert accepted.extensions == []


async def test_a_handler_that_does_not_read_holds_its_client_up(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()
    go = trio.Event()
    received: list[int] = []

    async def slow(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await go.wait()
        with handler:
            while True:
                received.append(len((await receive())["bytes"]))

    async with serving(websockets(slow), seconds=1000) as served:
        websocket = await connect_ws(served)
        sent = 0
        async with trio.open_nursery() as nursery:

            async def flood() -> None:
                nonlocal sent
                for _ in range(1000):
                    await websocket.send(BytesMessage(data=bytes(50_000)))
                    sent += 1

            nursery.start_soon(flood)
            await pass_time(mock_clock, 100)  # not cut off: it is we who do not read
            assert 0 < sent < 500
            go.set()
            while sent < 1000 or len(received) < 1000:
                await settle()
        websocket.client.close()
        await handler.ended.wait()
        assert handler.cancelled
        assert received == [50_000] * 1000


async def test_leaving_is_noticed_behind_messages_that_nobody_reads(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await handler.hang()

    async with serving(websockets(busy), seconds=1000) as served:
        websocket = await connect_ws(served)
        for _ in range(40):
            await websocket.send(TextMessage(data="more"))
        await settle()
        websocket.client.close()
        await until_gone(served)
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


async def test_an_open_websocket_is_not_idle(mock_clock: trio.testing.MockClock) -> None:
    limits = Limits(keep_alive_s=10, slow_client_timeout_s=10)
    async with serving(websockets(echo), limits=limits, seconds=1000) as served:
        websocket = await connect_ws(served)
        for _ in range(20):
            await pass_time(mock_clock, PING_S + 1)
            ping = await websocket.next()
            assert isinstance(ping, Ping)
            await websocket.send(ping.response())
        await websocket.send(TextMessage(data="still here"))
        assert await websocket.next() == TextMessage(data="still here")


async def test_a_client_that_answers_no_ping_is_gone(mock_clock: trio.testing.MockClock) -> None:
    handler = Scope()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await handler.hang()

    async with serving(websockets(busy), seconds=1000) as served:
        websocket = await connect_ws(served)
        await pass_time(mock_clock, PING_S + 1)
        assert isinstance(await websocket.next(), Ping)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, PING_S)
        await handler.ended.wait()
        assert handler.cancelled
        await pass_time(mock_clock, Limits().linger_s + 1)
        assert served.server.connections().total == 0


async def test_nothing_watches_a_websocket_that_was_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(websockets(echo), seconds=1000) as served:
        websocket = await connect_ws(served)
        await pass_time(mock_clock, 1)
        await websocket.send(CloseConnection(code=1000))
        await websocket.closed()
        await pass_time(mock_clock, Limits().linger_s + 1)
        assert served.server.connections().total == 0
        assert trio.current_time() < PING_S


async def test_a_refusal_can_say_why() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"3"), (b"x-why", b"none")]
        await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"no\n", "more_body": False})

    async with serving(websockets(refuse)) as served:
        client = await served.connect()
        await client.send(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        answer = await client.answer()
        assert (answer.status, answer.body) == (404, b"no\n")
        await client.ended()


async def test_a_websocket_over_tls(tmp_path: Path) -> None:
    own = certified(tmp_path)
    server_tls, client_tls = own.server(), own.client()
    async with serving(websockets(echo), ssl_context=server_tls, client_tls=client_tls) as served:
        websocket = await connect_ws(served)
        await websocket.send(TextMessage(data="x" * 100_000))
        got = ""
        while len(got) < 100_000:
            event = await websocket.next()
            assert isinstance(event, TextMessage)
            got += event.data
        await websocket.send(CloseConnection(code=1000))
        assert (await websocket.closed()).code == 1000
