"""Looks after clients that nobody is reading from: the slow, the silent, the gone.

One task for all connections, a few times a second, instead of a timer for each. A connection whose
socket is being read tells by itself when its client goes. One whose reader is parked, behind a body
that the application has not taken or a request that came too soon, does not: the system is asked.
"""

import select
from collections.abc import Iterator
from typing import Final

import trio

from paraudio.transport._connection import Connection
from paraudio.transport._lateness import let_others_go_first
from paraudio.transport._phase import Phase
from paraudio.transport._shared import Shared

_LOST: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_HALF: Final = getattr(select, "POLLRDHUP", 0)


class Sweeper:
    """Ends the connections of clients that wait, stall or have left unseen.

    Args:
        shared: What the connections of the server have in common.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._population = shared.population
        self._limits = shared.limits
        self._work = trio.Event()

    def wake(self) -> None:
        """There is a connection again."""
        self._work.set()

    async def run(self) -> None:
        """Sweep for ever, and sleep while there is nothing to sweep."""
        while True:
            if not self._population:
                self._work = trio.Event()
                await self._work.wait()
            await trio.sleep(self._limits.sweep_s)
            await let_others_go_first()  # who was read in this moment is not late
            self.sweep()

    def sweep(self) -> None:
        """Look at every connection that can be due."""
        now = trio.current_time()
        self._end_late_heads(now)
        self._end_idle(now)
        for connection in self._population.members(Phase.CLOSING):
            if connection.stalled(now):
                connection.leave()
        active = self._population.members(Phase.ACTIVE)
        for connection in active:
            if connection.stalled(now):
                connection.leave()
            elif connection.dawdles(now):
                connection.time_out()
        self._end_gone(now, active)

    def _end_late_heads(self, now: float) -> None:
        for connection in self._late(Phase.HEAD, self._limits.slow_client_timeout_s, now):
            connection.time_out()

    def _end_idle(self, now: float) -> None:
        for connection in self._late(Phase.IDLE, self._limits.keep_alive_s, now):
            connection.finish()

    def _late(self, phase: Phase, limit: float, now: float) -> Iterator[Connection]:
        """The connections that have been in a phase for too long; they come in that order."""
        limit = self._while_draining(limit)
        for connection in self._population.members(phase):
            if now - connection.since <= limit:
                return
            if connection.late(connection.since, limit, now):
                yield connection

    def _while_draining(self, limit: float) -> float:
        """Who has not asked for anything yet gets only a moment once the server drains."""
        return min(limit, self._limits.linger_s) if self._shared.draining else limit

    def _end_gone(self, now: float, active: list[Connection]) -> None:
        parked = {one.fileno(): one for one in active if one.parked}
        if not parked:
            return
        poll = select.poll()
        for descriptor in parked:
            poll.register(descriptor, _HALF)
        for descriptor, events in poll.poll(0):
            connection = parked[descriptor]
            if events & _LOST or self._outstayed(connection, now):
                connection.leave()

    def _outstayed(self, connection: Connection, now: float) -> bool:
        """Whether a client that has closed one side has had its grace."""
        if connection.half_closed_since is None:
            connection.half_closed_since = now
        return now - connection.half_closed_since >= self._limits.half_close_grace_s
