"""``/v1/events``: one picture of everything, and then each change to it.

Nothing is kept for a client. Whoever reads pulls events out of the journal's ring, at the pace at
which the socket takes them; one that is too slow for the ring is told that there is a gap, and gets
a new picture.
"""

from typing import Final

import trio
from quart.wrappers import Response

from paraudio.errors import NotFoundError
from paraudio.http._core import Core, Route
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields
from paraudio.http._heartbeat import COMMENT, quiet_s
from paraudio.http._models import model_json
from paraudio.http._respond import bytes_answer
from paraudio.http._sse import DONE, EVENT_STREAM, sse, stream_answer
from paraudio.journal import Event, Journal
from paraudio.spec import Json
from paraudio.transport import Writer, WrittenBody

BATCH: Final = 500
"""Events that are sent in one piece."""


async def stream_events(exchange: Exchange) -> Response:
    """Send changes as they come, until the server drains or the client leaves.

    Raises:
        NotFoundError: There is no journal here.
        InvalidRequestError: ``since`` is no revision.
    """
    core = exchange.core
    since = Fields(exchange.request.args.to_dict(), form=True).whole("since", maximum=2**53)
    if core.journal is None:
        raise NotFoundError("this server keeps no journal, so it has no events to tell")
    if exchange.request.method == "HEAD":
        return bytes_answer(b"", EVENT_STREAM)
    return stream_answer(WrittenBody(Watch(core, core.journal, since).write_to), EVENT_STREAM)


class Watch:
    """One client's look at the journal.

    Args:
        core: Whose snapshots are shown.
        journal: What is followed.
        since: The last revision that the client knows, or None for one that knows nothing.
    """

    def __init__(self, core: Core, journal: Journal, since: int | None) -> None:
        self._core = core
        self._journal = journal
        self._since = since
        self._told = 0

    async def write_to(self, write: Writer) -> None:
        """Send the picture, then changes; returns when the server drains."""
        await write(self._first())
        while True:
            draining = self._core.runtime.snapshot().phase != "running"
            while self._told < self._journal.revision:
                await write(self._next())
            if draining:
                await write(DONE)
                return
            with trio.move_on_after(quiet_s(self._core.settings)) as quiet:
                await self._journal.wait_change(self._told)
            if quiet.cancelled_caught:
                await write(COMMENT)

    def _first(self) -> bytes:
        if self._since is None:
            return self._picture("snapshot")
        if self._since > self._journal.revision or self._forgotten(self._since):
            return self._picture("gap")  # too old, or of a server that is gone
        self._told = self._since
        return sse({"type": "resumed", "revision": self._since})

    def _next(self) -> bytes:
        events = self._journal.since(self._told)
        if events[0].seq > self._told + 1:
            return self._picture("gap")
        batch = events[:BATCH]
        self._told = batch[-1].seq
        return b"".join([sse(event_json(event)) for event in batch])

    def _forgotten(self, revision: int) -> bool:
        """Whether the ring has lost an event that came after a revision."""
        kept = self._journal.since(revision)
        return bool(kept) and kept[0].seq > revision + 1

    def _picture(self, kind: str) -> bytes:
        snapshot = self._core.runtime.snapshot()
        self._told = snapshot.revision
        models: list[Json] = [model_json(model, self._core.started_at) for model in snapshot.models]
        return sse(
            {
                "type": kind,
                "revision": snapshot.revision,
                "phase": str(snapshot.phase),
                "models": models,
            }
        )


def event_json(event: Event) -> dict[str, Json]:
    """One change as clients see it."""
    return {
        "type": "change",
        "revision": event.seq,
        "at": round(event.at, 6),
        "kind": event.kind.value,
        "model": event.model,
        "facts": event.facts,
    }


ROUTES = (Route("GET", "/v1/events", stream_events),)
