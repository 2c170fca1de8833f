import json

import pytest
import trio
import trio.testing
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    answer,
    begin,
    body_of,
    echo,
    end,
    hello,
    more,
    pass_time,
    routes,
    serving,
    settle,
)

from paraudio.transport import Limits

APP = routes(root=hello, echo=echo, a=hello, b=hello, c=hello)


async def test_one_connection_serves_request_after_request() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        for number in range(5):
            got = await client.ask(f"/a/{number}")
            assert (got.status, got.body) == (200, f"/a/{number}".encode())
            assert b"connection" not in got.headers
        assert served.server.connections().total == 1


async def test_connection_close_is_honoured() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        got = await client.ask(extra="Connection: close\r\n")
        assert (got.body, got.headers[b"connection"]) == (b"/", b"close")
        assert await client.rest() == b""


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        await client.send(
            b"".join(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % name for name in (b"a", b"b", b"c"))
        )
        assert [(await client.answer()).body for _ in range(3)] == [b"/a", b"/b", b"/c"]


async def test_a_pipelined_request_waits_for_the_one_before_it() -> None:
    first, second = Scope(), Scope()
    go = trio.Event()

    async def slow(scope: Message, receive: Receive, send: Send) -> None:
        with first:
            await go.wait()
            await answer(send, b"slow")

    async def fast(scope: Message, receive: Receive, send: Send) -> None:
        with second:
            await answer(send, b"fast")

    async with serving(routes(slow=slow, fast=fast)) as served:
        client = await served.connect()
        await client.send(
            b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /fast HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        await settle()
        assert first.began.is_set()
        assert not second.began.is_set()
        go.set()
        assert [(await client.answer()).body for _ in range(2)] == [b"slow", b"fast"]


async def test_http_1_0_is_answered_without_chunks_and_closed() -> None:
    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        await more(send, b"one")
        await end(send, b"two")

    async with serving(routes(root=stream)) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"chunked" not in head.lower()
        assert body == b"onetwo"


async def test_head_has_the_headers_and_no_body() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        got = await client.ask("/a", method="HEAD")
        assert (got.status, got.headers[b"content-length"], got.body) == (200, b"2", b"")
        assert (await client.ask("/b")).body == b"/b"


async def test_chunked_bodies_go_both_ways() -> None:
    async def chunks(scope: Message, receive: Receive, send: Send) -> None:
        body = await body_of(receive)
        await begin(send)
        for letter in body:
            await more(send, bytes([letter]))
        await end(send)

    async with serving(routes(root=chunks)) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        )
        await settle()
        await client.send(b"2;note=1\r\nde\r\n0\r\n\r\n")
        got = await client.answer("POST")
        assert got.headers[b"transfer-encoding"] == b"chunked"
        assert (got.body, got.complete) == (b"abcde", True)
        assert (await client.ask()).complete


async def test_the_body_is_asked_for_when_the_application_wants_it() -> None:
    go = trio.Event()

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await answer(send, await body_of(receive))

    async with serving(routes(root=late)) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        await settle()
        with trio.move_on_after(0) as nothing_yet:
            await client.until(b"\r\n\r\n")
        assert nothing_yet.cancelled_caught
        go.set()
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(b"body")
        assert (await client.answer("POST")).body == b"body"
        assert (await client.ask("/", method="POST", body=b"next")).body == b"next"


async def test_a_body_that_is_refused_is_never_asked_for() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, b"too large", status=413)

    async with serving(routes(root=refuse)) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n"
        )
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in head.lower()
        assert body == b"too large"


async def test_chunks_may_be_cut_wherever_packets_end() -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"4\r\nabcd\r\n3;x=y\r\n\n\r \r\n0\r\nA: b\r\n\r\n"
    async with serving(routes(echo=echo)) as served:
        client = await served.connect()
        for cut in range(1, len(body)):
            await client.send(head + body[:cut])
            await settle()
            await client.send(body[cut:])
            got = await client.answer("POST")
            assert (got.status, got.body) == (200, b"abcd\n\r "), body[:cut]
        await client.send(head)
        for at in range(len(body)):
            await settle()
            await client.send(body[at : at + 1])
        assert (await client.answer("POST")).body == b"abcd\n\r "


@pytest.mark.parametrize("chunked", [False, True])
async def test_the_answer_to_a_body_that_is_still_coming_arrives(chunked: bool) -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, b"enough", status=413)

    piece = b"x" * 65536
    async with serving(routes(root=refuse)) as served:
        client = await served.connect()
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 8388608"
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
        for _ in range(64):  # a client that sends everything before it reads
            await client.send(b"10000\r\n%s\r\n" % piece if chunked else piece)
        got = await client.answer("POST")
        assert (got.status, got.body) == (413, b"enough")
        assert served.server.connections().requests == 0


async def test_a_head_over_the_limit_is_431() -> None:
    async with serving(APP, limits=Limits(max_header_bytes=2000)) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 3000)
        assert (await client.answer()).status == 431
        await client.ended()


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET ?a=b HTTP/1.1",
        b"GET nothing HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET /\x80 HTTP/1.1",
        b"GET / HTTP/9.1",
        b"\x00\x01\x02\x03",
    ],
)
async def test_what_is_no_request_is_400(request_line: bytes) -> None:
    async with serving(APP) as served:
        client = await served.connect()
        await client.send(request_line + b"\r\nHost: x\r\n\r\n")
        assert (await client.answer()).status == 400
        await client.ended()


async def test_connect_is_405() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        await client.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
        assert (await client.answer("CONNECT")).status == 405


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://test/x?y=1", b"/x?y=1"),
        ("https://test:99/x//y", b"/x//y"),
        ("http://test", b"/"),
        ("http://test?y=1", b"/?y=1"),
        ("http://", b"/"),
        ("http://[::1/x", b"/x"),
        ("http://%5B::1/x%3Fy", b"/x%3Fy"),
        ("*", b"*"),
    ],
)
async def test_a_request_to_a_proxy_is_served_as_if_it_were_to_us(target: str, path: bytes) -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        del receive
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        await answer(send, scope["raw_path"] + query)

    async with serving(app) as served:
        client = await served.connect()
        assert (await client.ask(target, method="OPTIONS")).body == path


async def test_a_malformed_chunk_ends_the_request_that_reads_it() -> None:
    reader = Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with reader:
            await body_of(receive)

    async with serving(routes(root=read)) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"
        )
        assert (await client.answer("POST")).status == 400
        await reader.ended.wait()
        assert reader.cancelled


async def test_an_upgrade_to_h2c_is_answered_in_http_1() -> None:
    async with serving(APP) as served:
        client = await served.connect()
        extra = (
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        )
        assert (await client.ask("/a", extra=extra)).body == b"/a"
        assert (await client.ask("/b")).body == b"/b"


async def test_the_date_is_sent_and_no_product_name() -> None:
    async with serving(APP) as served:
        got = await (await served.connect()).ask()
        assert got.headers[b"date"].endswith(b" GMT")
        assert b"server" not in got.headers


async def test_an_idle_connection_is_closed_in_order(mock_clock: trio.testing.MockClock) -> None:
    async with serving(APP, limits=Limits(keep_alive_s=30), seconds=1000) as served:
        client = await served.connect()
        assert (await client.ask()).status == 200
        await pass_time(mock_clock, 29)
        assert served.server.connections().idle == 1
        await pass_time(mock_clock, 2)
        assert served.server.connections().total == 0
        assert await client.rest() == b""


async def test_a_request_begins_the_idle_time_anew(mock_clock: trio.testing.MockClock) -> None:
    async with serving(APP, limits=Limits(keep_alive_s=30), seconds=1000) as served:
        client = await served.connect()
        for _ in range(3):
            assert (await client.ask()).status == 200
            await pass_time(mock_clock, 25)
        assert served.server.connections().idle == 1


async def fail(scope: Message, receive: Receive, send: Send) -> None:
    raise ZeroDivisionError("a secret")


async def half(scope: Message, receive: Receive, send: Send) -> None:
    await begin(send, [(b"content-length", b"5")])
    raise ZeroDivisionError("a secret")


@pytest.mark.parametrize("path", ["/fail", "/half"])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
async def test_an_application_that_fails_is_answered_in_the_shape_of_every_error(
    path: str, method: str
) -> None:
    async with serving(routes(fail=fail, half=half)) as served:
        client = await served.connect()
        got = await client.ask(path, method=method, body=b"" if method == "POST" else None)
        assert (got.status, got.complete) == (500, True)
        assert got.headers[b"content-type"] == b"application/json"
        assert got.headers[b"connection"] == b"close"
        if method == "HEAD":
            assert got.body == b""
        else:
            error = json.loads(got.body)["error"]
            assert (error["type"], error["code"], error["param"]) == ("server_error",) * 2 + (None,)
            assert "secret" not in error["message"]
        assert await client.rest() == b""
        served.errors_of(ZeroDivisionError)


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_an_application_that_fails_over_http_2_is_answered_so_too(method: bytes) -> None:
    async with serving(routes(fail=fail, root=hello)) as served:
        client = await connect_h2(served)
        got = await client.answer(await client.begin(b"/fail", method=method))
        assert got.status == 500
        assert got.headers[b"content-type"] == b"application/json"
        assert b"connection" not in got.headers
        if method == b"GET":
            assert json.loads(got.body)["error"]["code"] == "server_error"
        else:
            assert got.body == b""
        assert (await client.ask(b"/")).status == 200
        served.errors_of(ZeroDivisionError)


async def test_a_slow_head_is_told_so_and_its_connection_is_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = Limits(slow_client_timeout_s=20, keep_alive_s=300)
    async with serving(APP, limits=limits, seconds=1000) as served:
        client = await served.connect()
        assert (await client.ask("/a")).body == b"/a"
        await client.send(b"GET /b HTTP/1.1\r\nHos")
        await pass_time(mock_clock, 20.5)
        got = await client.answer()
        assert (got.status, got.complete) == (408, True)
        assert got.headers[b"connection"] == b"close"
        assert json.loads(got.body)["error"]["code"] == "request_timeout"
        # What comes too late is dropped, not served.
        await client.send(b"t: x\r\n\r\n")
        await client.ended()


async def test_a_connection_without_a_word_is_closed_without_one(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(APP, limits=Limits(keep_alive_s=30), seconds=1000) as served:
        client = await served.connect()
        await settle()
        await pass_time(mock_clock, 31)
        assert await client.rest() == b""
