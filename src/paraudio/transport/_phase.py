"""Where each connection stands; every one of them is in exactly one place."""

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paraudio.transport._connection import Connection


class Phase(enum.Enum):
    """What a connection is doing."""

    HEAD = "head"  # a TLS handshake or a request head has begun and is not complete
    IDLE = "idle"  # it waits for a request
    ACTIVE = "active"  # a request is in progress
    CLOSING = "closing"  # the last bytes leave, or the application ends


class Population:
    """The connections by phase, each phase in the order in which it was entered.

    That order makes the sweep cheap: the first one of a phase has been in it for the longest time.
    """

    def __init__(self) -> None:
        self._by_phase: dict[Phase, dict[Connection, None]] = {phase: {} for phase in Phase}

    def __len__(self) -> int:
        return sum(len(members) for members in self._by_phase.values())

    def __iter__(self) -> Iterator["Connection"]:
        return iter([one for members in self._by_phase.values() for one in members])

    def add(self, connection: "Connection") -> None:
        """Take in a new connection."""
        self._by_phase[connection.phase][connection] = None

    def remove(self, connection: "Connection") -> None:
        """Forget a connection."""
        self._by_phase[connection.phase].pop(connection, None)

    def move(self, connection: "Connection", to: Phase) -> None:
        """Record that a connection enters a phase."""
        del self._by_phase[connection.phase][connection]
        self._by_phase[to][connection] = None
        connection.phase = to

    def members(self, phase: Phase) -> list["Connection"]:
        """The connections of a phase, the longest first."""
        return list(self._by_phase[phase])

    def oldest(self, phase: Phase) -> "Connection | None":
        """The connection that has been in a phase for the longest time."""
        return next(iter(self._by_phase[phase]), None)

    def count(self, phase: Phase) -> int:
        """How many connections are in a phase."""
        return len(self._by_phase[phase])
