import os
import resource
import socket

import pytest
import trio
import trio.testing
from tests.transport.kit import Scope, hello, pass_time, routes, serving, settle

from paraudio.transport import Limits, open_tcp


async def test_connections_over_the_limit_wait_in_the_backlog() -> None:
    async with serving(routes(root=hello), limits=Limits(max_connections=2)) as served:
        one, two, three = [await served.connect() for _ in range(3)]
        for client in (one, two):
            assert (await client.ask()).status == 200
        await three.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await settle()
        assert served.server.connections().total == 2
        one.close()
        assert (await three.answer()).status == 200
        assert served.server.connections().total == 2


async def test_the_only_room_is_for_whichever_listener_is_called() -> None:
    listeners = [*await open_tcp("127.0.0.1", 0), *await open_tcp("127.0.0.1", 0)]
    addresses = [listener.socket.getsockname() for listener in listeners]
    limits = Limits(max_connections=1)
    async with serving(routes(root=hello), limits=limits, listeners=listeners) as served:
        await settle()
        for served.address in addresses:
            client = await served.connect()
            assert (await client.ask()).status == 200
            client.close()


async def test_a_connection_counts_until_its_application_has_ended() -> None:
    cleaned = trio.Event()

    async def clean_up(*_: object) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await cleaned.wait()

    app = routes(root=hello, clean=clean_up)
    async with serving(app, limits=Limits(max_connections=1)) as served:
        first, second = await served.connect(), await served.connect()
        await first.send(b"GET /clean HTTP/1.1\r\nHost: x\r\n\r\n")
        await settle()
        first.close()
        await second.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await settle()
        assert served.server.connections().total == 1
        cleaned.set()
        assert (await second.answer()).status == 200


async def test_without_descriptors_the_server_waits_and_goes_on(
    mock_clock: trio.testing.MockClock,
) -> None:
    running = Scope()
    app = routes(root=hello, hang=running.hang)
    async with serving(app, limits=Limits(max_connections=4), seconds=1000) as served:
        busy = await served.connect()
        await busy.send(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        await running.began.wait()
        waiting = await served.connect()
        await settle()
        first = served.server.connections().total
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        late = trio.socket.socket()
        # The next descriptor that is given out would be over the limit.
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            await late.connect(served.address)
            for _ in range(5):
                await pass_time(mock_clock, 0.11)
            assert served.server.connections().total == first
            assert not running.ended.is_set()
            assert (await waiting.ask()).status == 200
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        (what,) = served.errors_of(OSError)  # once, not at every try
        assert "EMFILE" in what
        await pass_time(mock_clock, 0.11)
        assert served.server.connections().total == first + 1
        late.close()


MANY = 12
"""Enough that some order of waking is the wrong one."""


@pytest.mark.parametrize("end", ["drain", "stop"])
async def test_a_connection_that_comes_in_the_step_that_ends_accepting_does_no_harm(
    end: str,
) -> None:
    for _ in range(MANY):
        async with serving(routes(root=hello)) as served:
            await settle()
            ours, theirs = socket.socketpair()
            with ours, theirs, socket.create_connection(("127.0.0.1", served.port)):
                theirs.send(b"x")
                # The acceptor is woken by the same look at the system as we are.
                await trio.lowlevel.wait_readable(ours)
                getattr(served.server, end)()
                await served.ended.wait()
