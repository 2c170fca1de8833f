"""What a call tells the application, and what the application can tell it."""

import trio
import trio.testing
from h2.settings import SettingCodes
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    begin,
    hello,
    more,
    routes,
    serving,
    settle,
    until,
)

from paraudio.transport import AppCall, call_of

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def called(scope: Message) -> AppCall:
    call = call_of(scope)
    assert call is not None
    return call


async def test_a_call_tells_that_its_client_left_before_anything_is_cancelled() -> None:
    told: list[str] = []
    ended = trio.Event()

    async def slow_to_leave(scope: Message, receive: Receive, send: Send) -> None:
        called(scope).when_left = lambda: told.append("left")
        try:
            await trio.sleep_forever()
        finally:
            told.append("cancelled")
            with trio.CancelScope(shield=True):
                await settle()
            told.append("unwound")
            ended.set()

    async with serving(routes(root=slow_to_leave)) as served:
        client = await served.connect()
        await client.send(GET)
        await settle()
        assert told == []
        client.close()
        await ended.wait()
        assert told == ["left", "cancelled", "unwound"]


async def test_a_call_that_was_answered_does_not_tell_that_its_client_left() -> None:
    told: list[str] = []

    async def answering(scope: Message, receive: Receive, send: Send) -> None:
        called(scope).when_left = lambda: told.append("left")
        await hello(scope, receive, send)

    async with serving(routes(root=answering)) as served:
        client = await served.connect()
        assert (await client.ask()).complete
        client.close()
        await settle()
    assert told == []


async def test_only_a_stalled_send_is_cut_for_the_application(
    mock_clock: trio.testing.MockClock,
) -> None:
    # Time stands still, so nothing but the cut ends the send.
    calls: list[AppCall] = []
    handler, go_on = Scope(), trio.Event()

    async def flooding(scope: Message, receive: Receive, send: Send) -> None:
        calls.append(called(scope))
        with handler:
            await begin(send)
            await more(send, b"first")
            await go_on.wait()
            while True:
                await more(send, b"x" * 2**20)

    async with serving(routes(root=flooding)) as served:
        client = await served.connect(buffers=4096)
        await client.send(GET)
        await client.until(b"first")
        calls[0].cut_stalled()
        await settle()
        assert not handler.ended.is_set()
        go_on.set()
        await settle()
        calls[0].cut_stalled()
        await handler.ended.wait()
        assert handler.cancelled
        assert calls[0].client_left


async def test_a_connection_that_serves_others_as_well_is_not_cut() -> None:
    calls: list[AppCall] = []
    first, others = Scope(), Scope()

    async def waiting(scope: Message, receive: Receive, send: Send) -> None:
        calls.append(called(scope))
        await first.hang()

    async def flooding(scope: Message, receive: Receive, send: Send) -> None:
        calls.append(called(scope))
        with others:
            await begin(send)
            while True:
                await more(send, b"x" * 2**20)

    async with serving(routes(wait=waiting, flood=flooding)) as served:
        client = await connect_h2(served, buffers=4096)
        client.connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**30})
        client.connection.increment_flow_control_window(2**30)
        await client.begin(b"/wait")
        await settle()
        await client.begin(b"/flood")
        (connection,) = served.server._population
        await until(lambda: connection._raw.sending_since is not None)
        calls[0].cut_stalled()
        await settle()
        assert not others.ended.is_set()
        await client.reset(1)  # now the other is alone
        await settle()
        calls[1].cut_stalled()
        await others.ended.wait()
