"""A client that leaves: what runs for it is cancelled, soon, and nothing else is."""

import os
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
import trio.testing
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
    until_gone,
)

from paraudio.transport import Limits, call_of

LEAVING = pytest.mark.parametrize(
    "leave", [Client.close, Client.reset, Client.half_close], ids=["fin", "rst", "half-close"]
)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@LEAVING
async def test_leaving_cancels_what_runs(leave: Callable[[Client], None]) -> None:
    took: list[float] = []
    handlers = [Scope() for _ in range(5)]
    app = routes(**{str(number): handler.hang for number, handler in enumerate(handlers)})
    async with serving(app) as served:
        for number, handler in enumerate(handlers):
            client = await served.connect()
            await client.send(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
            await handler.began.wait()
            left_at = time.perf_counter()
            leave(client)
            await handler.ended.wait()
            took.append(time.perf_counter() - left_at)
            assert handler.cancelled
    assert min(took) < 0.05  # the best: the machine may be busy with something else


@LEAVING
async def test_leaving_is_seen_at_once_also_where_an_upgrade_was_offered(
    leave: Callable[[Client], None],
) -> None:
    # What curl --http2 sends. The reader may not parse on, but it can read on.
    handler = Scope()
    async with serving(routes(root=handler.hang), limits=Limits(sweep_s=1000)) as served:
        client = await served.connect()
        await client.send(GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        await handler.began.wait()
        leave(client)
        await handler.ended.wait()
        assert handler.cancelled


@LEAVING
async def test_leaving_is_noticed_behind_a_request_that_came_too_soon(
    leave: Callable[[Client], None], mock_clock: trio.testing.MockClock
) -> None:
    # The reader is parked: it may not read on before the first request is answered.
    handler = Scope()
    async with serving(routes(root=handler.hang), seconds=1000) as served:
        client = await served.connect()
        await client.send(GET + b"X")
        await settle()
        leave(client)
        await until_gone(served)
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


@LEAVING
async def test_leaving_is_noticed_behind_a_body_that_nobody_reads(
    leave: Callable[[Client], None], mock_clock: trio.testing.MockClock
) -> None:
    handler = Scope()
    async with serving(routes(root=handler.hang), seconds=1000) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
        await client.send(bytes(150_000))  # more than the inbox, less than the socket takes
        await settle()
        assert not handler.ended.is_set()
        leave(client)
        await until_gone(served)
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


@LEAVING
async def test_leaving_behind_more_than_the_systems_hold_is_noticed_when_the_server_reads_on(
    leave: Callable[[Client], None], mock_clock: trio.testing.MockClock
) -> None:
    # More than both systems hold: a FIN waits on the client's side behind what it sent, where
    # nobody can see it. A reset overtakes everything, and is noticed at once.
    handler = Scope()
    go = trio.Event()

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await go.wait()
            while True:
                await receive()

    async with serving(routes(root=late), seconds=1000) as served:
        client = await served.connect(buffers=65536)
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n")
        with suppress(BlockingIOError):
            while True:
                os.write(client.socket.fileno(), bytes(65536))
                await settle()
        leave(client)
        await pass_time(mock_clock, 1)
        seen_at_once = handler.ended.is_set()
        assert seen_at_once == (leave is Client.reset)
        go.set()
        await handler.ended.wait()
        assert handler.cancelled


async def test_a_parked_client_that_stays_is_left_alone(
    mock_clock: trio.testing.MockClock,
) -> None:
    go = trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await answer(send, b"here")

    async with serving(routes(root=wait), seconds=1000) as served:
        client = await served.connect()
        await client.send(GET + GET)
        await pass_time(mock_clock, 500)
        go.set()
        assert [(await client.answer()).body for _ in range(2)] == [b"here", b"here"]


async def test_a_shielded_application_receives_the_disconnect() -> None:
    seen: list[Message] = []

    async def shielded(scope: Message, receive: Receive, send: Send) -> None:
        assert not (await receive())["more_body"]
        with trio.CancelScope(shield=True):
            seen.append(await receive())
            call = call_of(scope)
            assert call is not None
            assert call.client_left
            await answer(send, b"for nobody")

    async with serving(routes(root=shielded)) as served:
        client = await served.connect()
        await client.send(GET)
        await settle()
        client.close()
        await settle()
        assert seen == [{"type": "http.disconnect"}]


async def test_nothing_cancels_an_application_that_has_sent_its_last_message() -> None:
    go = trio.Event()
    handler = Scope()

    async def tidy_up(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        with handler:
            await answer(send, b"done")
            assert (await receive())["type"] == "http.disconnect"
            await go.wait()
            await trio.lowlevel.checkpoint()

    async with serving(routes(root=tidy_up, other=hello)) as served:
        client = await served.connect()
        assert (await client.ask("/")).body == b"done"
        assert (await client.ask("/other")).body == b"/other"  # meanwhile the first one runs on
        client.close()
        await settle()
        assert not handler.ended.is_set()
        assert served.server.connections().requests == 1
        go.set()
        await handler.ended.wait()
        assert not handler.cancelled


@LEAVING
async def test_leaving_a_stream_ends_the_scope_that_makes_it(
    leave: Callable[[Client], None],
) -> None:
    maker, tasks = Scope(), Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with maker:
            await begin(send)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tasks.hang)
                while True:
                    await more(send, b"tick")

    async with serving(routes(root=stream)) as served:
        client = await served.connect()
        await client.send(GET)
        await client.until(b"ticktick".replace(b"k", b"k\r\n4\r\n", 1))
        leave(client)
        await maker.ended.wait()
        assert maker.cancelled
        assert tasks.cancelled


async def test_a_failure_of_the_application_is_reported_though_its_client_left() -> None:
    began = trio.Event()

    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("its own fault")

    async with serving(routes(root=fail)) as served:
        client = await served.connect()
        await client.send(GET)
        await began.wait()
        client.close()
        await settle()
        assert served.errors_of(ValueError) == ["the application failed on GET /"]


async def test_a_client_that_left_frees_its_idle_connection_at_once() -> None:
    async with serving(routes(root=hello)) as served:
        client = await served.connect()
        await client.ask()
        assert served.server.connections().idle == 1
        client.close()
        await settle()
        assert served.server.connections().total == 0


async def test_with_grace_a_half_closed_client_gets_its_answer() -> None:
    go = trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        body = await body_of(receive)
        await go.wait()
        await answer(send, body)

    async with serving(routes(root=wait), limits=Limits(half_close_grace_s=5)) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        client.half_close()
        await settle()
        go.set()
        got = await client.answer("POST")
        assert (got.body, got.complete) == (b"hi", True)
        await client.ended()


async def test_with_grace_pipelined_requests_are_all_answered(
    mock_clock: trio.testing.MockClock,
) -> None:
    go = trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await answer(send, b"here")

    limits = Limits(half_close_grace_s=5)
    async with serving(routes(root=wait), limits=limits, seconds=1000) as served:
        client = await served.connect()
        await client.send(GET * 3)
        client.half_close()
        await pass_time(mock_clock, 4)
        go.set()
        assert [(await client.answer()).body for _ in range(3)] == [b"here"] * 3


@pytest.mark.parametrize("too_soon", [b"", b"X"], ids=["read", "parked"])
async def test_grace_ends(mock_clock: trio.testing.MockClock, too_soon: bytes) -> None:
    handler = Scope()
    limits = Limits(half_close_grace_s=5)
    async with serving(routes(root=handler.hang), limits=limits, seconds=1000) as served:
        client = await served.connect()
        await client.send(GET + too_soon)
        await settle()
        client.half_close()
        await until_gone(served)
        await pass_time(mock_clock, 0.25)
        await pass_time(mock_clock, 4.5)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 0.75)
        assert handler.cancelled


@pytest.mark.parametrize("too_soon", [b"", b"X"], ids=["read", "parked"])
async def test_grace_is_not_for_a_client_that_resets(
    mock_clock: trio.testing.MockClock, too_soon: bytes
) -> None:
    handler = Scope()
    limits = Limits(half_close_grace_s=50)
    async with serving(routes(root=handler.hang), limits=limits, seconds=1000) as served:
        client = await served.connect()
        await client.send(GET + too_soon)
        await settle()
        client.reset()
        if too_soon:
            await until_gone(served)
        await pass_time(mock_clock, 0.25)
        assert handler.cancelled


async def test_grace_is_not_for_a_client_that_stops_within_its_body() -> None:
    handler = Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await body_of(receive)

    async with serving(routes(root=read), limits=Limits(half_close_grace_s=50)) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        await settle()
        client.half_close()
        await handler.ended.wait()
        assert handler.cancelled


async def test_an_answer_in_flight_is_not_held_up_by_a_client_that_left() -> None:
    handler = Scope()

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send)
            await end(send, bytes(64 * 2**20))

    async with serving(routes(root=large)) as served:
        client = await served.connect(buffers=4096)
        await client.send(GET)
        await settle()
        assert not handler.ended.is_set()
        client.reset()
        await handler.ended.wait()
        assert not handler.cancelled  # its last message was on its way
