"""Clients that stall: each is cut off at its bound, and never sooner."""

import pytest
import trio
import trio.testing
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    begin,
    body_of,
    echo,
    hello,
    more,
    pass_time,
    routes,
    serving,
    settle,
    until,
)

from paraudio.transport import Limits, call_of

LIMITS = Limits(slow_client_timeout_s=20, keep_alive_s=300)


async def test_half_a_head_is_cut_off(mock_clock: trio.testing.MockClock) -> None:
    async with serving(routes(root=hello), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHos")
        await until(lambda: served.server.connections().head == 1)
        await pass_time(mock_clock, 19)
        assert served.server.connections().head == 1
        await pass_time(mock_clock, 1.5)
        assert (await client.answer()).status == 408
        await client.ended()


async def test_a_head_byte_by_byte_is_cut_off_all_the_same(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(routes(root=hello), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(4):
            await pass_time(mock_clock, 4.9)
            await client.send(b"x")
        assert served.server.connections().head == 1
        await pass_time(mock_clock, 1)
        assert (await client.answer()).status == 408
        await client.ended()


async def test_half_a_second_head_is_cut_off(mock_clock: trio.testing.MockClock) -> None:
    async with serving(routes(root=hello), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
        assert (await client.answer()).status == 200
        await pass_time(mock_clock, 21)
        assert (await client.answer()).status == 408
        await client.ended()


async def test_half_a_body_is_cut_off(mock_clock: trio.testing.MockClock) -> None:
    handler = Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await body_of(receive)

    async with serving(routes(root=read), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        for letter in b"half":
            await pass_time(mock_clock, 19)  # every byte buys it time
            await client.send(bytes([letter]))
        await pass_time(mock_clock, 19)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert handler.cancelled
        assert await client.was_reset()


async def test_a_body_that_nobody_waits_for_may_take_its_time(
    mock_clock: trio.testing.MockClock,
) -> None:
    go = trio.Event()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await echo(scope, receive, send)

    async with serving(routes(root=busy), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha")
        await pass_time(mock_clock, 100)
        go.set()
        await settle()
        await client.send(b"lf")
        assert (await client.answer("POST")).body == b"half"


async def test_a_client_that_does_not_read_is_cut_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send)
            while True:
                await more(send, bytes(65536))

    async with serving(routes(root=stream), limits=LIMITS, seconds=1000) as served:
        client = await served.connect(buffers=4096)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await pass_time(mock_clock, 19)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert handler.cancelled
        assert served.server.connections().total == 0


async def test_a_client_that_reads_slowly_is_not_cut_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send, [(b"content-length", b"8000000")])
            await more(send, bytes(8_000_000))

    async with serving(routes(root=stream), limits=LIMITS, seconds=10_000) as served:
        client = await served.connect(buffers=4096)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(10):
            await pass_time(mock_clock, 15)
            got = 0
            while got < 500_000:
                got += len(await client.stream.receive_some(65536))
        assert not handler.ended.is_set()


async def test_an_application_can_have_more_patience(mock_clock: trio.testing.MockClock) -> None:
    reader = Scope()

    async def live(scope: Message, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        assert call is not None
        call.patience.body_stall_s = 60
        with reader:
            await body_of(receive)

    async with serving(routes(root=live), limits=LIMITS, seconds=1000) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        await pass_time(mock_clock, 59)
        assert not reader.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert reader.cancelled


async def test_an_application_can_have_less_patience(mock_clock: trio.testing.MockClock) -> None:
    writer = Scope()

    async def live(scope: Message, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        assert call is not None
        call.patience.send_stall_s = 2
        with writer:
            await begin(send)
            while True:
                await more(send, bytes(65536))

    async with serving(routes(root=live), limits=LIMITS, seconds=1000) as served:
        client = await served.connect(buffers=4096)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await pass_time(mock_clock, 2.5)
        assert writer.cancelled


async def test_a_connection_that_says_nothing_is_closed_when_it_was_idle_for_too_long(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(routes(root=hello), limits=Limits(keep_alive_s=30), seconds=1000) as served:
        client = await served.connect()
        await pass_time(mock_clock, 31)
        assert await client.rest() == b""


async def test_a_flood_of_requests_without_a_reader_is_cut_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with serving(routes(root=hello), limits=LIMITS, seconds=1000) as served:
        client = await served.connect(buffers=4096)
        async with trio.open_nursery() as nursery:

            async def flood() -> None:
                with pytest.raises(trio.BrokenResourceError):
                    await client.send(b"GET /root HTTP/1.1\r\nHost: x\r\n\r\n" * 200_000)

            nursery.start_soon(flood)
            await settle()
            await pass_time(mock_clock, 21)
            assert served.server.connections().total == 0
