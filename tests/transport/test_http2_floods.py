"""HTTP/2 clients that cost more than they weigh: each is bounded, told, and alone."""

import struct
from collections.abc import Iterator
from typing import NoReturn

import pytest
import trio
import trio.testing
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from tests.transport.h2kit import H2Client, connect_h2
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    begin,
    end,
    hello,
    more,
    routes,
    serving,
    until,
)

from paraudio.transport._frames import MAX_BLOCK_FRAMES, BlockTooLargeError, FrameMeter
from paraudio.transport._h2 import H2
from paraudio.transport._h2_machine import ENCODER_TABLE_BYTES, Budget
from paraudio.transport._limits import H2_BURST, H2_PER_S

HEAD = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/swallow"),
    (b":authority", b"x"),
]
PACKET = 200


def streams() -> Iterator[tuple[int, bytes]]:
    """New streams without end: their numbers, and the blocks of their heads."""
    encoder = Encoder()
    for stream in range(1, 2**31, 2):
        yield stream, encoder.encode(HEAD)


def rapid_reset() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [
            HeadersFrame(stream, block, flags=["END_HEADERS"]),
            RstStreamFrame(stream, ErrorCodes.CANCEL),
        ]


def resets_that_we_are_made_to_send() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [
            HeadersFrame(stream, block, flags=["END_HEADERS"]),
            WindowUpdateFrame(stream, 2**31 - 1),
        ]


def heads_behind_the_end() -> Iterator[list[Frame]]:
    for stream, block in streams():
        ends = ["END_HEADERS", "END_STREAM"]
        yield [HeadersFrame(stream, block, flags=ends), HeadersFrame(stream, block, flags=ends)]


def malformed_heads() -> Iterator[list[Frame]]:
    encoder = Encoder()
    for stream in range(1, 2**31, 2):
        yield [HeadersFrame(stream, encoder.encode(HEAD[1:]), flags=["END_HEADERS"])]


def streams_too_many() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [HeadersFrame(stream, block, flags=["END_HEADERS"])]


def settings() -> Iterator[list[Frame]]:
    while True:
        yield [SettingsFrame(0, {SettingCodes.INITIAL_WINDOW_SIZE: 70_000})]


def pings() -> Iterator[list[Frame]]:
    while True:
        yield [PingFrame(0, b"12345678")]


def farewells() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [HeadersFrame(stream, block, flags=["END_HEADERS"])]
        while True:
            yield [GoAwayFrame(0)]


def priorities() -> Iterator[list[Frame]]:
    while True:
        yield [PriorityFrame(1, depends_on=3)]


def pieces_of_nothing() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [HeadersFrame(stream, block, flags=["END_HEADERS"])]
        while True:
            yield [DataFrame(stream, b"")]


def padding_around_nothing() -> Iterator[list[Frame]]:
    for stream, block in streams():
        yield [HeadersFrame(stream, block, flags=["END_HEADERS"])]
        while True:
            yield [DataFrame(stream, b"", pad_length=1, flags=["PADDED"])]


async def swallow(scope: Message, receive: Receive, send: Send) -> None:
    """Wait for ever, as a call that nobody can stop for a while."""
    await trio.sleep_forever()


APP = routes(root=hello, swallow=swallow)


@pytest.mark.parametrize(
    "flood",
    [
        rapid_reset,
        resets_that_we_are_made_to_send,
        heads_behind_the_end,
        malformed_heads,
        streams_too_many,
        settings,
        pings,
        farewells,
        priorities,
        pieces_of_nothing,
        padding_around_nothing,
    ],
    ids=lambda flood: flood.__name__,
)
async def test_a_flood_is_told_to_be_calm(flood: object) -> None:
    async with serving(APP, seconds=120) as served:
        neighbour = await connect_h2(served)
        client = await connect_h2(served)
        assert callable(flood)
        pieces = flood()
        sent = 0
        async with trio.open_nursery() as nursery:

            async def pour() -> None:
                nonlocal sent
                try:
                    while True:
                        packet = [frame for _ in range(PACKET) for frame in next(pieces)]
                        await client.frames(*packet)
                        sent += PACKET
                except trio.BrokenResourceError:
                    return

            nursery.start_soon(pour)
            goaway = await end_of(client)
            nursery.cancel_scope.cancel()
        assert goaway == ErrorCodes.ENHANCE_YOUR_CALM
        assert (await neighbour.ask()).body == b"/"
        client.client.close()
        await until(lambda: served.server.connections().requests == 0)
        await until(lambda: served.server.connections().total == 1)


async def end_of(client: H2Client) -> int | None:
    """Read what the server sends, by hand, up to its GOAWAY."""
    waiting = b""
    while data := await client.client.stream.receive_some(65536):
        waiting += data
        while len(waiting) >= 9 and len(waiting) >= 9 + int.from_bytes(waiting[:3], "big"):
            size = 9 + int.from_bytes(waiting[:3], "big")
            if waiting[3] == 7:
                return int.from_bytes(waiting[13:17], "big")
            waiting = waiting[size:]
    return None


async def until_it_breaks(client: H2Client, frame: Frame) -> None:
    """Send a frame again and again, until the server has ended the connection."""

    async def pour() -> NoReturn:
        while True:
            await client.frames(frame)

    with pytest.raises(trio.BrokenResourceError):
        await pour()


async def test_a_client_that_cancels_often_is_no_flood() -> None:
    cancelled = 0

    async def busy(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal cancelled
        try:
            await trio.sleep_forever()
        finally:
            cancelled += 1

    async with serving(routes(root=hello, busy=busy), seconds=120) as served:
        client = await connect_h2(served)
        for _ in range(H2_BURST // 2):
            await client.reset(await client.begin(b"/busy"))
            if not cancelled % 50:
                assert (await client.ask()).body == b"/"
        assert (await client.ask()).body == b"/"


def overdrawn_by(budget: Budget, count: int) -> bool:
    for _ in range(count):
        budget.spend()
    return budget.overdrawn


def test_a_budget_comes_back_with_time_and_not_beyond_its_burst() -> None:
    now = 0.0
    budget = Budget(H2_BURST, H2_PER_S, lambda: now)
    assert not overdrawn_by(budget, H2_BURST)
    assert overdrawn_by(budget, 1)
    now = 1.0
    assert not overdrawn_by(budget, H2_PER_S - 1)
    assert overdrawn_by(budget, 1)
    now = 1e6
    assert not overdrawn_by(budget, H2_BURST)
    assert overdrawn_by(budget, 1)


@pytest.mark.parametrize("size", [0, 1, 16_384], ids=["empty", "tiny", "full"])
async def test_a_head_that_goes_on_for_ever_is_told_to_be_calm(size: int) -> None:
    async with serving(APP, seconds=120) as served:
        neighbour = await connect_h2(served)
        client = await connect_h2(served)
        await client.frames(HeadersFrame(1, b"\x82"))
        await until_it_breaks(client, ContinuationFrame(1, bytes(size)))
        assert (await neighbour.ask()).body == b"/"
        await until(lambda: served.server.connections().total == 1)


async def test_it_is_told_before_it_is_unpacked() -> None:
    async with serving(APP, seconds=120) as served:
        client = await connect_h2(served)
        frames: list[Frame] = [HeadersFrame(1, b"\x82")]
        frames += [ContinuationFrame(1, b"") for _ in range(MAX_BLOCK_FRAMES)]
        await client.frames(*frames)
        assert (await client.until_goaway()).error_code == ErrorCodes.ENHANCE_YOUR_CALM


def test_the_meter_bounds_the_bytes_of_a_block() -> None:
    meter = FrameMeter(max_block_bytes=1_000)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    first = HeadersFrame(1, bytes(600)).serialize()
    last = ContinuationFrame(1, bytes(400), flags=["END_HEADERS"]).serialize()
    assert b"".join(meter.turns(preface + (first + last) * 3)) == preface + (first + last) * 3
    assert not meter.begun
    with pytest.raises(BlockTooLargeError):
        list(meter.turns(first + ContinuationFrame(1, bytes(401)).serialize()))


async def test_a_bomb_of_headers_is_not_unpacked() -> None:
    async with serving(APP, seconds=120) as served:
        client = await connect_h2(served)
        # One field of 4,000 bytes in the table, named by a byte each, 16,000 times.
        encoder = Encoder()
        block = encoder.encode([*HEAD, (b"a", b"b" * 4_000)])
        index = encoder.encode([(b"a", b"b" * 4_000)])
        assert len(index) == 1
        await client.frames(
            HeadersFrame(1, block, flags=["END_HEADERS"]),
            HeadersFrame(3, index * 16_000, flags=["END_HEADERS"]),
        )
        assert (await client.until_goaway()).error_code == ErrorCodes.ENHANCE_YOUR_CALM
        await client.client.ended()


async def test_settings_buy_no_memory() -> None:
    async with serving(APP, seconds=120) as served:
        client = await connect_h2(served)
        wanted = [*range(0x1000, 0x1000 + 2_000), int(SettingCodes.HEADER_TABLE_SIZE)]
        body = b"".join(struct.pack(">HL", code, 2**32 - 1) for code in wanted)
        await client.client.send(len(body).to_bytes(3, "big") + b"\x04" + bytes(5) + body)
        client.connection.decoder.max_allowed_table_size = 2**20
        assert (await client.ask()).body == b"/"
        (connection,) = served.server._population
        protocol = connection._protocol
        assert isinstance(protocol, H2)
        assert len(protocol.connection.remote_settings) <= len(SettingCodes)
        assert protocol.connection.encoder.header_table_size == ENCODER_TABLE_BYTES


async def test_an_answer_to_a_client_that_gives_a_byte_at_a_time_holds_nobody_up() -> None:
    stream = Scope()

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        with stream:
            await begin(send)
            await more(send, bytes(300))
            await end(send)

    async with serving(routes(root=hello, large=large)) as served:
        client = await connect_h2(served)
        await client.frames(SettingsFrame(0, {SettingCodes.INITIAL_WINDOW_SIZE: 0}))
        number = await client.begin(b"/large")
        for _ in range(300):
            await client.frames(WindowUpdateFrame(number, 1))
        assert len((await client.answer(number)).body) == 300
