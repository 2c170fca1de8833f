"""An answer's head is on the wire exactly when the sender says that the answer has begun."""

from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from paraudio.http._sending import Sender

HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"Content-Type", b"text/event-stream; charset=utf-8")],
}


def piece(data: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Wire:
    """A transport that keeps a head until a body comes, and is slow with bodies that have bytes."""

    def __init__(self) -> None:
        self.head: Any = None
        self.sent: list[Any] = []

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.head = message
            return
        if message["body"]:
            await trio.sleep_forever()
        self.sent += [message] if self.head is None else [self.head, message]
        self.head = None


async def test_nothing_is_sent_before_there_is_a_body() -> None:
    wire = Wire()
    sender = Sender(wire.send)
    await sender(HEAD)
    assert (wire.head, wire.sent, sender.started) == (None, [], False)
    # Another answer may take its place.
    await sender({**HEAD, "status": 499, "headers": []})
    await sender(piece(b"", more=False))
    assert [message.get("status") for message in wire.sent] == [499, None, None]
    assert (sender.status, sender.events, sender.streamed, sender.complete) == (
        *(499, False, False, True),
    )


async def test_one_that_is_cancelled_in_its_first_piece_has_sent_its_head() -> None:
    wire = Wire()
    sender = Sender(wire.send)
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await sender(HEAD)
            await sender(piece(b"data", more=True))

        nursery.start_soon(answer)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (sender.started, sender.events, sender.streamed, sender.complete) == (
        *(True, True, True, False),
    )
    assert wire.sent == [HEAD, piece(b"", more=True)]


async def test_a_cancel_before_the_first_piece_does_not_part_the_head_from_it() -> None:
    wire = Wire()
    sender = Sender(wire.send)
    await sender(HEAD)
    with trio.CancelScope() as scope:
        scope.cancel()
        await sender(piece(b"data", more=True))
    assert scope.cancelled_caught
    assert sender.started == bool(wire.sent)
    assert wire.head is None
