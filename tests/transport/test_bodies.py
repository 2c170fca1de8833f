"""Bodies in both directions: bounded on the way in, never falsely whole on the way out."""

import h11
import pytest
import trio
import trio.testing
from tests.transport.h2kit import connect_h2
from tests.transport.kit import (
    Message,
    Receive,
    Scope,
    Send,
    Served,
    answer,
    begin,
    body_of,
    echo,
    end,
    hello,
    more,
    routes,
    serving,
    settle,
)

from paraudio.transport import call_of
from paraudio.transport._inbox import BodyInbox
from paraudio.transport._limits import INBOX_BYTES, READ_SIZE, SEND_SIZE

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(("chunk", "total"), [(16, 400_000), (4096, 2**24), (2**20, 2**24)])
async def test_a_fast_sender_is_not_read_into_memory(chunk: int, total: int) -> None:
    go = trio.Event()
    inboxes: list[BodyInbox] = []

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        assert call is not None
        assert isinstance(call._inbox, BodyInbox)
        inboxes.append(call._inbox)
        await go.wait()
        await answer(send, b"%d" % len(await body_of(receive)))

    batch = max(1, 65536 // chunk)
    framed = b"%x\r\n%b\r\n" % (chunk, bytes(chunk)) * batch
    async with serving(routes(root=late)) as served:
        client = await served.connect(buffers=65536)
        sent = 0

        async def upload() -> None:
            nonlocal sent
            await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            while sent < total:
                await client.send(framed)
                sent += chunk * batch
            await client.send(b"0\r\n\r\n")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(upload)
            await settle()
            (inbox,) = inboxes
            assert len(inbox._data) <= INBOX_BYTES + READ_SIZE
            assert sent < total or chunk == 16  # tiny ones fit into the buffers of the system
            go.set()
            got = await client.answer("POST")
        assert int(got.body) == sent


async def test_small_pieces_are_received_as_one() -> None:
    go = trio.Event()
    messages: list[Message] = []

    async def late(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        messages.append(await receive())
        await answer(send)

    async with serving(routes(root=late)) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(5):
            await client.send(b"1\r\na\r\n")
        await client.send(b"0\r\n\r\n")
        await settle()
        go.set()
        await client.answer("POST")
    assert messages == [{"type": "http.request", "body": b"aaaaa", "more_body": False}]


async def test_a_cancelled_receive_loses_nothing() -> None:
    async def impatient(scope: Message, receive: Receive, send: Send) -> None:
        for _ in range(3):
            with trio.move_on_after(0):
                await receive()
        await echo(scope, receive, send)

    async with serving(routes(root=impatient)) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        await settle()
        await client.send(b"everything")
        assert (await client.answer("POST")).body == b"everything"


async def test_a_conversation_on_one_request() -> None:
    async def talk(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        more_body = True
        while more_body:
            message = await receive()
            more_body = message["more_body"]
            await more(send, message["body"].upper())
        await end(send, b".")

    async with serving(routes(root=talk)) as served:
        client = await served.connect()
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.until(b"\r\n\r\n")
        for word in (b"one", b"two", b"three"):
            await client.send(b"%x\r\n%b\r\n" % (len(word), word))
            await client.until(word.upper() + b"\r\n")
        await client.send(b"0\r\n\r\n")
        await client.until(b"1\r\n.\r\n0\r\n\r\n")
        assert (await client.ask("/", method="POST", body=b"x")).body == b"X."


async def test_an_application_may_answer_without_reading() -> None:
    async with serving(routes(root=hello)) as served:
        client = await served.connect()
        for _ in range(3):
            # All there when the answer is made: nothing is lost by going on.
            assert (await client.ask("/", method="POST", body=bytes(30_000))).body == b"/"


async def test_an_application_may_answer_while_more_waits_than_fits() -> None:
    async with serving(routes(root=hello)) as served:
        for _ in range(3):
            client = await served.connect()
            got = await client.ask("/", method="POST", body=bytes(1_000_000))
            assert (got.status, got.body) == (200, b"/")
            await client.ended()
        assert served.server.connections().requests == 0


@pytest.mark.parametrize("length", [[], [(b"content-length", b"100")]], ids=["chunked", "length"])
async def test_a_failure_within_an_answer_is_seen(length: list[tuple[bytes, bytes]]) -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send, length)
        await more(send, b"half")
        raise ValueError

    async with serving(routes(root=fail)) as served:
        client = await served.connect()
        got = await client.ask()
        assert (got.status, got.body, got.complete) == (200, b"half", False)
        assert served.errors_of(ValueError) == ["the application failed on GET /"]


async def test_an_answer_without_its_end_is_seen() -> None:
    async def forget(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        await more(send, b"half")

    async with serving(routes(root=forget)) as served:
        got = await (await served.connect()).ask()
        assert (got.body, got.complete) == (b"half", False)


async def test_a_failure_within_an_answer_without_framing_is_a_reset() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        await more(send, b"half")
        raise ValueError

    async with serving(routes(root=fail)) as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert await client.was_reset()  # an orderly end would make it whole
        served.errors_of(ValueError)


@pytest.mark.parametrize("length", [[], [(b"content-length", b"100")]], ids=["chunked", "length"])
async def test_an_application_that_is_cancelled_from_inside_is_no_whole_answer(
    length: list[tuple[bytes, bytes]],
) -> None:
    async def time_out(scope: Message, receive: Receive, send: Send) -> None:
        with trio.move_on_after(0.01):
            await begin(send, length)
            await more(send, b"half")
            await trio.sleep_forever()

    async with serving(routes(root=time_out)) as served:
        got = await (await served.connect()).ask()
        assert (got.body, got.complete) == (b"half", False)


async def test_a_failure_before_the_body_of_known_length_is_a_500() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send, [(b"content-length", b"5")])
        raise ValueError

    async with serving(routes(root=fail, fine=hello)) as served:
        client = await served.connect()
        got = await client.ask()
        assert (got.status, got.complete) == (500, True)
        served.errors_of(ValueError)


@pytest.mark.parametrize("length", [[], [(b"content-length", b"2")]], ids=["chunked", "length"])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_header_that_would_split_the_answer_is_a_500(
    length: list[tuple[bytes, bytes]], version: int
) -> None:
    async def split(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send, [*length, (b"x", b"a\r\nset-cookie: b")])
        await end(send, b"hi")

    async with serving(routes(root=split)) as served:
        if version == 1:
            assert (await (await served.connect()).ask()).status == 500
        else:
            assert (await (await connect_h2(served)).ask()).status == 500
        served.errors_of(h11.LocalProtocolError)


async def test_a_failure_at_once_is_a_500() -> None:
    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        raise ValueError

    async with serving(routes(root=fail)) as served:
        assert (await (await served.connect()).ask()).status == 500
        served.errors_of(ValueError)


@pytest.mark.parametrize("body", [b"", b"short", b"much too long"])
async def test_a_body_of_another_length_than_declared_is_seen(body: bytes) -> None:
    async def lie(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send, [(b"content-length", b"8")])
        await end(send, body)

    async with serving(routes(root=lie)) as served:
        got = await (await served.connect()).ask()
        assert not got.complete
        served.errors_of(Exception)


async def writes_of(served: Served) -> list[bytes]:
    """What is written from now on, write by write, on the only connection."""
    await settle()
    writes: list[bytes] = []
    (connection,) = served.server._population
    send_now = connection._raw.send_now

    def noted(data: bytes) -> int:
        writes.append(data)
        return send_now(data)

    connection._raw.send_now = noted  # type: ignore[method-assign]
    return writes


async def test_head_and_body_of_known_length_leave_together() -> None:
    async with serving(routes(root=hello)) as served:
        client = await served.connect()
        writes = await writes_of(served)
        assert (await client.ask()).body == b"/"
    (write,) = writes
    assert write.startswith(b"HTTP/1.1 200 ")
    assert write.endswith(b"\r\n\r\n/")


async def test_a_large_body_is_not_copied_to_leave_with_its_head() -> None:
    whole = bytes(range(256)) * 20_000

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, whole)

    async with serving(routes(root=large)) as served:
        client = await served.connect()
        writes = await writes_of(served)
        assert (await client.ask()).body == whole
    head, body = writes
    assert bytes(head[:13]) == b"HTTP/1.1 200 "
    assert len(head) < 2 * SEND_SIZE
    assert memoryview(body).obj is whole


async def test_an_answer_larger_than_the_socket_takes_arrives_whole() -> None:
    data = bytes(range(256)) * 20_000

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        await answer(send, data)

    async with serving(routes(root=large)) as served:
        client = await served.connect(buffers=4096)
        got = await client.ask()
        assert got.complete
        assert got.body == data


async def test_a_cancelled_send_does_not_tear_the_stream() -> None:
    piece = b"0123456789" * 100_000

    async def impatient(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        for _ in range(3):
            with trio.move_on_after(0.001):
                await more(send, piece)
                await trio.sleep_forever()
        await end(send)

    async with serving(routes(root=impatient)) as served:
        client = await served.connect(buffers=4096)
        got = await client.ask()
        assert (got.body, got.complete) == (piece * 3, True)


async def test_a_stream_that_never_waits_lets_others_run() -> None:
    streaming = Scope()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        with streaming:
            await begin(send)
            while True:
                await more(send, b"x")

    async with serving(routes(root=stream, fine=hello)) as served:
        client = await served.connect()
        await client.send(GET)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.ended)  # reads as fast as it is sent
            other = await served.connect()
            for _ in range(20):
                assert (await other.ask("/fine")).body == b"/fine"
            assert not streaming.ended.is_set()
            served.server.stop()
        await streaming.ended.wait()
        assert streaming.cancelled


async def test_a_cancelled_application_sends_no_further_piece() -> None:
    async def give_up(scope: Message, receive: Receive, send: Send) -> None:
        await begin(send)
        with trio.CancelScope() as giving_up:
            await more(send, b"before ")
            giving_up.cancel()
            await more(send, b"after ")
        await end(send, b"end")

    async with serving(routes(root=give_up)) as served:
        got = await (await served.connect()).ask()
        assert (got.body, got.complete) == (b"before end", True)


async def test_a_body_is_invited_before_the_answer_begins() -> None:
    async def duplex(scope: Message, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        assert call is not None
        await call.invite_body()
        await call.invite_body()
        await begin(send)
        await more(send, b"begun,")
        await end(send, await body_of(receive))

    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    async with serving(routes(root=duplex)) as served:
        client = await served.connect()
        await client.send(head)
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        assert (await client.until(b"begun,\r\n")).startswith(b"HTTP/1.1 200")
        await client.send(b"body")
        assert await client.until(b"0\r\n\r\n") == b"4\r\nbody\r\n0\r\n\r\n"


async def test_the_largest_chunk_is_known_and_a_body_without_chunks_has_none() -> None:
    async def tell(scope: Message, receive: Receive, send: Send) -> None:
        await body_of(receive)
        call = call_of(scope)
        assert call is not None
        await answer(send, b"%d" % call.largest_chunk)

    sized = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for size in (3, 70_000, 100):
        chunked += b"%x\r\n%b\r\n" % (size, bytes(size))
    async with serving(routes(root=tell)) as served:
        client = await served.connect()
        for request, told in ((sized, b"0"), (chunked + b"0\r\n\r\n", b"70000"), (sized, b"0")):
            await client.send(request)
            assert (await client.answer("POST")).body == told
