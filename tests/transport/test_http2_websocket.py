"""Websockets within streams of HTTP/2 (RFC 8441): the same as on connections of their own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from h2.errors import ErrorCodes
from hyperframe.frame import DataFrame
from tests.certificates import certified
from tests.transport.h2kit import H2Client, connect_h2
from tests.transport.h2wskit import H2WsClient, open_h2ws
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    hello,
    pass_time,
    serving,
    settle,
)
from tests.transport.wskit import accept, echo, websockets
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from paraudio.transport import ASGIApp, Limits
from paraudio.transport._h2 import H2
from paraudio.transport._limits import H2_STREAM_WINDOW
from paraudio.transport._websocket import PING_S


def held(handler: Scope) -> ASGIApp:
    """Websockets that are accepted and then nothing."""

    async def hold(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await handler.hang()

    return websockets(hold)


async def test_it_is_on_offer() -> None:
    async with serving(websockets(echo)) as served:
        client = await connect_h2(served)
        assert client.connection.remote_settings.enable_connect_protocol == 1


async def test_text_and_bytes_come_back() -> None:
    async with serving(websockets(echo)) as served:
        websocket = await open_h2ws(served, b"/echo?x=1")
        await websocket.send(TextMessage(data="häuser"))
        assert await websocket.next() == TextMessage(data="häuser")
        await websocket.send(Ping(payload=b"here"))
        assert await websocket.next() == Pong(payload=b"here")
        big = b"\x00\xff" * H2_STREAM_WINDOW
        await websocket.send(BytesMessage(data=big))
        got = b""
        while len(got) < len(big):
            event = await websocket.next()
            assert isinstance(event, BytesMessage)
            got += event.data
        assert got == big


async def test_the_application_sees_what_it_sees_over_http_1() -> None:
    seen: list[Message] = []

    async def look(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "realtime"})
        await send({"type": "websocket.close"})

    async with serving(websockets(look)) as served:
        websocket = await open_h2ws(
            served, b"/a%20b?x=1", headers=[(b"sec-websocket-protocol", b"other, realtime")]
        )
        assert websocket.answer.headers[b"sec-websocket-protocol"] == b"realtime"
        assert (await websocket.closed()).code == 1000
    (scope,) = seen
    assert scope["type"] == "websocket"
    assert (scope["http_version"], scope["scheme"]) == ("2", "ws")
    assert (scope["path"], scope["query_string"]) == ("/a b", b"x=1")
    assert scope["subprotocols"] == ["other", "realtime"]
    assert dict(scope["headers"])[b"host"] == b"test"


async def test_many_live_on_one_connection_beside_requests() -> None:
    async with serving(websockets(echo)) as served:
        client = await connect_h2(served)
        sockets = [await open_h2ws(client, b"/%d" % one) for one in range(20)]
        for number, one in enumerate(sockets):
            await one.send(TextMessage(data=str(number)))
        assert (await client.ask(b"/plain")).body == b"/plain"
        for number, one in enumerate(sockets):
            assert await one.next() == TextMessage(data=str(number))
        for one in sockets:
            await one.send(CloseConnection(code=1000))
            assert (await one.closed()).code == 1000
            await one.end()
        assert (await client.ask(b"/plain")).body == b"/plain"
        await settle()
        (connection,) = served.server._population
        protocol = connection._protocol
        assert isinstance(protocol, H2)
        assert (protocol.streams, protocol.stream_buffers, protocol._uploads) == ({}, {}, {})


async def reset(websocket: H2WsClient) -> None:
    await websocket.client.reset(websocket.stream)


async def close_frame(websocket: H2WsClient) -> None:
    await websocket.send(CloseConnection(code=1000))


async def end_of_stream(websocket: H2WsClient) -> None:
    await websocket.end()


async def fin(websocket: H2WsClient) -> None:
    websocket.client.client.close()


@pytest.mark.parametrize("leave", [reset, close_frame, end_of_stream, fin])
async def test_leaving_cancels_a_handler_that_is_busy(leave: Callable[..., object]) -> None:
    handler = Scope()
    async with serving(held(handler)) as served:
        websocket = await open_h2ws(served)
        await handler.began.wait()
        await leave(websocket)  # type: ignore[misc]
        await handler.ended.wait()
        assert handler.cancelled


async def test_leaving_one_cancels_no_other() -> None:
    one, two = Scope(), Scope()

    async def hold(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await (one if scope["path"] == "/one" else two).hang()

    async with serving(websockets(hold)) as served:
        client = await connect_h2(served)
        websocket = await open_h2ws(client, b"/one")
        await open_h2ws(client, b"/two")
        await reset(websocket)
        await one.ended.wait()
        assert one.cancelled
        assert (await client.ask(b"/plain")).body == b"/plain"
        assert not two.ended.is_set()


@pytest.mark.parametrize("leave", [end_of_stream, reset])
async def test_leaving_is_noticed_behind_messages_that_nobody_reads(
    leave: Callable[..., object], mock_clock: trio.testing.MockClock
) -> None:
    handler = Scope()
    async with serving(held(handler), seconds=1000) as served:
        websocket = await open_h2ws(served)
        for _ in range(40):
            await websocket.send(TextMessage(data="more"))
        await settle()
        await leave(websocket)  # type: ignore[misc]
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


async def test_a_handler_that_does_not_read_holds_its_own_stream_up_only() -> None:
    go = trio.Event()
    got = 0

    async def slow(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal got
        await accept(receive, send)
        await go.wait()
        while (message := await receive())["type"] == "websocket.receive":
            got += len(message["bytes"])

    async with serving(websockets(slow)) as served:
        client = await connect_h2(served)
        websocket = await open_h2ws(client)
        sent = 0
        async with trio.open_nursery() as nursery:

            async def flood() -> None:
                nonlocal sent
                while True:
                    await websocket.send(BytesMessage(data=bytes(50_000)))
                    sent += 1

            nursery.start_soon(flood)
            await settle()
            nursery.cancel_scope.cancel()
        assert 0 < sent * 50_000 <= 3 * H2_STREAM_WINDOW
        assert (await client.ask(b"/plain")).body == b"/plain"
        assert got == 0
        go.set()
        while got < sent * 50_000:
            await settle()


@pytest.mark.parametrize("stays", [True, False], ids=["it stays", "it ends"])
async def test_the_server_closes_with_a_code_and_waits_for_the_answer(stays: bool) -> None:
    finished = Scope()

    async def close(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        with finished:
            await send({"type": "websocket.close", "code": 4321, "reason": "enough"})
            if stays:
                assert (await receive())["type"] == "websocket.disconnect"

    async with serving(websockets(close)) as served:
        websocket = await open_h2ws(served)
        closed = await websocket.closed()
        assert (closed.code, closed.reason) == (4321, "enough")
        await settle()
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"
        assert websocket.answer.reset is None
        await websocket.send(closed.response())
        await websocket.end()
        await finished.ended.wait()
        assert not finished.cancelled
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"
        answer = websocket.answer
        assert (answer.ended, answer.reset) == (True, None)


async def test_a_close_that_is_answered_is_told_to_a_handler_that_stays() -> None:
    told = trio.Event()

    async def close(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await send({"type": "websocket.close", "code": 1000})
        assert (await receive())["type"] == "websocket.disconnect"
        told.set()

    async with serving(websockets(close)) as served:
        websocket = await open_h2ws(served)
        await websocket.send((await websocket.closed()).response())
        await told.wait()


async def test_a_client_that_does_not_answer_a_close_is_not_waited_for_for_long(
    mock_clock: trio.testing.MockClock,
) -> None:
    async def close(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        await send({"type": "websocket.close", "code": 1000})

    async with serving(websockets(close), seconds=1000) as served:
        websocket = await open_h2ws(served)
        await websocket.closed()
        await pass_time(mock_clock, 1.5)
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"
        assert websocket.client.answers[websocket.stream].reset == ErrorCodes.NO_ERROR
        await settle()
        assert served.server.connections().requests == 0


async def test_a_handler_that_fails_closes_with_1011() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        raise ValueError

    async with serving(websockets(fail)) as served:
        websocket = await open_h2ws(served)
        assert (await websocket.closed()).code == 1011
        assert served.errors_of(ValueError) == ["the application failed on WEBSOCKET /"]
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


async def test_a_refused_websocket_is_403_and_nothing_else_ends() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close"})

    async with serving(websockets(refuse)) as served:
        websocket = await open_h2ws(served, accepted=False)
        got = await websocket.client.answer(websocket.stream)
        assert (got.status, json.loads(got.body)["error"]["code"]) == (403, "forbidden")
        assert b"connection" not in got.headers
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


async def test_a_refusal_can_say_why() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"3"), (b"x-why", b"none")]
        await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"no\n", "more_body": False})

    async with serving(websockets(refuse)) as served:
        websocket = await open_h2ws(served, accepted=False)
        got = await websocket.client.answer(websocket.stream)
        assert (got.status, got.body, got.headers[b"x-why"]) == (404, b"no\n", b"none")


@pytest.mark.parametrize("version", [b"12", None])
async def test_another_version_is_told_which_there_is(version: bytes | None) -> None:
    async with serving(websockets(echo)) as served:
        websocket = await open_h2ws(served, version=version, accepted=False)
        got = await websocket.client.answer(websocket.stream)
        assert (got.status, got.headers[b"sec-websocket-version"]) == (400, b"13")
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


@pytest.mark.parametrize("protocol", [b"connect-udp", b"webtransport"])
async def test_another_protocol_is_refused(protocol: bytes) -> None:
    async with serving(websockets(echo)) as served:
        websocket = await open_h2ws(served, protocol=protocol, accepted=False)
        got = await websocket.client.answer(websocket.stream)
        assert got.status == 400
        assert ":protocol" in json.loads(got.body)["error"]["message"]


@pytest.mark.parametrize("name", [b"sec-websocket-protocol", b"sec-websocket-extensions"])
async def test_words_that_are_none_are_refused_alone(name: bytes) -> None:
    async with serving(websockets(echo)) as served:
        websocket = await open_h2ws(served, headers=[(name, b"a, \xff")], accepted=False)
        got = await websocket.client.answer(websocket.stream)
        assert (got.status, json.loads(got.body)["error"]["code"]) == (400, "malformed_request")
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


async def test_junk_before_the_handshake_is_done_ends_it() -> None:
    handler = Scope()
    go = trio.Event()

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await go.wait()

    async with serving(websockets(late)) as served:
        websocket = await open_h2ws(served, accepted=False)
        await handler.began.wait()
        await websocket.client.frames(DataFrame(websocket.stream, b"\xff" * 50))
        assert (await websocket.client.answer(websocket.stream)).status == 400
        await handler.ended.wait()
        assert handler.cancelled
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


async def test_leaving_before_the_handshake_is_done_cancels() -> None:
    handler = Scope()
    async with serving(websockets(handler.hang)) as served:
        websocket = await open_h2ws(served, accepted=False)
        await handler.began.wait()
        await websocket.end()
        await handler.ended.wait()
        assert handler.cancelled
        assert (await websocket.client.answer(websocket.stream)).reset == ErrorCodes.CANCEL


async def test_junk_after_the_handshake_closes_it() -> None:
    handler = Scope()
    async with serving(held(handler)) as served:
        websocket = await open_h2ws(served)
        await websocket.client.frames(DataFrame(websocket.stream, b"\xff" * 100))
        assert (await websocket.closed()).code == 1002
        await handler.ended.wait()
        assert handler.cancelled
        assert (await websocket.client.ask(b"/plain")).body == b"/plain"


async def test_a_message_over_the_limit_closes_with_1009() -> None:
    async with serving(websockets(echo), limits=Limits(max_message_bytes=1000)) as served:
        websocket = await open_h2ws(served)
        await websocket.send(TextMessage(data="x" * 1001))
        assert (await websocket.closed()).code == 1009


async def test_a_client_that_answers_no_ping_is_gone(mock_clock: trio.testing.MockClock) -> None:
    handler = Scope()
    async with serving(held(handler), seconds=1000) as served:
        websocket = await open_h2ws(served)
        await pass_time(mock_clock, PING_S + 1)
        assert isinstance(await websocket.next(), Ping)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, PING_S)
        await handler.ended.wait()
        assert handler.cancelled


async def test_a_client_that_gives_no_window_is_reset_alone(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def flood(scope: Message, receive: Receive, send: Send) -> None:
        await accept(receive, send)
        with handler:
            while True:
                await send({"type": "websocket.send", "bytes": bytes(50_000)})

    # The ping that is due meanwhile waits like everything else, and buys no time.
    limits = Limits(slow_client_timeout_s=PING_S + 5, keep_alive_s=500)
    async with serving(websockets(flood), limits=limits, seconds=1000) as served:
        websocket = await open_h2ws(served)
        websocket.client.reading = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(websocket.client.answer, websocket.stream)
            await pass_time(mock_clock, PING_S + 0.5)
            await pass_time(mock_clock, 4)
            assert not handler.ended.is_set()
            await pass_time(mock_clock, 1)
        assert handler.cancelled
        assert websocket.client.answers[websocket.stream].reset == ErrorCodes.CANCEL


async def test_draining_lets_a_websocket_end_by_itself() -> None:
    async with serving(websockets(echo)) as served:
        websocket = await open_h2ws(served)
        served.server.drain()
        assert (await websocket.client.until_goaway()).error_code == ErrorCodes.NO_ERROR
        await settle()
        assert not served.ended.is_set()
        websocket.client.connection.state_machine.state = websocket.open_state
        await websocket.send(TextMessage(data="still here"))
        assert await websocket.next() == TextMessage(data="still here")
        await websocket.send(CloseConnection(code=1000))
        assert (await websocket.closed()).code == 1000
        await websocket.end()
        await served.ended.wait()


async def test_stopping_cuts_a_websocket_off() -> None:
    handler = Scope()
    async with serving(held(handler)) as served:
        websocket = await open_h2ws(served)
        served.server.stop()
        await served.ended.wait()
        assert handler.cancelled
        assert served.server.cuts() != []
        await websocket.client.client.ended()


async def test_a_websocket_over_tls(tmp_path: Path) -> None:
    own = certified(tmp_path)
    server_tls, client_tls = own.server(), own.client()
    async with serving(websockets(echo), ssl_context=server_tls, client_tls=client_tls) as served:
        websocket = await open_h2ws(served)
        await websocket.send(TextMessage(data="x" * 60_000))
        got = ""
        while len(got) < 60_000:
            event = await websocket.next()
            assert isinstance(event, TextMessage)
            got += event.data


async def test_an_ordinary_connect_is_no_websocket() -> None:
    async with serving(hello) as served:
        client: H2Client = await connect_h2(served)
        assert (await client.answer(await client.begin(None, method=b"CONNECT"))).status == 405
