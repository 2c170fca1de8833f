"""Drain lets what runs run; stop ends everything in the step that calls it."""

import os
import socket
import ssl
import time
from collections.abc import Callable

import pytest
import trio
import trio.testing
from h2.errors import ErrorCodes
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
    end,
    hello,
    more,
    pass_time,
    routes,
    serving,
    settle,
    until,
)

from paraudio.transport import Limits, Server, open_tcp

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Gate:
    """A handler that answers when it is told to."""

    def __init__(self, *, streams: bool = False) -> None:
        self.began, self.go, self.streams = trio.Event(), trio.Event(), streams

    async def __call__(self, _: Message, __: Receive, send: Send) -> None:
        if self.streams:
            await begin(send)
            await more(send, b"first ")
        self.began.set()
        await self.go.wait()
        if self.streams:
            await end(send, b"second")
        else:
            await answer(send, b"done")


async def test_drain_delivers_what_runs_and_ends_by_itself() -> None:
    gate = Gate()
    async with serving(routes(root=gate)) as served:
        client = await served.connect()
        await client.send(GET)
        await gate.began.wait()
        served.server.drain()
        await settle()
        assert not served.ended.is_set()
        gate.go.set()
        got = await client.answer()
        assert (got.body, got.headers[b"connection"]) == (b"done", b"close")
        assert await client.rest() == b""
        await served.ended.wait()
        assert served.server.cuts() == []


async def test_drain_delivers_a_stream_to_its_end() -> None:
    gate = Gate(streams=True)
    async with serving(routes(root=gate)) as served:
        client = await served.connect()
        await client.send(GET)
        await gate.began.wait()
        served.server.drain()
        await settle()
        gate.go.set()
        got = await client.answer()
        assert (got.body, got.complete) == (b"first second", True)
        await served.ended.wait()


async def test_drain_refuses_new_connections_at_once() -> None:
    gate = Gate()
    async with serving(routes(root=gate)) as served:
        client = await served.connect()
        await client.send(GET)
        await gate.began.wait()
        served.server.drain()
        with pytest.raises(ConnectionRefusedError):
            await served.connect()
        gate.go.set()
        await served.ended.wait()


async def test_drain_closes_idle_connections_at_once() -> None:
    async with serving(routes(root=hello)) as served:
        clients = [await served.connect() for _ in range(3)]
        for client in clients[:2]:
            await client.ask()  # the third has not said anything
        await settle()
        began = time.perf_counter()
        served.server.drain()
        await served.ended.wait()
        assert time.perf_counter() - began < 1
        for client in clients:
            assert await client.rest() == b""


async def test_drain_answers_a_request_that_has_just_come() -> None:
    async with serving(routes(root=hello)) as served:
        client = await served.connect()
        await client.ask()
        await settle()
        os.write(client.socket.fileno(), GET)
        served.server.drain()  # in the same step: the request is in the socket, and nobody saw it
        got = await client.answer()
        assert (got.body, got.headers[b"connection"]) == (b"/", b"close")
        await served.ended.wait()


async def test_drain_gives_half_a_head_a_moment_only(mock_clock: trio.testing.MockClock) -> None:
    limits = Limits(slow_client_timeout_s=20, linger_s=1)
    async with serving(routes(root=hello), limits=limits, seconds=1000) as served:
        slow, quick = await served.connect(), await served.connect()
        for client in (slow, quick):
            await client.send(GET[:20])
        await until(lambda: served.server.connections().head == 2)
        served.server.drain()
        await quick.send(GET[20:])
        assert (await quick.answer()).status == 200
        quick.close()
        await pass_time(mock_clock, 1.3)
        assert served.ended.is_set()
        await slow.ended()


async def test_drain_does_not_begin_a_request_that_waits_behind_another() -> None:
    gate = Gate()
    async with serving(routes(root=gate)) as served:
        client = await served.connect()
        await client.send(GET + GET)
        await gate.began.wait()
        served.server.drain()
        gate.go.set()
        assert (await client.answer()).headers[b"connection"] == b"close"
        assert await client.rest() == b""


async def test_drain_tells_http_2_goaway_and_lets_streams_finish() -> None:
    gate = Gate()
    async with serving(routes(gate=gate, root=hello)) as served:
        idle, client = await connect_h2(served), await connect_h2(served)
        await client.begin(b"/gate")
        await gate.began.wait()
        served.server.drain()
        assert (await idle.until_goaway()).error_code == ErrorCodes.NO_ERROR
        idle.client.close()
        await settle()
        # By hand: after a GOAWAY our client's own machine does not send any more.
        goaway = await client.client.stream.receive_some(65536)
        assert b"\x07\x00\x00\x00\x00\x00" in goaway
        gate.go.set()
        await client.client.until(b"done")
        client.client.close()
        await served.ended.wait()
        assert served.server.cuts() == []


async def test_drain_refuses_streams_that_come_too_late() -> None:
    gate = Gate()
    async with serving(routes(gate=gate, root=hello)) as served:
        client = await connect_h2(served)
        await client.begin(b"/gate")
        await gate.began.wait()
        # Draining, but this client has not heard of it.
        served.server._shared.context.terminated.fire()
        late = await client.ask()
        assert late.reset == ErrorCodes.REFUSED_STREAM
        gate.go.set()


async def test_wait_idle_waits_for_requests_and_not_for_connections() -> None:
    gate = Gate()
    async with serving(routes(gate=gate, root=hello)) as served:
        idle = await served.connect()
        await idle.ask()
        half = await served.connect()
        await half.send(GET[:20])
        await served.server.wait_idle()
        client = await served.connect()
        await client.send(b"GET /gate HTTP/1.1\r\nHost: x\r\n\r\n")
        await gate.began.wait()
        with trio.move_on_after(0.05) as waiting:
            await served.server.wait_idle()
        assert waiting.cancelled_caught
        gate.go.set()
        await served.server.wait_idle()
        assert (await client.answer()).body == b"done"


async def test_stop_ends_everything_at_once() -> None:
    hanging, reading = Scope(), Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with reading:
            await body_of(receive)

    stuck = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with stuck:
            await begin(send)
            while True:
                await more(send, bytes(2**20))

    app = routes(root=hello, hang=hanging.hang, read=read, stream=stream)
    async with serving(app) as served:
        clients = [await served.connect(buffers=4096) for _ in range(6)]
        await clients[0].send(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        await clients[1].send(b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nha")
        await clients[2].send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await clients[3].send(b"GET / HT")
        await clients[4].ask()
        await until(lambda: served.server.connections().head == 1)
        await until(lambda: served.server.connections().requests == 3)
        began = time.perf_counter()
        served.server.stop()
        await served.ended.wait()
        assert time.perf_counter() - began < 1
        assert hanging.cancelled
        assert reading.cancelled
        assert stuck.cancelled
        for client in clients:
            assert await client.was_reset()
        cuts = served.server.cuts()
        assert len(cuts) == 3  # neither the idle ones nor half a head
        assert [line for line in cuts if line.endswith("GET /hang")]
        assert all(line.startswith("cut off 127.0.0.1:") for line in cuts)


async def test_stop_in_the_step_in_which_it_is_called() -> None:
    async with serving(routes(root=hello)) as served:
        clients = [await served.connect() for _ in range(3)]
        for client in clients:
            await client.ask()
        connections = list(served.server._population)
        listeners = served.server._listeners
        served.server.stop()
        assert all(connection.fileno() == -1 for connection in connections)
        assert all(listener.socket.fileno() == -1 for listener in listeners)


@pytest.mark.parametrize("end_it", [Server.drain, Server.stop])
async def test_a_connection_that_is_accepted_in_the_moment_of_the_end(
    end_it: Callable[[Server], None],
) -> None:
    for _ in range(30):  # the scheduler decides whether the listener or we come first
        async with serving(routes(root=hello)) as served:
            late = socket.create_connection(("127.0.0.1", served.port))
            await trio.lowlevel.checkpoint()
            end_it(served.server)
            await served.ended.wait()
            late.close()


async def test_drain_gives_a_handshake_a_moment_only(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = Limits(slow_client_timeout_s=20, keep_alive_s=300, linger_s=1)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    async with serving(
        routes(root=hello), limits=limits, ssl_context=context, seconds=1000
    ) as served:
        client = await served.connect()
        await settle()
        served.server.drain()
        await pass_time(mock_clock, 1.3)
        assert served.ended.is_set()
        await client.ended()


async def test_stop_waits_for_an_application_that_cannot_be_cancelled() -> None:
    cleaned = trio.Event()

    async def clean_up(scope: Message, receive: Receive, send: Send) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await cleaned.wait()

    async with serving(routes(root=clean_up)) as served:
        client = await served.connect()
        await client.send(GET)
        await settle()
        served.server.stop()
        await client.ended()
        await settle()
        assert not served.ended.is_set()
        cleaned.set()
        await served.ended.wait()


async def test_a_cancelled_serve_resets_every_socket_and_ends() -> None:
    stuck = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with stuck:
            await begin(send)
            while True:
                await more(send, bytes(2**20))

    server = Server(routes(root=stream))
    (listener,) = await open_tcp("127.0.0.1", 0)
    address = listener.socket.getsockname()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, [listener])
            client = await trio.open_tcp_stream(*address)
            await client.send_all(GET)
            await settle()
            nursery.cancel_scope.cancel()
    assert stuck.cancelled
    assert server.connections().total == 0
    assert listener.socket.fileno() == -1
    received = Client(client, client)
    assert await received.was_reset()
    await client.aclose()


async def test_stop_during_a_lingering_close() -> None:
    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, b"no", status=413)

    limits = Limits(linger_s=1000)
    async with serving(routes(root=refuse), limits=limits) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        assert (await client.answer("POST")).status == 413
        await settle()
        assert served.server.connections().closing == 1
        served.server.stop()
        await served.ended.wait()
        assert served.server.cuts() == []


async def test_drain_then_stop_cuts_what_did_not_finish() -> None:
    gate = Gate()
    async with serving(routes(root=gate)) as served:
        client = await served.connect()
        await client.send(GET)
        await gate.began.wait()
        served.server.drain()
        await settle()
        served.server.stop()
        await served.ended.wait()
        (line,) = served.server.cuts()
        assert line.endswith("GET /")


async def test_a_drain_that_comes_after_the_stop_does_no_harm() -> None:
    async with serving(routes(root=hello)) as served:
        assert (await (await served.connect()).ask()).status == 200
        served.server.stop()
        served.server.drain()
        await served.ended.wait()


async def test_drain_and_stop_before_serve() -> None:
    for end_it in (Server.drain, Server.stop):
        server = Server(routes(root=hello))
        end_it(server)
        (listener,) = await open_tcp("127.0.0.1", 0)
        with trio.fail_after(1):
            await server.serve([listener])
        assert listener.socket.fileno() == -1
