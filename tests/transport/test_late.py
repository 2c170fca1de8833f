"""A server that was stopped for longer than its clients' bounds, and goes on.

Its deadlines have all passed, and what its clients sent in time waits in the sockets. In virtual
time: bytes are put into a socket and the clock is moved in one step, so nothing runs in between.
"""

import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, WindowUpdateFrame
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Client,
    Message,
    Receive,
    Send,
    Served,
    begin,
    echo,
    end,
    hello,
    pass_time,
    routes,
    serving,
    settle,
    until,
)
from tests.transport.wskit import connect_ws, websockets
from tests.transport.wskit import echo as ws_echo
from wsproto.events import Ping, TextMessage

from paraudio.transport import Limits
from paraudio.transport._lateness import MOMENT_S, Lateness
from paraudio.transport._websocket import PING_S

LIMITS = Limits(slow_client_timeout_s=20, keep_alive_s=30)
MANY = 20
"""Enough that some order of waking is the wrong one."""

Ready = Callable[[], Awaitable[None]]
"""What a client does once the server goes on; it fails unless it was served."""


def put(client: Client, data: bytes) -> None:
    """Put bytes into the socket, in this very step."""
    assert os.write(client.socket.fileno(), data) == len(data)


async def half_a_head(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await served.connect()
    await client.send(b"GET /hello HTTP/1.1\r\nHos")

    async def served_well() -> None:
        assert (await client.answer()).status == 200

    return lambda: put(client, b"t: x\r\n\r\n"), served_well


async def an_idle_connection(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await served.connect()
    assert (await client.ask("/hello")).status == 200

    async def served_well() -> None:
        assert (await client.answer()).status == 200

    return lambda: put(client, b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"), served_well


async def half_a_body(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await served.connect()
    await client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha")

    async def served_well() -> None:
        assert (await client.answer("POST")).body == b"half"

    return lambda: put(client, b"lf"), served_well


async def half_a_stream_s_body(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await connect_h2(served)
    stream = await client.begin(b"/echo", method=b"POST", end=False)
    rest = DataFrame(stream, b"half", flags=["END_STREAM"]).serialize()

    async def served_well() -> None:
        assert (await client.answer(stream)).body == b"half"

    return lambda: put(client.client, rest), served_well


async def half_a_header_block(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await connect_h2(served)
    head = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/hello")]
    stream = client.connection.get_next_available_stream_id()
    client.connection.send_headers(stream, [*head, (b":authority", b"x")], end_stream=True)
    block = client.connection.data_to_send()[9:]
    await client.frames(HeadersFrame(stream, block[:3], flags=["END_STREAM"]))
    rest = ContinuationFrame(stream, block[3:], flags=["END_HEADERS"]).serialize()

    async def served_well() -> None:
        assert (await client.answer(stream)).body == b"/hello"

    return lambda: put(client.client, rest), served_well


async def a_window_that_was_shut(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await connect_h2(served)
    client.reading = False
    stream = await client.begin(b"/large")
    await settle()
    client.connection.increment_flow_control_window(2**20)
    client.connection.increment_flow_control_window(2**20, stream)
    client.connection.data_to_send()  # not sent: by hand below
    news = [WindowUpdateFrame(0, 2**20), WindowUpdateFrame(stream, 2**20)]

    async def served_well() -> None:
        assert len((await client.answer(stream)).body) == 200_000

    opened = b"".join(frame.serialize() for frame in news)
    return lambda: put(client.client, opened), served_well


async def a_client_that_did_not_read(served: Served) -> tuple[Callable[[], None], Ready]:
    client = await served.connect(buffers=4096)
    await client.send(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
    await settle()

    address = client.socket.getsockname()
    (connection,) = [one for one in served.server._population if one.client == address]

    def read() -> None:
        # Until the server's side has room: that is all that the server could see of it.
        with suppress(BlockingIOError):
            while not connection._raw.writable():
                poll = select.poll()
                poll.register(client.socket.fileno(), select.POLLIN)
                poll.poll(1000)
                os.read(client.socket.fileno(), 65536)

    async def served_well() -> None:
        await settle()
        got = 0
        while got < 1_000_000:
            got += len(await client.stream.receive_some(65536))

    return read, served_well


async def large(scope: Message, receive: Receive, send: Send) -> None:
    await begin(send)
    await end(send, bytes(200_000))


async def huge(scope: Message, receive: Receive, send: Send) -> None:
    await begin(send, [(b"content-length", b"8000000")])
    await end(send, bytes(8_000_000))


APP = routes(root=hello, hello=hello, echo=echo, large=large, huge=huge)


@pytest.mark.parametrize(
    "case",
    [
        half_a_head,
        an_idle_connection,
        half_a_body,
        half_a_stream_s_body,
        half_a_header_block,
        a_window_that_was_shut,
        a_client_that_did_not_read,
    ],
)
async def test_who_was_in_time_is_served_by_a_server_that_was_stopped(
    case: Callable[[Served], Awaitable[tuple[Callable[[], None], Ready]]],
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(APP, limits=LIMITS, seconds=10_000) as served:
        many = 3 if case is a_client_that_did_not_read else MANY  # each of them reads a lot
        clients = [await case(served) for _ in range(many)]
        await settle()
        for sent_in_time, _ in clients:
            sent_in_time()
        mock_clock.jump(100)
        for _, served_well in clients:
            await served_well()


async def test_a_pong_that_waited_is_heard(mock_clock: trio.testing.MockClock) -> None:
    async with serving(websockets(ws_echo), seconds=10_000) as served:
        clients = [await connect_ws(served) for _ in range(MANY)]
        await pass_time(mock_clock, PING_S + 1)
        pings = [await one.next() for one in clients]
        for one, ping in zip(clients, pings, strict=True):
            assert isinstance(ping, Ping)
            put(one.client, one.machine.send(ping.response()))
        mock_clock.jump(PING_S)
        await settle()
        for one in clients:
            await one.send(TextMessage(data="still here"))
            assert await one.next() == TextMessage(data="still here")


async def test_a_client_that_always_has_a_byte_waiting_is_late_a_moment_later(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(APP, limits=LIMITS, seconds=10_000) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: ")
        await until(lambda: served.server.connections().head == 1)
        await pass_time(mock_clock, 19)
        for _ in range(int((1 + MOMENT_S) / LIMITS.sweep_s) + 3):
            with suppress(OSError):
                put(client, b"x")
            mock_clock.jump(LIMITS.sweep_s)
            await settle()
        assert served.server.connections().head == 0
        assert (await client.answer()).status == 408


def test_a_deadline_is_granted_one_moment() -> None:
    late, waits = Lateness(), True
    assert not late.passed(None, 5, 100, lambda: waits)
    assert not late.passed(10, 5, 15, lambda: waits)
    assert not late.passed(10, 5, 16, lambda: waits)
    assert not late.passed(10, 5, 16 + MOMENT_S / 2, lambda: waits)
    assert late.passed(10, 5, 16 + MOMENT_S, lambda: waits)
    assert not late.passed(20, 5, 26, lambda: waits)  # another deadline, another moment
    waits = False
    assert late.passed(30, 5, 36, lambda: waits)


STOPPED = """
import sys, trio
from paraudio.transport import Limits, Server, open_tcp

async def app(scope, receive, send):
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message["body"]
    if scope["path"] == "/heads":
        body = b"%d" % server.connections().head
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})

async def main():
    global server
    server = Server(app, Limits(slow_client_timeout_s=4, keep_alive_s=4))
    listeners = await open_tcp("127.0.0.1", 0)
    print(listeners[0].socket.getsockname()[1], flush=True)
    await server.serve(listeners)

trio.run(main)
"""


async def connect(port: int) -> Client:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    return Client(stream, stream)


@pytest.mark.process
async def test_a_process_that_was_really_stopped_serves_who_was_in_time() -> None:
    heads, bodies = 10, 10
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            process = await nursery.start(_run)
            port = int(await process.stdout.receive_some(100))
            clients = [await connect(port) for _ in range(heads + bodies)]
            for client in clients[:heads]:
                await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Len")
            for client in clients[heads:]:
                await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha")
            asking = await connect(port)
            while (await asking.ask("/heads")).body != b"%d" % heads:
                pass
            process.send_signal(signal.SIGSTOP)
            for client in clients[:heads]:
                await client.send(b"gth: 4\r\n\r\nhalf")
            for client in clients[heads:]:
                await client.send(b"lf")
            put(asking, b"GET /heads HTTP/1.1\r\nHost: x\r\n\r\n")
            await trio.sleep(5)  # it is this time that it was stopped for
            process.send_signal(signal.SIGCONT)
            for client in clients:
                assert (await client.answer("POST")).body == b"half"
            assert (await asking.answer()).body == b"0"
            for client in [*clients, asking]:
                client.close()
            process.kill()


async def _run(*, task_status: trio.TaskStatus[trio.Process]) -> None:
    command = [sys.executable, "-c", STOPPED]
    process = await trio.lowlevel.open_process(command, stdout=-1)
    try:
        task_status.started(process)
        await process.wait()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdout is not None
            await process.stdout.aclose()
