"""The tickets that wait: a memory channel, its head held out, and tombstones that are skipped."""

from collections.abc import Iterator
from math import inf
from typing import Final

import trio

from paraudio.admission._rules import Claim
from paraudio.admission._ticket import Ticket

_SPARE_TOMBSTONES: Final = 32
"""So many tickets that left may lie in the channel before it is worth looking at their share."""


class Inbox:
    """Waiting tickets in the order in which they entered.

    The channel keeps the order and gives up only its oldest item. The head is held out of it, so
    that it can be looked at and stay where it is. A ticket that leaves from the middle stays in
    the channel as a tombstone and is skipped when it comes up. When the tombstones outnumber the
    living, one sweep drops them all; the tickets that it looks at are paid for by those that left
    since the last sweep, so leaving costs a constant, and memory stays within twice the living.

    Attributes:
        requests: Requests that wait.
        managers: Managers that wait.
        head: The first waiting ticket, or None.
    """

    # Invariants: ``head`` waits, or is None and then nothing waits;
    # the channel holds ``requests + managers - (head is not None)`` living tickets.

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Ticket](inf)
        self._behind = 0  # tickets in the channel, the tombstones among them
        self.head: Ticket | None = None
        self.requests = 0
        self.managers = 0
        self._positions: dict[int, int] | None = None

    def __len__(self) -> int:
        return self.requests + self.managers

    def put(self, ticket: Ticket) -> None:
        """Let a ticket stand at the end."""
        self._positions = None
        if ticket.claim is Claim.MANAGER:
            self.managers += 1
        else:
            self.requests += 1
        if self.head is None:
            self.head = ticket
        else:
            self._send.send_nowait(ticket)
            self._behind += 1

    def remove(self, ticket: Ticket) -> None:
        """Take out a ticket that was granted or has left, wherever it stands."""
        self._positions = None
        if ticket.claim is Claim.MANAGER:
            self.managers -= 1
        else:
            self.requests -= 1
        if ticket is not self.head:
            # One more or less is none: the head counts among the living, and is not in the channel.
            if self._behind - len(self) > max(_SPARE_TOMBSTONES, len(self)):
                self._sweep()
        elif self._behind:
            self.head = next((each for each in self._drain() if each.waiting), None)
        else:
            self.head = None

    def position(self, ticket: Ticket) -> int:
        """How many tickets stand before a waiting one; all positions are counted at once."""
        if self._positions is None:
            self._positions = {each.number: place for place, each in enumerate(self._sweep())}
        return self._positions[ticket.number]

    def waiting(self) -> list[Ticket]:
        """Every waiting ticket, in order."""
        return self._sweep()

    def _sweep(self) -> list[Ticket]:
        """Drop the tombstones; the living go back in their order and are returned with the head."""
        living = [ticket for ticket in self._drain() if ticket.waiting]
        for ticket in living:
            self._send.send_nowait(ticket)
        self._behind = len(living)
        return living if self.head is None else [self.head, *living]

    def _drain(self) -> Iterator[Ticket]:
        """Take tickets out of the channel, oldest first, as long as the caller goes on."""
        while self._behind:
            self._behind -= 1
            yield self._receive.receive_nowait()
