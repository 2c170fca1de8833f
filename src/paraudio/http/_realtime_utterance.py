"""One stretch of speech on its way to the recogniser: filled at one end, taken at the other."""

from collections import deque
from typing import Final

import numpy as np
import trio

from paraudio.http._realtime_config import Hearing
from paraudio.http._realtime_sound import Frames, add

_MOST_S: Final = 5.0
"""The longest piece that is taken at once, so that a stop is never far."""


class Bell:
    """Wakes everybody who waits, each time that it rings.

    Whoever waits looks first and waits then, without a checkpoint in between, so no ring is missed.
    """

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake who waits now."""
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        """Wait for the next ring."""
        await self._event.wait()


class Utterance:
    """What becomes one item of the conversation.

    Attributes:
        item_id: Its ID.
        rate: Frames a second.
        hearing: How it is to be written down.
        live: Whether it is taken while it is still being spoken.
        frames: How many frames it has so far.
        waiting: How many of them were not taken yet.
        complete: Whether it has its end; the item is then committed.
        dropped: Whether nobody wants it any more.
    """

    def __init__(self, item_id: str, rate: int, hearing: Hearing, *, live: bool) -> None:
        self.item_id = item_id
        self.rate = rate
        self.hearing = hearing
        self.live = live
        self.frames = 0
        self.waiting = 0
        self.complete = False
        self.dropped = False
        self.scope = trio.CancelScope()
        self._pieces: deque[Frames] = deque()
        self._bell = Bell()

    @property
    def seconds(self) -> float:
        """How long it is so far."""
        return self.frames / self.rate

    def add(self, frames: Frames) -> None:
        """Add what was said."""
        if len(frames):
            add(self._pieces, frames)
            self.frames += len(frames)
            self.waiting += len(frames)
            self._bell.ring()

    def finish(self) -> None:
        """Nothing more is said."""
        self.complete = True
        self._bell.ring()

    def drop(self) -> None:
        """Forget it, and stop whoever works on it."""
        self.dropped = True
        self.forget()
        self.scope.cancel("the client cleared what it had sent")

    def forget(self) -> None:
        """Let go of what was not taken, now and from now on; the end is still waited for."""
        self._pieces.clear()
        self.waiting = 0

    async def take(self) -> Frames | None:
        """Wait for the next piece; None behind the last one. Cancelled, nothing is lost."""
        while not self._pieces:
            if self.complete:
                return None
            await self._bell.wait()
        taken: list[Frames] = []
        room = round(_MOST_S * self.rate)
        while self._pieces and room > 0:
            piece = self._pieces.popleft()
            if len(piece) > room:
                self._pieces.appendleft(piece[room:])
                piece = piece[:room]
            taken.append(piece)
            room -= len(piece)
        frames = taken[0] if len(taken) == 1 else np.concatenate(taken)
        self.waiting -= len(frames)
        return frames

    async def wait_complete(self) -> None:
        """Wait for its end, and forget what comes meanwhile."""
        while not self.complete:
            self.forget()
            await self._bell.wait()
        self.forget()

    async def whole(self) -> list[Frames]:
        """Wait for its end, and look at all of it; it still counts as waiting.

        Returns:
            Its pieces: minutes of sound are not joined where the loop would wait for it.
        """
        while not self.complete:
            await self._bell.wait()
        return list(self._pieces)
