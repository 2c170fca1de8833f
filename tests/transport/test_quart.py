"""Quart on this transport: bodies that are pulled, answers that are written, websockets."""

from collections.abc import AsyncIterator

import pytest
import trio
from quart import Response, request, websocket
from quart_trio import QuartTrio
from tests.transport.kit import Scope, serving, settle
from tests.transport.wskit import connect_ws
from werkzeug.wrappers import Response as WerkzeugResponse
from wsproto.events import BytesMessage, TextMessage

from paraudio.errors import PayloadTooLargeError
from paraudio.transport import (
    ClientLeftError,
    HttpConnection,
    PullBody,
    PullRequest,
    WebsocketConnection,
    Writer,
    WrittenBody,
)


class App(QuartTrio):
    asgi_http_class = HttpConnection
    asgi_websocket_class = WebsocketConnection
    request_class = PullRequest


def make_app() -> App:
    app = App(__name__)
    app.config["BODY_TIMEOUT"] = None
    app.config["MAX_CONTENT_LENGTH"] = 100_000

    @app.errorhandler(PayloadTooLargeError)
    async def too_large(error: PayloadTooLargeError) -> tuple[str, int]:
        return error.message, error.status

    return app


def pulled() -> PullBody:
    assert isinstance(request.body, PullBody)
    return request.body


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_json_forms_and_raw_bodies_are_read() -> None:
    app = make_app()

    @app.post("/json")
    async def json() -> dict[str, object]:
        return {"got": await request.get_json()}

    @app.post("/form")
    async def form() -> str:
        files = await request.files
        return f"{(await request.form)['name']} {files['file'].read().decode()}"

    @app.post("/twice")
    async def twice() -> bytes:
        data = await request.get_data()
        assert data == await request.get_data()
        assert isinstance(data, bytes)
        return data

    multipart = (
        b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nme\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ndata\r\n--b--\r\n'
    )
    async with serving(app) as served:
        client = await served.connect()
        got = await client.ask(
            "/json",
            method="POST",
            body=b'{"a": [1]}',
            extra="Content-Type: application/json\r\n",
        )
        assert got.body.replace(b" ", b"").strip() == b'{"got":{"a":[1]}}'
        got = await client.ask(
            "/form",
            method="POST",
            body=multipart,
            extra="Content-Type: multipart/form-data; boundary=b\r\n",
        )
        assert got.body == b"me data"
        assert (await client.ask("/twice", method="POST", body=b"ab")).body == b"ab"


async def test_a_body_is_pulled_piece_by_piece() -> None:
    app = make_app()
    pieces: list[bytes] = []
    got_one = trio.Event()

    @app.post("/")
    async def read() -> str:
        body = pulled()
        async for piece in body:
            pieces.append(piece)
            got_one.set()
        return str(body.total)

    async with serving(app) as served:
        client = await served.connect()
        await client.send(CHUNKED + b"3\r\none\r\n")
        await got_one.wait()
        await client.send(b"3\r\ntwo\r\n0\r\n\r\n")
        assert (await client.answer("POST")).body == b"6"
    assert pieces == [b"one", b"two"]


@pytest.mark.parametrize("reads", ["iterates", "awaits"])
async def test_a_declared_length_over_the_limit_is_refused_before_a_byte(reads: str) -> None:
    app = make_app()

    @app.post("/")
    async def read() -> str:
        if reads == "awaits":
            await request.body
        async for _ in request.body:
            pass
        return "read"

    async with serving(app) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100001\r\n\r\n"
        )
        head = await client.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"100001 bytes; this route takes at most 100000" in await client.rest()


async def test_the_total_is_counted_and_not_what_waits() -> None:
    app = make_app()
    total = 0

    @app.post("/")
    async def read() -> str:
        nonlocal total
        async for piece in request.body:
            total += len(piece)
        return "read"

    async with serving(app) as served:
        client = await served.connect()
        await client.send(CHUNKED)
        for _ in range(11):
            await settle()
            await client.send(b"2710\r\n" + bytes(10_000) + b"\r\n")
        got = await client.answer("POST")
        assert (got.status, total) == (413, 100_000)


async def test_a_last_piece_over_the_limit_is_refused_too() -> None:
    app = make_app()

    @app.post("/")
    async def read() -> str:
        await request.body
        return "read"

    async with serving(app) as served:
        client = await served.connect()
        await client.send(CHUNKED + b"186a1\r\n" + bytes(100_001) + b"\r\n0\r\n\r\n")
        assert (await client.answer("POST")).status == 413


async def test_a_route_sets_its_own_limit() -> None:
    app = make_app()

    @app.post("/<int:limit>")
    async def read(limit: int) -> str:
        body = pulled()
        body.limit(limit or None)
        body.check()
        return str(len(await body))

    async with serving(app) as served:
        client = await served.connect()
        assert (await client.ask("/5", method="POST", body=b"12345")).body == b"5"
        assert (await client.ask("/4", method="POST", body=b"12345")).status == 413
        client = await served.connect()
        big = bytes(200_000)
        assert (await client.ask("/0", method="POST", body=big)).body == b"200000"


async def test_a_written_body_may_hold_scopes_around_its_writes() -> None:
    app = make_app()

    @app.get("/")
    async def stream() -> Response:
        async def write_to(write: Writer) -> None:
            send, receive = trio.open_memory_channel[bytes](0)

            async def produce() -> None:
                async with send:
                    for word in (b"one ", b"two ", b"three"):
                        await send.send(word)

            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(produce)
                    async for word in receive:
                        await write(word)

        return app.response_class(WrittenBody(write_to))

    async with serving(app) as served:
        got = await (await served.connect()).ask()
        assert (got.body, got.complete) == (b"one two three", True)


@pytest.mark.parametrize("how", ["raises", "times out", "generator raises"])
async def test_a_body_that_fails_is_not_whole(how: str) -> None:
    app = make_app()

    async def write_to(write: Writer) -> None:
        await write(b"half")
        if how == "times out":
            with trio.fail_after(0):
                await trio.sleep_forever()
        raise ValueError

    async def generate() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError

    @app.get("/")
    async def stream() -> Response:
        return app.response_class(generate() if "generator" in how else WrittenBody(write_to))

    async with serving(app) as served:
        got = await (await served.connect()).ask()
        assert (got.body, got.complete) == (b"half", False)
        served.errors_of(ValueError, trio.TooSlowError)


async def test_pieces_of_text_and_answers_of_werkzeug_are_sent() -> None:
    app = make_app()

    @app.get("/pieces")
    async def pieces() -> Response:
        async def generate() -> AsyncIterator[str]:
            yield "häu"
            yield "ser"

        return app.response_class(generate())

    @app.get("/werkzeug")
    async def werkzeug() -> WerkzeugResponse:
        return WerkzeugResponse(["one ", "two"], status=203)

    async with serving(app) as served:
        client = await served.connect()
        assert (await client.ask("/pieces")).body == "häuser".encode()
        got = await client.ask("/werkzeug")
        assert (got.status, got.body, got.complete) == (203, b"one two", True)


async def test_leaving_cancels_handler_and_written_body() -> None:
    app = make_app()
    handler, body = Scope(), Scope()

    @app.get("/handler")
    async def hang() -> str:
        await handler.hang()
        return ""

    @app.get("/body")
    async def stream() -> Response:
        async def write_to(write: Writer) -> None:
            await write(b"first")
            await body.hang()

        return app.response_class(WrittenBody(write_to))

    async with serving(app) as served:
        for path, scope in (("handler", handler), ("body", body)):
            client = await served.connect()
            await client.send(b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            await scope.began.wait()
            client.close()
            await scope.ended.wait()
            assert scope.cancelled


async def test_a_shielded_reader_is_told_that_its_client_left() -> None:
    app = make_app()
    told = trio.Event()

    @app.post("/")
    async def read() -> str:
        with trio.CancelScope(shield=True):
            with pytest.raises(ClientLeftError):
                await request.body
            told.set()
        await trio.Event().wait()
        return "never"

    async with serving(app) as served:
        client = await served.connect()
        await client.send(CHUNKED)
        await settle()
        client.close()
        await told.wait()


async def test_nothing_of_the_end_of_an_answer_is_cancelled() -> None:
    app = make_app()
    after = Scope()

    class Connection(HttpConnection):
        async def serve(self, *arguments: object) -> None:
            with after:
                await super().serve(*arguments)  # type: ignore[arg-type]
                await trio.lowlevel.checkpoint()

    app.asgi_http_class = Connection

    @app.get("/")
    async def fine() -> str:
        return "fine"

    async with serving(app) as served:
        client = await served.connect()
        assert (await client.ask()).body == b"fine"
        await after.ended.wait()
        assert not after.cancelled
        assert (await client.ask()).body == b"fine"  # the connection went on


async def test_a_websocket_is_read_as_its_handler_reads() -> None:
    app = make_app()
    ended = Scope()

    @app.websocket("/")
    async def talk() -> None:
        with ended:
            for _ in range(99):
                await websocket.send((await websocket.receive()).upper())

    async with serving(app) as served:
        client = await connect_ws(served)
        for word in ("one", "two", ""):
            await client.send(TextMessage(data=word))
            assert await client.next() == TextMessage(data=word.upper())
        for data in (b"three", b""):
            await client.send(BytesMessage(data=data))
            assert await client.next() == BytesMessage(data=data.upper())
        client.client.close()
        await ended.ended.wait()
        assert ended.cancelled


async def test_a_websocket_handler_that_is_busy_is_cancelled() -> None:
    app = make_app()
    busy = Scope()

    @app.websocket("/")
    async def work() -> None:
        await websocket.accept()
        await busy.hang()

    async with serving(app) as served:
        client = await connect_ws(served)
        for _ in range(12):
            await client.send(TextMessage(data="more"))
        client.client.close()
        await busy.ended.wait()
        assert busy.cancelled


async def test_a_websocket_that_returns_is_closed_in_order() -> None:
    app = make_app()

    @app.websocket("/")
    async def bye() -> None:
        await websocket.accept()

    async with serving(app) as served:
        client = await connect_ws(served)
        assert (await client.closed()).code == 1000


async def test_a_body_without_a_connection_says_so() -> None:
    with pytest.raises(RuntimeError, match="attached to no connection"):
        await PullBody(None, None)
    given = PullBody(None, None)
    given.set_result(b"for a test")
    assert await given == b"for a test"
    given.clear()
    assert await given == b""
