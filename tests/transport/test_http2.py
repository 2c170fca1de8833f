from collections.abc import Sequence

import pytest
import trio
import trio.testing
from h2.errors import ErrorCodes
from tests.transport.h2kit import H2Client, connect_h2
from tests.transport.kit import (
    CUSHION,
    Message,
    Receive,
    Scope,
    Send,
    answer,
    begin,
    body_of,
    echo,
    hello,
    more,
    pass_time,
    routes,
    serving,
    settle,
)

from paraudio.transport import AppCall, Limits, call_of
from paraudio.transport._connection import Connection
from paraudio.transport._h2 import H2
from paraudio.transport._limits import H2_STREAM_WINDOW, H2_STREAMS


async def refuse(scope: Message, receive: Receive, send: Send) -> None:
    await answer(send, b"no", status=413)


def holdings(served_connections: Sequence[Connection]) -> list[int]:
    """What the only connection still keeps of its streams; the root of the tree aside."""
    (connection,) = served_connections
    protocol = connection._protocol
    assert isinstance(protocol, H2)
    return [
        len(protocol.streams),
        len(protocol.stream_buffers),
        len(protocol._uploads),
        len(protocol.priority._streams) - 1,
    ]


async def test_many_requests_on_one_connection() -> None:
    async with serving(routes(root=hello, a=hello, echo=echo)) as served:
        client = await connect_h2(served)
        streams = [await client.begin(b"/a/%d" % number) for number in range(50)]
        bodies = [(await client.answer(stream)).body for stream in streams]
        assert bodies == [b"/a/%d" % number for number in range(50)]
        assert holdings(list(served.server._population)) == [0, 0, 0, 0]


async def test_a_body_larger_than_every_window() -> None:
    async with serving(routes(echo=echo)) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/echo", method=b"POST", end=False)
        data = bytes(range(256)) * 8192
        await client.upload(stream, data)
        got = await client.answer(stream)
        assert got.body == data
        assert (got.ended, got.reset) == (True, None)


async def test_an_application_that_does_not_read_holds_up_its_own_stream_only() -> None:
    slow = Scope()
    calls: list[AppCall] = []

    async def ignore(scope: Message, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        assert call is not None
        calls.append(call)
        await slow.hang()

    async with serving(routes(slow=ignore, echo=echo)) as served:
        client = await connect_h2(served)
        stuck = await client.begin(b"/slow", method=b"POST", end=False)
        with trio.move_on_after(0.2) as full:
            await client.upload(stuck, bytes(10 * H2_STREAM_WINDOW))
        assert full.cancelled_caught
        (inbox,) = [call._inbox for call in calls]
        assert len(inbox._data) == H2_STREAM_WINDOW  # type: ignore[union-attr]
        other = await client.begin(b"/echo", method=b"POST", end=False)
        await client.upload(other, bytes(5 * H2_STREAM_WINDOW))
        assert len((await client.answer(other)).body) == 5 * H2_STREAM_WINDOW


async def test_bodies_that_were_never_taken_do_not_use_up_the_connection() -> None:
    go = trio.Event()

    async def refuse_late(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await refuse(scope, receive, send)

    async with serving(routes(refuse=refuse_late, echo=echo)) as served:
        client = await connect_h2(served)
        connection_window = H2_STREAMS * H2_STREAM_WINDOW
        for _ in range(connection_window // H2_STREAM_WINDOW + 5):
            stream = await client.begin(b"/refuse", method=b"POST", end=False)
            window = client.connection.local_flow_control_window(stream)
            assert window > 0
            for size in [16_000] * (window // 16_000):
                client.connection.send_data(stream, bytes(size))
            await client.flush()
            await settle_quickly()
            go.set()
            go = trio.Event()
            await client.answer(stream)
        stream = await client.begin(b"/echo", method=b"POST", end=False)
        assert client.connection.local_flow_control_window(stream) == H2_STREAM_WINDOW


async def test_an_early_answer_asks_the_client_to_stop() -> None:
    async with serving(routes(refuse=refuse, root=hello)) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/refuse", method=b"POST", end=False)
        got = await client.answer(stream)
        await settle()
        assert (await client.ask()).body == b"/"
        assert (got.status, got.body, got.ended) == (413, b"no", True)
        assert got.reset == ErrorCodes.NO_ERROR


async def test_data_after_an_early_answer_hurts_nobody() -> None:
    running = Scope()
    async with serving(routes(refuse=refuse, root=hello, hang=running.hang)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        stream = await client.begin(b"/refuse", method=b"POST", end=False)
        await client.answer(stream)
        await client.raw_data(stream, b"too late")
        assert (await client.ask()).body == b"/"
        assert not running.ended.is_set()


async def test_reset_cancels_the_application_and_nothing_else() -> None:
    one, two = Scope(), Scope()
    async with serving(routes(one=one.hang, two=two.hang, root=hello)) as served:
        client = await connect_h2(served)
        first = await client.begin(b"/one")
        await client.begin(b"/two")
        await settle()
        await client.reset(first)
        await one.ended.wait()
        assert one.cancelled
        assert (await client.ask()).body == b"/"
        assert not two.ended.is_set()


@pytest.mark.parametrize("how", ["goaway with an error", "fin"])
async def test_leaving_cancels_everything(how: str) -> None:
    one, two = Scope(), Scope()
    async with serving(routes(one=one.hang, two=two.hang)) as served:
        client = await connect_h2(served)
        await client.begin(b"/one")
        await client.begin(b"/two")
        await settle()
        if how != "fin":
            client.connection.close_connection(ErrorCodes.INTERNAL_ERROR)
            await client.flush()
        else:
            client.client.close()
        await one.ended.wait()
        await two.ended.wait()
        assert one.cancelled
        assert two.cancelled


async def test_an_answer_that_breaks_off_is_reset() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        await more(send, b"half")
        raise ValueError

    async with serving(routes(fail=fail, root=hello)) as served:
        client = await connect_h2(served)
        got = await client.ask(b"/fail")
        assert (got.body, got.ended) == (b"half", False)
        assert got.reset == ErrorCodes.INTERNAL_ERROR
        assert (await client.ask()).body == b"/"
        served.errors_of(ValueError)


async def test_an_application_that_fails_at_once_is_a_500() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        raise ValueError

    async with serving(routes(fail=fail)) as served:
        client = await connect_h2(served)
        assert (await client.ask(b"/fail")).status == 500
        served.errors_of(ValueError)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/ü".encode(), b"GET", 400),
        (b"nothing", b"GET", 400),
        (b"*", b"GET", 400),
        (None, b"CONNECT", 405),
        (b"*", b"OPTIONS", 200),
    ],
)
async def test_requests_that_cannot_be_served_are_refused_alone(
    path: bytes | None, method: bytes, status: int
) -> None:
    running = Scope()

    async def anything(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, b"")

    async with serving(routes(hang=running.hang, root=hello, **{"*": anything})) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        stream = await client.begin(path, method=method)
        assert (await client.answer(stream)).status == status
        assert (await client.ask()).body == b"/"
        assert not running.ended.is_set()


async def test_streams_leave_nothing_behind_however_they_end() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        raise ValueError

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        while True:
            await more(send, bytes(65536))

    forever = Scope()
    app = routes(root=hello, fail=fail, refuse=refuse, stream=stream, hang=forever.hang)
    async with serving(app) as served:
        client = await connect_h2(served)
        for _ in range(H2_STREAMS + 20):
            await client.answer(await client.begin(b"/fail"))
            await client.answer(await client.begin(b"/refuse", method=b"POST", end=False))
            for path in (b"/hang", b"/stream"):
                await client.reset(await client.begin(path, end=False))
            client.connection.prioritize(
                client.connection.get_next_available_stream_id(), weight=3, depends_on=1
            )
            await client.flush()
        assert (await client.ask()).body == b"/"
        await settle()
        assert holdings(list(served.server._population)) == [0, 0, 0, 0]
        assert served.server.connections().requests == 0
        served.errors_of(ValueError)


async def test_calls_that_outlive_their_streams_count_against_the_limit() -> None:
    stubborn = trio.Event()

    async def ignore(scope: Message, receive: Receive, send: Send) -> None:
        with trio.CancelScope(shield=True):
            await stubborn.wait()

    async with serving(routes(ignore=ignore)) as served:
        client = await connect_h2(served)
        for _ in range(H2_STREAMS):
            stream = await client.begin(b"/ignore")
            await settle_quickly()
            await client.reset(stream)
        got = await client.ask(b"/ignore")
        assert got.reset == ErrorCodes.REFUSED_STREAM
        assert served.server.connections().requests == H2_STREAMS
        stubborn.set()


async def settle_quickly() -> None:
    await trio.testing.wait_all_tasks_blocked(CUSHION / 20)


async def test_a_client_that_gives_no_window_is_reset_alone(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send)
            while True:
                await more(send, bytes(65536))

    limits = Limits(slow_client_timeout_s=20, keep_alive_s=500)
    async with serving(routes(large=large, root=hello), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        client.reading = False
        stream = await client.begin(b"/large")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.answer, stream)
            await pass_time(mock_clock, 19)
            assert not handler.ended.is_set()
            await pass_time(mock_clock, 1.5)
        assert handler.cancelled
        assert client.answers[stream].reset == ErrorCodes.CANCEL
        client.connection.increment_flow_control_window(2**20)
        client.reading = True
        assert (await client.ask()).body == b"/"


async def test_a_client_that_stops_within_a_body_is_reset_alone(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await body_of(receive)

    limits = Limits(slow_client_timeout_s=20, keep_alive_s=500)
    async with serving(routes(read=read, root=hello), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/read", method=b"POST", end=False)
        await client.upload(stream, b"half", end=False)
        await pass_time(mock_clock, 19)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert handler.cancelled
        assert (await client.answer(stream)).reset == ErrorCodes.CANCEL
        assert (await client.ask()).body == b"/"


async def test_a_client_that_does_not_read_its_socket_is_cut_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        with handler:
            await begin(send)
            while True:
                await more(send, bytes(2**20))

    limits = Limits(slow_client_timeout_s=20)
    async with serving(routes(large=large), limits=limits, seconds=1000) as served:
        client = await connect_h2(served, buffers=4096)
        client.connection.increment_flow_control_window(2**30)
        await client.flush()
        stream = await client.begin(b"/large")
        client.connection.increment_flow_control_window(2**30, stream)
        await client.flush()
        await pass_time(mock_clock, 22)
        assert handler.cancelled
        assert served.server.connections().total == 0


async def test_an_idle_connection_is_told_goaway_and_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = Limits(keep_alive_s=30)
    async with serving(routes(root=hello), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        await client.ask()
        await pass_time(mock_clock, 31)
        assert (await client.until_goaway()).error_code == ErrorCodes.NO_ERROR
        with pytest.raises(trio.EndOfChannel):
            await client.answer(99)


@pytest.mark.parametrize("cut", [1, 5, 17, 20])
async def test_the_preface_may_come_in_pieces(cut: int) -> None:
    async with serving(routes(root=hello)) as served:
        client = H2Client(await served.connect())
        client.connection.initiate_connection()
        data = client.connection.data_to_send()
        await client.client.send(data[:cut])
        await settle()
        await client.client.send(data[cut:])
        await client._pump()
        assert (await client.ask()).body == b"/"


async def test_the_same_application_sees_the_same_request() -> None:
    seen: list[Message] = []

    async def look(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await answer(send)

    async with serving(routes(look=look)) as served:
        await (await served.connect()).ask("/look/a%20b?x=1")
        client = await connect_h2(served)
        await client.ask(b"/look/a%20b?x=1")
    one, two = seen
    for key in ("method", "path", "raw_path", "query_string", "scheme", "server", "type"):
        assert one[key] == two[key]
    assert (one["http_version"], two["http_version"]) == ("1.1", "2")
    assert dict(one["headers"])[b"host"] == dict(two["headers"])[b"host"] == b"test"
