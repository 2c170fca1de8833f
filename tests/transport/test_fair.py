"""A client that sends a lot in small pieces costs the others a moment at a time."""

from collections.abc import Iterator

import h2.errors
import pytest
import trio
from hyperframe.frame import DataFrame, Frame, HeadersFrame, PingFrame, RstStreamFrame
from tests.transport.h2kit import connect_h2
from tests.transport.kit import Message, Receive, Send, answer, hello, routes, serving, settle

from paraudio.transport._frames import MAX_FRAME_BYTES, FrameMeter, FrameTooLargeError
from paraudio.transport._limits import H2_STREAMS, MAX_FIELDS, TURN

PIECES = 5000
A_FEW_TURNS = 300
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Eater:
    """Takes a body, and keeps how much of it came at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def __call__(self, _: Message, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            self.sizes.append(len(message["body"]))
            more = message["more_body"]
        await answer(send, b"eaten")


def frame(kind: Frame) -> bytes:
    return kind.serialize()


def data(stream: int, *, end: bool = False) -> bytes:
    return frame(DataFrame(stream, b"x", flags=["END_STREAM"] if end else []))


async def test_a_body_of_tiny_chunks_leaves_others_their_turns() -> None:
    eater = Eater()
    async with serving(routes(root=eater)) as served:
        client = await served.connect()
        await client.send(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"1\r\nx\r\n" * PIECES
            + b"0\r\n\r\n"
        )
        assert (await client.answer("POST")).body == b"eaten"
    assert sum(eater.sizes) == PIECES
    assert max(eater.sizes) <= A_FEW_TURNS


async def test_a_body_of_tiny_frames_leaves_others_their_turns() -> None:
    eater = Eater()
    async with serving(routes(root=eater)) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/", method=b"POST", end=False)
        await client.client.send(data(stream) * (PIECES - 1) + data(stream, end=True))
        assert (await client.answer(stream)).body == b"eaten"
    assert sum(eater.sizes) == PIECES
    assert max(eater.sizes) <= A_FEW_TURNS


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_head_of_too_many_fields_is_431(version: str) -> None:
    async with serving(routes(root=hello)) as served:
        for count, status in ((MAX_FIELDS - 8, 200), (MAX_FIELDS + 8, 431)):
            if version == "2":
                http2 = await connect_h2(served)
                got = await http2.answer(await http2.begin(headers=[(b"a", b"b")] * count))
                assert got.status == status
            else:
                client = await served.connect()
                await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * count + b"\r\n")
                assert (await client.answer()).status == status


async def test_many_small_requests_in_one_packet_are_no_large_head() -> None:
    async with serving(routes(root=hello)) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * MAX_FIELDS)
        for _ in range(MAX_FIELDS):
            assert (await client.answer()).status == 200


@pytest.mark.parametrize("path", [b"/slow", b"/\xff"], ids=["one that runs", "one refused"])
async def test_streams_that_are_reset_in_the_packet_that_opens_them(path: bytes) -> None:
    go_on = trio.Event()

    async def slow(scope: Message, receive: Receive, send: Send) -> None:
        with trio.CancelScope(shield=True):
            await go_on.wait()

    async with serving(routes(slow=slow, root=hello)) as served:
        client = await connect_h2(served)
        packet = b""
        for _ in range(H2_STREAMS + 20):
            stream = client.connection.get_next_available_stream_id()
            head = [(b":method", b"GET"), (b":authority", b"x"), (b":scheme", b"http")]
            client.connection.send_headers(stream, [*head, (b":path", path)])
            client.connection.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            packet += client.connection.data_to_send()
        await client.client.send(packet)
        await settle()
        go_on.set()
        await settle()
        assert (await client.ask()).body == b"/"


async def test_a_frame_that_says_it_is_too_large_is_not_waited_for() -> None:
    async with serving(routes(root=hello)) as served:
        client = await connect_h2(served)
        await client.client.send((MAX_FRAME_BYTES + 1).to_bytes(3, "big") + bytes(6) + b"x")
        goaway = await client.until_goaway()
        assert goaway.error_code == h2.errors.ErrorCodes.FRAME_SIZE_ERROR


def in_steps(whole: bytes, step: int) -> Iterator[bytes]:
    return (whole[at : at + step] for at in range(0, len(whole), step))


@pytest.mark.parametrize("step", [1, 2, 7, 9, 64, 10**6])
def test_the_meter_loses_nothing_and_cuts_behind_frames_only(step: int) -> None:
    frames = [frame(PingFrame(0, b"12345678")), frame(RstStreamFrame(3)), frame(HeadersFrame(1))]
    frames += [frame(DataFrame(1, bytes(size))) for size in (0, 1, 50)]
    whole = PREFACE + b"".join(frames * 40)
    ends, at = set(), len(PREFACE)
    for each in frames * 40:
        at += len(each)
        ends.add(at)
    meter, got = FrameMeter(), b""
    for piece in in_steps(whole, step):
        for turn in (turns := list(meter.turns(piece))):
            got += turn
            assert turn is turns[-1] or len(got) in ends
    assert got == whole


def test_the_meter_cuts_after_so_many_frames() -> None:
    meter = FrameMeter()
    ping = frame(PingFrame(0, b"12345678"))
    sizes = [len(turn) for turn in meter.turns(PREFACE + ping * 10 * TURN)]
    assert len(sizes) in {10, 11}
    assert max(sizes) <= len(PREFACE) + len(ping) * TURN


def test_the_meter_counts_what_begins_a_request_as_many_frames() -> None:
    head = frame(HeadersFrame(1, b"head", flags=["END_HEADERS"]))
    assert len(list(FrameMeter().turns(PREFACE + head * TURN))) > 10


def test_the_meter_sees_a_large_frame_by_its_head() -> None:
    meter = FrameMeter()
    head = (MAX_FRAME_BYTES + 1).to_bytes(3, "big") + bytes(6)
    assert list(meter.turns(PREFACE + head[:8])) == [PREFACE + head[:8]]
    with pytest.raises(FrameTooLargeError):
        list(meter.turns(head[8:]))
