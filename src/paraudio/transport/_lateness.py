"""When a client is late, and when only we are.

A process that was stopped (by a signal, a debugger, a suspended machine) finds every deadline
passed when it goes on, and the bytes of those who kept them still in the sockets. So nobody is cut
off before what waits was looked at. That is decided here, for every deadline of the transport.
"""

from collections.abc import Callable
from typing import Final

import trio

MOMENT_S: Final = 1.0
"""How long a client has got whose deadline passed while something of it waited for us."""

_ROUNDS: Final = 5


class Lateness:
    """The deadlines of one client; the moment is granted once for each.

    A client cannot live on it: it is granted for a deadline and not for a byte, so one that always
    has a byte waiting is late a moment later.
    """

    __slots__ = ("_since", "_until")

    def __init__(self) -> None:
        self._since = self._until = -1.0

    def passed(
        self, since: float | None, limit: float, now: float, waiting: Callable[[], bool]
    ) -> bool:
        """Whether a client has used up its time.

        Args:
            since: When its time began, or None if it has none to keep.
            limit: How long it has got, seconds.
            now: The time.
            waiting: Whether something of the client waits to be looked at; asked only if it counts.
        """
        if since is None or now - since <= limit:
            return False
        if since == self._since:
            return now >= self._until
        if not waiting():
            return True
        self._since, self._until = since, now + MOMENT_S
        return False


class Deadline:
    """A time by which a client has to be heard that a timer of its own waits for.

    Args:
        at: That time, seconds of the loop's clock.
        waiting: Whether something of the client waits to be looked at.

    Attributes:
        at: When the timer is to go off; a moment later once that was granted.
    """

    __slots__ = ("_granted", "_waiting", "at")

    def __init__(self, at: float, waiting: Callable[[], bool]) -> None:
        self.at = at
        self._waiting = waiting
        self._granted = False

    async def is_over(self) -> bool:
        """Whether the client is late; to be asked when the timer has gone off.

        Others have their turn first, so what was read in this moment counts. What still waits then
        gets a moment, once.
        """
        await let_others_go_first()
        if self._granted or not self._waiting():
            return True
        self._granted, self.at = True, trio.current_time() + MOMENT_S
        return False


async def let_others_go_first() -> None:
    """Let every task have its turn that was woken together with this one, and what follows."""
    for _ in range(_ROUNDS):
        await trio.lowlevel.checkpoint()
