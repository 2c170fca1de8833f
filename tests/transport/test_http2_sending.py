"""What leaves over HTTP/2: the end of an answer too, and no answer keeps others from theirs."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, RstStreamFrame
from tests.transport.h2kit import H2Client, connect_h2
from tests.transport.kit import (
    Handler,
    Message,
    Receive,
    Send,
    Served,
    answer,
    begin,
    body_of,
    end,
    hello,
    more,
    routes,
    serving,
    settle,
)

from paraudio.transport._call import SENDS_PER_YIELD
from paraudio.transport._connection import Connection

WINDOW = 2**30
PIECE = bytes(16_000)
FRAME_BYTES = 16_384


async def connect_wide(served: Served, *, buffers: int | None = None) -> H2Client:
    """Connect a client whose windows are never shut; what holds it back is its socket."""
    client = await connect_h2(served, buffers=buffers)
    client.connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
    client.connection.increment_flow_control_window(WINDOW)
    await client.flush()
    await client.ask(b"/hello")
    return client


def connection_of(served: Served) -> Connection:
    (connection,) = served.server._population
    return connection


async def frames_until_the_end(client: H2Client) -> list[Frame]:
    """What the server still sends, read by hand: machines hear nothing after a GOAWAY."""
    data = memoryview(await client.client.rest())
    frames = []
    while data:
        frame, length = Frame.parse_frame_header(data[:9])
        frame.parse_body(data[9 : 9 + length])
        frames.append(frame)
        data = data[9 + length :]
    return frames


async def by_drain(served: Served, _: H2Client) -> None:
    served.server.drain()


async def by_goaway(_: Served, client: H2Client) -> None:
    await client.frames(GoAwayFrame(0))


@pytest.mark.parametrize("last", [by_drain, by_goaway])
async def test_the_last_answer_has_its_end_also_behind_a_full_socket(
    last: Callable[[Served, H2Client], Awaitable[None]],
) -> None:
    full, go, sent = trio.Event(), trio.Event(), 0

    async def stream(_: Message, __: Receive, send: Send) -> None:
        nonlocal sent
        await begin(send)
        while connection_of(served)._raw.sending_since is None:
            await more(send, PIECE)
            sent += len(PIECE)
            await settle()
        full.set()
        await go.wait()
        await end(send)

    async with serving(routes(hello=hello, root=stream)) as served:
        client = await connect_wide(served, buffers=4096)
        await client.begin(b"/")
        await full.wait()
        await last(served, client)
        await settle()
        go.set()
        await settle()
        frames = await frames_until_the_end(client)
    pieces = [frame for frame in frames if isinstance(frame, DataFrame)]
    assert sum(len(piece.data) for piece in pieces) == sent
    assert ["END_STREAM" in piece.flags for piece in pieces[-2:]] == [False, True]


async def test_an_end_whose_sender_was_cancelled_still_leaves_and_is_no_failure() -> None:
    cancelled = trio.Event()

    async def stream(_: Message, __: Receive, send: Send) -> None:
        await begin(send)
        while connection_of(served)._raw.sending_since is None:
            await more(send, PIECE)
            await settle()
        with trio.CancelScope() as scope:
            scope.cancel()
            await end(send)
        cancelled.set()

    async with serving(routes(hello=hello, root=stream)) as served:
        client = await connect_wide(served, buffers=4096)
        await client.begin(b"/")
        await cancelled.wait()
        await settle()
        served.server.drain()
        frames = await frames_until_the_end(client)
    assert not [frame for frame in frames if isinstance(frame, RstStreamFrame)]
    assert "END_STREAM" in [f for f in frames if isinstance(f, DataFrame)][-1].flags


async def test_a_large_answer_to_a_fast_reader_leaves_others_their_turns() -> None:
    body = bytes(100 * FRAME_BYTES)
    begun, runs, over = trio.Event(), [0], trio.Event()

    def take_all(data: bytes) -> int:
        """A socket whose other end is never behind."""
        runs[-1] += 1
        return len(data)

    async def large(_: Message, __: Receive, send: Send) -> None:
        connection_of(served)._raw.send_now = take_all  # type: ignore[method-assign]
        begun.set()
        await answer(send, body)
        over.set()

    async def tick() -> None:
        await begun.wait()
        while not over.is_set():
            await trio.lowlevel.checkpoint()
            runs.append(0)

    async with serving(routes(hello=hello, root=large)) as served:
        client = await connect_wide(served)
        served.nursery.start_soon(tick)
        await client.begin(b"/")
        await over.wait()
    assert sum(runs) >= len(body) / FRAME_BYTES
    assert max(runs) <= 2 * SENDS_PER_YIELD + 2


EXPECT = [(b"expect", b"100-continue")]


async def test_the_body_is_asked_for_when_the_application_wants_it() -> None:
    go = trio.Event()

    async def late(_: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        await answer(send, await body_of(receive))

    async with serving(routes(root=late, hello=hello)) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/", method=b"POST", headers=EXPECT, end=False)
        await client.ask(b"/hello")
        assert client.answers[stream].before == []
        go.set()
        while not client.answers[stream].before:
            await client._pump()
        await client.upload(stream, b"body")
        got = await client.answer(stream)
        assert (got.before, got.status, got.body) == ([b"100"], 200, b"body")


async def refuse(_: Message, __: Receive, send: Send) -> None:
    await answer(send, b"too large", status=413)


async def begin_and_read(_: Message, receive: Receive, send: Send) -> None:
    await begin(send)
    await more(send, b"first ")
    await end(send, await body_of(receive))


async def read_late(_: Message, receive: Receive, send: Send) -> None:
    await settle()
    await answer(send, await body_of(receive))


@pytest.mark.parametrize(
    ("handler", "headers", "sent", "told"),
    [
        (refuse, EXPECT, b"", (413, b"too large")),
        (begin_and_read, EXPECT, b"sent in spite of that", (200, b"first sent in spite of that")),
        (read_late, EXPECT, b"at once", (200, b"at once")),
        (read_late, [], b"at once", (200, b"at once")),
        (read_late, EXPECT, None, (200, b"")),
    ],
    ids=["refused", "answer begun", "body here", "not waited for", "no body"],
)
async def test_a_body_is_not_asked_for_where_nobody_waits_for_that(
    handler: Handler,
    headers: list[tuple[bytes, bytes]],
    sent: bytes | None,
    told: tuple[int, bytes],
) -> None:
    async with serving(routes(root=handler)) as served:
        client = await connect_h2(served)
        stream = await client.begin(b"/", method=b"POST", headers=headers, end=sent is None)
        if sent:
            await client.upload(stream, sent)
        got = await client.answer(stream)
        assert (got.before, got.status, got.body) == ([], *told)
