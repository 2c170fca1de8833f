"""What is no request is refused: a 4xx in the shape of every other error, and the end."""

import json

import pytest
import trio
from h11 import RemoteProtocolError
from tests.transport.h2kit import connect_h2
from tests.transport.kit import Answer, Message, Receive, Send
from tests.transport.neighbour import APP, with_a_neighbour

from paraudio.transport._refusals import parser_fault

POST = b"POST /fine HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
HANDSHAKE = b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def test_what_came_is_shown_as_it_came() -> None:
    shown = repr(bytearray(b"GET (here)"))
    told = parser_fault(RemoteProtocolError(f"illegal request line: {shown}")).message
    assert told == "this is no valid HTTP/1.1: illegal request line: 'GET (here)'"


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
