"""A live job as its feeder sees it: pieces in, events out, until it ends on one way or another."""

from collections.abc import Awaitable, Callable, Sequence

import trio

from paraudio.engines._values import Piece, StreamEvent


class Live:
    """One live job of a session; see `paraudio.engines.isolation.LiveHandle`.

    After its end, after an error, after a cancelled call and after leaving it takes nothing more.
    """

    def __init__(
        self,
        feed: Callable[[Piece], Awaitable[Sequence[StreamEvent]]],
        finish: Callable[[], Awaitable[Sequence[StreamEvent]]],
        name: str,
    ) -> None:
        self._feed = feed
        self._finish = finish
        self._name = name
        self._open = True
        self._ended = False

    async def feed(self, piece: Piece) -> Sequence[StreamEvent]:
        """Give one piece, and wait until it is worked through."""
        events = await self._guarded(lambda: self._feed(piece))
        self._open = True
        return events

    async def finish(self) -> Sequence[StreamEvent]:
        """End the input, and wait for what is left."""
        events = await self._guarded(self._finish)
        self._ended = True
        return events

    def close(self) -> bool:
        """Take nothing more; returns whether the backend has nothing of the job left anyway."""
        self._open = False
        return self._ended

    async def _guarded(
        self, call: Callable[[], Awaitable[Sequence[StreamEvent]]]
    ) -> Sequence[StreamEvent]:
        if not self._open:
            raise trio.ClosedResourceError(f"{self._name}: the live job takes no more")
        self._open = False  # until the call has come back well
        try:
            return await call()
        except Exception:  # not Cancelled: a call that was cancelled leaves something to close
            self._ended = True
            raise
