"""Weights outlive their users: they are freed when the last session over them is gone."""

from collections.abc import Callable
from typing import TypeVar

from paraudio.engines.isolation._pending import Pending
from paraudio.engines.worker import Failed

T = TypeVar("T")


class Weights:
    """Counts the sessions over weights, also those that a hanging call keeps alive.

    Invariant: ``free`` is called at most once, and never while a session is counted.
    """

    def __init__(self, free: Callable[[], Pending[None]]) -> None:
        self._free = free
        self._sessions = 0
        self._closing = False

    def expect(self, building: Pending[T]) -> None:
        """A session is being built: count it from now on, or until that failed."""
        self._sessions += 1
        building.then(lambda: self.part() if isinstance(building.reply, Failed) else None)

    def part(self) -> None:
        """A session is gone."""
        self._sessions -= 1
        if self._closing and self._sessions == 0:
            self._free()

    def close(self) -> Pending[None] | None:
        """Free the weights now, if nobody uses them; else the last user's parting does, later.

        Returns:
            The freeing that began, or None where it was begun before or must wait.
        """
        if self._closing:
            return None
        self._closing = True
        return None if self._sessions else self._free()
