import pytest
import trio
import trio.testing

from paraudio.transport._inbox import HTTP_GONE, BodyInbox, Message, MessageInbox
from paraudio.transport._limits import INBOX_BYTES, INBOX_MESSAGES


def piece(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


async def blocks(put: "trio.abc.AsyncResource | object", *arguments: object) -> bool:
    """Whether a call does not return by itself."""
    with trio.move_on_after(0.01) as scope:
        await put(*arguments)  # type: ignore[operator]
    return scope.cancelled_caught


@pytest.mark.parametrize("end", ["close", "leave", "take"])
async def test_a_full_inbox_holds_up_until_it_is_emptied_or_over(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    inbox = BodyInbox()
    returned = trio.Event()

    async def fill() -> None:
        await inbox.put(piece(bytes(INBOX_BYTES)))
        returned.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fill)
        await trio.testing.wait_all_tasks_blocked()
        assert not returned.is_set()
        if end == "close":
            inbox.close()
        elif end == "leave":
            inbox.leave(HTTP_GONE)
        else:
            await inbox.take()
        await trio.testing.wait_all_tasks_blocked()
        assert returned.is_set()


async def test_putting_into_a_closed_inbox_never_waits_and_keeps_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox = BodyInbox()
    inbox.close()
    for _ in range(3):
        assert not await blocks(inbox.put, piece(bytes(INBOX_BYTES)))
    assert await inbox.take() == HTTP_GONE


async def test_after_the_whole_body_only_leaving_is_received(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inbox = BodyInbox()
    await inbox.put(piece(b"all", more=False))
    assert await inbox.take() == piece(b"all", more=False)
    assert await blocks(inbox.take)
    assert inbox.starving_since is None  # the client owes nothing
    inbox.leave(HTTP_GONE)
    assert await inbox.take() == HTTP_GONE


async def test_an_empty_body_is_one_message() -> None:
    inbox = BodyInbox()
    await inbox.put(piece(b"", more=False))
    assert await inbox.take() == piece(b"", more=False)


async def test_what_a_client_sent_is_void_when_it_leaves() -> None:
    inbox = BodyInbox()
    await inbox.put(piece(b"half"))
    inbox.leave(HTTP_GONE)
    assert await inbox.take() == HTTP_GONE


async def test_it_asks_once_and_only_if_nothing_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[int] = []

    async def ask() -> None:
        asked.append(1)

    inbox = BodyInbox(wanted=ask)
    await inbox.put(piece(b"early"))
    await inbox.take()
    assert asked == []
    for _ in range(3):
        assert await blocks(inbox.take)
    assert asked == [1]


async def test_it_tells_since_when_it_starves(autojump_clock: trio.testing.MockClock) -> None:
    inbox = BodyInbox()
    async with trio.open_nursery() as nursery:
        await trio.sleep(3)
        nursery.start_soon(inbox.take)
        await trio.sleep(5)
        assert inbox.starving_since == pytest.approx(trio.current_time() - 5)
        await inbox.put(piece(b"x"))
        assert inbox.starving_since is None


async def test_what_was_taken_is_told_even_if_the_taker_is_cancelled() -> None:
    told: list[int] = []

    async def taken(count: int) -> None:
        await trio.lowlevel.checkpoint()
        told.append(count)

    inbox = BodyInbox(taken=taken, bounded=False)
    await inbox.put(piece(bytes(10 * INBOX_BYTES)))
    with trio.CancelScope() as scope:
        scope.cancel()
        message = await inbox.take()
    assert told == [10 * INBOX_BYTES] == [len(message["body"])]


@pytest.mark.parametrize(
    ("message", "fit"),
    [
        ({"type": "websocket.receive", "bytes": b"x", "text": None}, INBOX_MESSAGES - 1),
        ({"type": "websocket.receive", "bytes": None, "text": "x" * INBOX_BYTES}, 0),
    ],
)
async def test_messages_are_bounded_by_number_and_by_size(
    message: Message, fit: int, autojump_clock: trio.testing.MockClock
) -> None:
    inbox = MessageInbox()
    for _ in range(fit):
        assert not await blocks(inbox.put, message)
    assert await blocks(inbox.put, message)
    for _ in range(fit + 1):
        assert await inbox.take() == message
    gone = {"type": "websocket.disconnect", "code": 1006}
    await blocks(inbox.put, message)
    inbox.leave(gone)
    assert await inbox.take() == gone
    assert not await blocks(inbox.put, message)
