"""HTTP/2: what one stream does wrong is that stream's end, and no other's."""

import json

import pytest
import trio
import trio.testing
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PriorityFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)
from tests.transport.h2kit import H2Client, connect_h2, many_streams_allowed
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    answer,
    body_of,
    echo,
    hello,
    pass_time,
    routes,
    serving,
    settle,
)

from paraudio.transport import Limits
from paraudio.transport._limits import H2_STREAMS

Head = list[tuple[bytes, bytes]]

METHOD, SCHEME, PATH = (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/echo")
AUTHORITY = (b":authority", b"test")
RIGHT: Head = [METHOD, SCHEME, PATH, AUTHORITY]


def but(*more: tuple[bytes, bytes]) -> Head:
    return [*RIGHT, *more]


MALFORMED: dict[str, Head] = {
    "no method": [SCHEME, PATH, AUTHORITY],
    "no scheme": [METHOD, PATH, AUTHORITY],
    "no path": [METHOD, SCHEME, AUTHORITY],
    "an empty path": [METHOD, SCHEME, (b":path", b""), AUTHORITY],
    "two paths": but(PATH),
    "no authority": [METHOD, SCHEME, PATH],
    "another host": but((b"host", b"other")),
    "an unknown pseudo-header": but((b":magic", b"1")),
    "a status": but((b":status", b"200")),
    "a protocol without connect": but((b":protocol", b"websocket")),
    "a pseudo-header behind a field": [METHOD, SCHEME, AUTHORITY, (b"a", b"b"), PATH],
    "an upper-case name": but((b"X-Upper", b"1")),
    "a blank in a name": but((b"a b", b"1")),
    "an empty name": but((b"", b"1")),
    "a line break in a value": but((b"a", b"1\r\nb: 2")),
    "a blank around a value": but((b"a", b" 1")),
    "connection": but((b"connection", b"close")),
    "transfer-encoding": but((b"transfer-encoding", b"chunked")),
    "te": but((b"te", b"gzip")),
    "a length that is no number": but((b"content-length", b"x")),
    "a negative length": but((b"content-length", b"-1")),
    "two lengths": but((b"content-length", b"1"), (b"content-length", b"2")),
}


async def sees_an_innocent_stream_live(client: H2Client, running: Scope) -> None:
    """The same connection still serves, and what ran before still runs."""
    await settle()
    assert not running.ended.is_set()
    assert (await client.ask()).body == b"/"
    assert client.goaway is None


@pytest.mark.parametrize("head", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_head_is_an_error_of_its_stream(head: Head) -> None:
    running, echoed = Scope(), Scope()
    app = routes(hang=running.hang, root=hello, echo=echoed.hang)
    async with serving(app) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        got = await client.answer(await client.head(*head, end=False))
        assert (got.status, got.reset) == (0, ErrorCodes.PROTOCOL_ERROR)
        assert not echoed.began.is_set()
        await sees_an_innocent_stream_live(client, running)


async def test_a_head_that_is_an_answer_is_an_error_of_its_stream() -> None:
    running = Scope()
    async with serving(routes(hang=running.hang, root=hello)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        block = client.connection.encoder.encode(but((b":status", b"100")))
        await client.frames(HeadersFrame(3, block, flags=["END_HEADERS"]))
        client.connection.highest_outbound_stream_id = 3
        await sees_an_innocent_stream_live(client, running)


async def test_a_body_and_the_reset_behind_it_in_one_packet_cancel() -> None:
    reader = Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with reader:
            await body_of(receive)

    async with serving(routes(echo=read)) as served:
        client = await connect_h2(served)
        stream = await client.head(*RIGHT, end=False)
        await settle()
        await client.frames(DataFrame(stream, b"last words"), RstStreamFrame(stream))
        await reader.ended.wait()
        assert reader.cancelled


@pytest.mark.parametrize("sent", [b"", b"abc", b"abcdef"], ids=["nothing", "less", "more"])
@pytest.mark.parametrize("how", ["data", "trailers"])
async def test_a_body_of_another_length_than_it_said_is_an_error_of_its_stream(
    sent: bytes, how: str
) -> None:
    running, reader = Scope(), Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with reader:
            await body_of(receive)
            await answer(send, b"whole")

    async with serving(routes(hang=running.hang, root=hello, echo=read)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        head = but((b"content-length", b"5"))
        if how == "data" and not sent:
            stream = await client.head(*head)
        else:
            stream = await client.head(*head, end=False)
            await settle()
            assert reader.began.is_set()
            if how == "data":
                await client.frames(DataFrame(stream, sent, flags=["END_STREAM"]))
            else:
                await client.frames(DataFrame(stream, sent))
                trailers = client.connection.encoder.encode([(b"a", b"b")])
                ends = ["END_STREAM", "END_HEADERS"]
                await client.frames(HeadersFrame(stream, trailers, flags=ends))
        got = await client.answer(stream)
        assert (got.status, got.reset) == (0, ErrorCodes.PROTOCOL_ERROR)
        await settle()
        assert reader.cancelled or not reader.began.is_set()
        await sees_an_innocent_stream_live(client, running)


async def test_a_body_of_the_length_that_it_said_is_taken_with_and_without_trailers() -> None:
    async with serving(routes(echo=echo)) as served:
        client = await connect_h2(served)
        for trailers in (False, True):
            stream = await client.head(*but((b"content-length", b"5")), end=False)
            await client.upload(stream, b"abcde", end=not trailers)
            if trailers:
                client.connection.send_headers(stream, [(b"a", b"b")], end_stream=True)
                await client.flush()
            got = await client.answer(stream)
            assert (got.body, got.reset) == (b"abcde", None)


@pytest.mark.parametrize(
    ("trailers", "flags"),
    [
        ([(b":path", b"/")], ["END_STREAM"]),
        ([(b"Upper", b"1")], ["END_STREAM"]),
        ([(b"a", b"b")], []),
    ],
    ids=["with a pseudo-header", "with an upper-case name", "that do not end"],
)
async def test_malformed_trailers_are_an_error_of_their_stream(
    trailers: Head, flags: list[str]
) -> None:
    running, reader = Scope(), Scope()

    async def read(scope: Message, receive: Receive, send: Send) -> None:
        with reader:
            await body_of(receive)

    async with serving(routes(hang=running.hang, root=hello, echo=read)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        stream = await client.head(*RIGHT, end=False)
        await settle()
        block = client.connection.encoder.encode(trailers)
        await client.frames(HeadersFrame(stream, block, flags=[*flags, "END_HEADERS"]))
        assert (await client.answer(stream)).reset == ErrorCodes.PROTOCOL_ERROR
        await reader.ended.wait()
        assert reader.cancelled
        await sees_an_innocent_stream_live(client, running)


async def test_the_bytes_of_broken_bodies_do_not_use_up_the_connection() -> None:
    async with serving(routes(echo=echo), seconds=120) as served:
        client = await connect_h2(served)
        for _ in range(900):  # of 16,000 bytes each: more than the connection's whole window
            stream = await client.head(*but((b"content-length", b"1")), end=False)
            await client.upload(stream, bytes(16_000), end=False)
            assert (await client.answer(stream)).reset == ErrorCodes.PROTOCOL_ERROR
        stream = await client.head(*RIGHT, end=False)
        await client.upload(stream, bytes(100_000))
        assert len((await client.answer(stream)).body) == 100_000


async def test_a_stream_too_many_is_refused_alone() -> None:
    handlers = Scope()
    began = 0
    go = trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal began
        began += 1
        await go.wait()
        await hello(scope, receive, send)

    async with serving(routes(wait=wait, hang=handlers.hang, root=hello)) as served:
        client = await connect_h2(served)
        many_streams_allowed(client)
        streams = [await client.begin(b"/wait/%d" % number) for number in range(H2_STREAMS + 10)]
        refused = [await client.answer(stream) for stream in streams[H2_STREAMS:]]
        assert {one.reset for one in refused} == {ErrorCodes.REFUSED_STREAM}
        assert began == H2_STREAMS
        go.set()
        bodies = [(await client.answer(stream)).body for stream in streams[:H2_STREAMS]]
        assert bodies == [b"/wait/%d" % number for number in range(H2_STREAMS)]
        assert (await client.ask()).body == b"/"
        assert client.goaway is None


async def test_the_limit_that_is_told_is_the_limit_that_is_kept() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        assert client.connection.remote_settings.max_concurrent_streams == H2_STREAMS


async def test_an_orderly_goaway_lets_the_open_streams_finish() -> None:
    go = trio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        body = await body_of(receive)
        await go.wait()
        await answer(send, body or b"empty")

    async with serving(routes(wait=wait)) as served:
        client = await connect_h2(served)
        quiet = await client.begin(b"/wait")
        busy = await client.begin(b"/wait", method=b"POST", end=False)
        await settle()
        await client.client.send(GOAWAY)
        await client.upload(busy, b"the rest of a body")
        await settle()
        assert served.server.connections().requests == 2
        go.set()
        assert (await client.answer(quiet)).body == b"empty"
        assert (await client.answer(busy)).body == b"the rest of a body"
        assert (await client.until_goaway()).error_code == ErrorCodes.NO_ERROR
        await client.client.ended()


GOAWAY = bytes.fromhex("000008 07 00 00000000 00000000 00000000")


async def test_an_orderly_goaway_with_nothing_open_ends_the_connection() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        await client.ask()
        await client.client.send(GOAWAY)
        await client.client.ended()


async def test_after_a_goaway_a_client_that_leaves_is_gone() -> None:
    handler = Scope()
    async with serving(routes(hang=handler.hang)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        await client.client.send(GOAWAY)
        await settle()
        assert not handler.ended.is_set()
        client.client.close()
        await handler.ended.wait()
        assert handler.cancelled


async def test_a_window_that_overflows_is_an_error_of_its_stream() -> None:
    running, other = Scope(), Scope()
    async with serving(routes(hang=running.hang, other=other.hang, root=hello)) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        stream = await client.begin(b"/other")
        await client.frames(WindowUpdateFrame(stream, 2**31 - 1))
        assert (await client.answer(stream)).reset == ErrorCodes.FLOW_CONTROL_ERROR
        await other.ended.wait()
        assert other.cancelled
        await sees_an_innocent_stream_live(client, running)


async def test_a_connection_window_that_overflows_ends_the_connection() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        await client.frames(WindowUpdateFrame(0, 2**31 - 1))
        assert (await client.until_goaway()).error_code == ErrorCodes.FLOW_CONTROL_ERROR
        await client.client.ended()


async def test_priorities_can_be_nonsense() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        await client.frames(PriorityFrame(7, depends_on=7), PriorityFrame(1, depends_on=1))
        stream = client.connection.get_next_available_stream_id()
        client.connection.send_headers(
            stream, [*RIGHT[1:2], (b":method", b"GET"), (b":path", b"/"), AUTHORITY], True
        )
        data = bytearray(client.connection.data_to_send())
        # The same with a priority: the flag, five bytes more, and a stream that needs itself.
        data[:3] = (int.from_bytes(data[:3], "big") + 5).to_bytes(3, "big")
        data[4] |= 0x20
        data[9:9] = stream.to_bytes(4, "big") + b"\x10"
        await client.client.send(bytes(data))
        assert (await client.answer(stream)).body == b"/"


async def test_a_head_block_that_cannot_be_unpacked_ends_the_connection() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        await client.ask()
        ends = ["END_STREAM", "END_HEADERS"]
        await client.frames(HeadersFrame(3, b"\xff\xff\xff\xff\xff", flags=ends))
        assert (await client.until_goaway()).error_code == ErrorCodes.PROTOCOL_ERROR
        await client.client.ended()


async def test_a_head_that_is_a_little_too_large_is_431_on_its_stream() -> None:
    running = Scope()
    limits = Limits(max_header_bytes=4_000)
    async with serving(routes(hang=running.hang, root=hello), limits=limits) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        got = await client.answer(await client.begin(headers=[(b"a", b"b" * 5_000)]))
        assert got.status == 431
        assert json.loads(got.body)["error"]["code"] == "headers_too_large"
        await sees_an_innocent_stream_live(client, running)


HEAD_BLOCK = HeadersFrame(1, b"\x82\x86", flags=["END_STREAM"]).serialize()

UNFINISHED = {
    "half a preface": (b"", b"PRI * HTTP/2.0\r\n\r\nSM"),
    "half a frame's head": (b"preface", b"\x00\x00\x08"),
    "half a ping": (b"preface", bytes.fromhex("000008 06 00 00000000 0000")),
    "half a head": (b"preface", bytes.fromhex("000010 01 05 00000001 82")),
    "a head without its end": (b"preface", HEAD_BLOCK),
    "a head whose end does not come": (
        b"preface",
        HEAD_BLOCK + ContinuationFrame(1, b"\x84").serialize(),
    ),
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
async def test_what_is_begun_is_held_to_the_time_of_a_slow_client(
    sent: tuple[bytes, bytes], mock_clock: trio.testing.MockClock
) -> None:
    preface, data = sent
    limits = Limits(slow_client_timeout_s=10, keep_alive_s=300)
    async with serving(routes(root=hello), limits=limits, seconds=1000) as served:
        client = H2Client(await served.connect())
        if preface:
            await client.start()
        await settle()
        for byte in data:
            await client.client.send(bytes([byte]))
            await settle()
        await pass_time(mock_clock, 9)
        assert served.server.connections().total == 1
        await pass_time(mock_clock, 1.5)
        if preface:
            assert (await client.until_goaway()).error_code == ErrorCodes.ENHANCE_YOUR_CALM
        await client.client.ended()
        await pass_time(mock_clock, limits.linger_s)
        assert served.server.connections().total == 0


async def test_a_byte_now_and_then_does_not_stretch_the_time_of_a_head(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = Limits(slow_client_timeout_s=10, keep_alive_s=300)
    async with serving(routes(root=hello), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        await client.client.send(HEAD_BLOCK)
        for _ in range(2):
            await pass_time(mock_clock, 4.9)
            await client.frames(ContinuationFrame(1, b"\x84"))
        assert served.server.connections().head == 1
        await pass_time(mock_clock, 1)
        assert (await client.until_goaway()).error_code == ErrorCodes.ENHANCE_YOUR_CALM


async def test_what_is_begun_is_held_to_it_beside_streams_that_run(
    mock_clock: trio.testing.MockClock,
) -> None:
    handler = Scope()
    limits = Limits(slow_client_timeout_s=10, keep_alive_s=300)
    async with serving(routes(hang=handler.hang), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        await client.begin(b"/hang")
        await client.client.send(HEAD_BLOCK.replace(b"\x01\x82", b"\x03\x82"))
        await pass_time(mock_clock, 9)
        assert not handler.ended.is_set()
        await pass_time(mock_clock, 1.5)
        assert handler.cancelled
        assert (await client.until_goaway()).error_code == ErrorCodes.ENHANCE_YOUR_CALM


async def test_half_a_frame_that_is_completed_in_time_costs_nothing(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = Limits(slow_client_timeout_s=10, keep_alive_s=300)
    async with serving(routes(root=hello), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        ping = bytes.fromhex("000008 06 01 00000000 0000000000000000")
        for _ in range(5):
            await client.client.send(ping[:12])
            await pass_time(mock_clock, 8)
            await client.client.send(ping[12:])
            await pass_time(mock_clock, 30)
        assert served.server.connections().idle == 1
        assert (await client.ask()).body == b"/"


async def test_half_a_piece_of_a_body_that_nobody_waits_for_may_take_its_time(
    mock_clock: trio.testing.MockClock,
) -> None:
    go = trio.Event()

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await echo(scope, receive, send)

    limits = Limits(slow_client_timeout_s=10, keep_alive_s=300)
    async with serving(routes(busy=busy), limits=limits, seconds=1000) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/busy", method=b"POST", end=False)
        frame = DataFrame(stream, b"whole", flags=["END_STREAM"]).serialize()
        await client.client.send(frame[:-2])
        await pass_time(mock_clock, 100)
        go.set()
        await settle()
        await client.client.send(frame[-2:])
        assert (await client.answer(stream)).body == b"whole"
