from collections.abc import Callable

import pytest
import trio
import trio.testing
from tests.certificates import Certificates, certified
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Client,
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
    until_gone,
)

from paraudio.errors import ConfigError
from paraudio.transport import Limits, tls_context
from paraudio.transport._limits import SEND_SIZE
from paraudio.transport._stream import GuardedStream


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certified(tmp_path_factory.mktemp("tls"))


async def test_http_1_over_tls(certificates: Certificates) -> None:
    async with serving(
        routes(echo=echo),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        client = await served.connect(alpn=["http/1.1"])
        body = bytes(range(256)) * 4096
        for _ in range(2):
            assert (await client.ask("/echo", method="POST", body=body)).body == body


async def test_http_2_is_chosen_by_alpn(certificates: Certificates) -> None:
    schemes: list[str] = []

    async def scheme(scope: Message, receive: Receive, send: Send) -> None:
        schemes.append(scope["scheme"])
        await answer(send)

    async with serving(
        routes(root=scheme),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        client = await connect_h2(served)
        assert (await client.ask()).status == 200
        assert schemes == ["https"]


async def test_the_end_of_tls_is_said_so_that_nothing_can_be_cut_off_unseen(
    certificates: Certificates,
) -> None:
    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        await more(send, b"one")
        await end(send, b"two")

    async with serving(
        routes(root=stream),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        client = await served.connect(alpn=["http/1.1"])
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        # Our client takes an end without close_notify for a broken connection.
        assert (await client.rest()).endswith(b"onetwo")


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_leaving_cancels_what_runs(certificates: Certificates, how: str) -> None:
    handler = Scope()
    async with serving(
        routes(root=handler.hang),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await handler.began.wait()
        client.close() if how == "fin" else client.reset()
        await handler.ended.wait()
        assert handler.cancelled


@pytest.mark.parametrize("plain", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 50, b"\x16\x03"])
async def test_plain_text_to_a_tls_port_hurts_nobody(
    certificates: Certificates, plain: bytes
) -> None:
    handler = Scope()
    async with serving(
        routes(hang=handler.hang, root=hello),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        running = await served.connect(alpn=["http/1.1"])
        await running.send(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        await handler.began.wait()
        stranger = await served.connect(plain=True)
        await stranger.send(plain)
        await settle()
        stranger.close()
        assert (await (await served.connect(alpn=["http/1.1"])).ask()).body == b"/"
        assert not handler.ended.is_set()


async def test_a_handshake_that_does_not_go_on_is_cut_off(
    certificates: Certificates, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(
        routes(root=hello),
        ssl_context=certificates.server(),
        limits=Limits(slow_client_timeout_s=20, keep_alive_s=500),
        seconds=1000,
    ) as served:
        client = await served.connect()
        await pass_time(mock_clock, 19)
        assert served.server.connections().head == 1
        await pass_time(mock_clock, 1.5)
        assert await client.was_reset()


async def test_a_client_that_does_not_read_is_cut_off(
    certificates: Certificates, mock_clock: trio.testing.MockClock
) -> None:
    handler = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send)
            while True:
                await more(send, bytes(2**20))

    async with serving(
        routes(root=stream),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
        limits=Limits(slow_client_timeout_s=20),
        seconds=1000,
    ) as served:
        client = await served.connect(buffers=4096, alpn=["http/1.1"])
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await pass_time(mock_clock, 19)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert handler.cancelled


async def test_a_large_answer_is_not_encrypted_at_once(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, sizes = bytes(range(256)) * 2**14, list[int]()
    send_all = GuardedStream.send_all

    async def noted(self: GuardedStream, data: bytes | bytearray | memoryview) -> None:
        sizes.append(len(data))
        await send_all(self, data)

    async def large(_: Message, __: Receive, send: Send) -> None:
        await answer(send, body)

    monkeypatch.setattr(GuardedStream, "send_all", noted)
    async with serving(
        routes(root=large), ssl_context=certificates.server(), client_tls=certificates.client()
    ) as served:
        client = await served.connect(alpn=["http/1.1"])
        assert (await client.ask()).body == body
    assert len(body) < sum(sizes)
    assert max(sizes) < 2 * SEND_SIZE < len(body)


async def test_an_early_answer_reaches_a_client_that_still_sends(
    certificates: Certificates,
) -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, b"enough", status=413)

    async with serving(
        routes(root=refuse),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        client = await served.connect(alpn=["http/1.1"])
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(32):
            await client.send(bytes(65536))
        assert (await client.answer("POST")).body == b"enough"


async def test_drain_and_stop(certificates: Certificates) -> None:
    go, began = trio.Event(), trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await body_of(receive)
        began.set()
        await go.wait()
        await answer(send, b"done")

    async with serving(
        routes(wait=wait, root=hello),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
    ) as served:
        idle, busy = await served.connect(alpn=["http/1.1"]), await served.connect()
        await idle.ask()
        await busy.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await began.wait()
        served.server.drain()
        assert await idle.rest() == b""
        go.set()
        assert (await busy.answer()).body == b"done"
        await served.ended.wait()


@pytest.mark.parametrize("wrong", ["missing", "swapped"])
def test_unusable_certificates_name_the_setting(certificates: Certificates, wrong: str) -> None:
    cert, key = str(certificates.cert), str(certificates.key)
    pair = (key, cert) if wrong == "swapped" else (cert, key + ".missing")
    with pytest.raises(ConfigError) as caught:
        tls_context(*pair)
    assert caught.value.param == "tls"


@pytest.mark.parametrize("leave", [Client.close, Client.reset], ids=["fin", "rst"])
async def test_leaving_is_noticed_behind_an_encrypted_body_that_nobody_reads(
    leave: Callable[[Client], None], certificates: Certificates, mock_clock: trio.testing.MockClock
) -> None:
    handler = Scope()
    async with serving(
        routes(root=handler.hang),
        ssl_context=certificates.server(),
        client_tls=certificates.client(),
        seconds=1000,
    ) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
        await client.send(bytes(150_000))
        await settle()
        assert not handler.ended.is_set()
        leave(client)
        await until_gone(served)
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


FIRST: dict[str, list[Message]] = {
    "accept": [{"type": "websocket.accept"}],
    "close": [{"type": "websocket.close"}],
    "refuse": [
        {
            "type": "websocket.http.response.start",
            "status": 404,
            "headers": [(b"content-length", b"3")],
        },
        {"type": "websocket.http.response.body", "body": b"no\n", "more_body": False},
    ],
    "end": [],
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("pieces", [1, 2])
async def test_frames_before_the_handshake_is_answered_race_with_no_answer(
    certificates: Certificates, first: str, pieces: int
) -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "websocket"
        await receive()
        for message in FIRST[first]:
            await send(message)
        if first == "accept":
            await receive()

    handshake = (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    frames = b"\x81\x85abcd\x09\x07\x0f\x08\x0e" * 3
    async with serving(
        app, ssl_context=certificates.server(), client_tls=certificates.client()
    ) as served:
        for _ in range(5):
            client = await served.connect()
            if pieces == 1:
                await client.send(handshake + frames)
            else:
                await client.send(handshake)
                await client.send(frames)
            assert (await client.until(b"\r\n")).startswith(b"HTTP/1.1 ")
            client.close()
            await settle()
