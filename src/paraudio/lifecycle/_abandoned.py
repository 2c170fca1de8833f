"""Calls of former loads and pools that ignored their stop: given up, and counted until they end.

A thread that never returns cannot be killed, so what it holds stays in memory. Its model is not
kept hostage by it: the load has failed, the pool is destroyed as far as anybody can tell, and the
next load may begin. But a model that does so again and again would fill the memory with what it
leaves behind, so the number of such calls is bounded, and the guard of loads counts on what they
may still take.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from paraudio.engines.isolation import AbandonedCall, Isolation
from paraudio.errors import SlotStuckError
from paraudio.journal import Kind
from paraudio.lifecycle._changes import Changes

MOST_ABANDONED: Final = 3
"""Calls of one model that may be left behind; with so many, it is not loaded again."""


class Abandoned:
    """What former loads and pools of one model left behind.

    Args:
        model: The model's ID.
        record: Takes what happens.

    Attributes:
        reserved: Bytes that abandoned loads may still take, as their estimates say.
    """

    def __init__(self, model: str, record: Changes) -> None:
        self.reserved = 0
        self._model = model
        self._record = record
        self._calls: dict[AbandonedCall, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._calls)

    def note(self, calls: Iterable[AbandonedCall], *, reserve: int = 0) -> None:
        """Count those that are new, each until it ends.

        Args:
            calls: What the isolation gave up of this model.
            reserve: Bytes that each may still take beyond what it holds.
        """
        for call in calls:
            if call not in self._calls:
                self._count += 1
                self._calls[call] = self._count
                self.reserved += reserve
                self._record(Kind.ABANDONED, self._model, call=self._count, what=call.what)
                call.then(partial(self._ended, call, reserve))

    def _ended(self, call: AbandonedCall, reserve: int) -> None:
        number = self._calls.pop(call)
        self.reserved -= reserve
        self._record(Kind.RETURNED, self._model, call=number)


def check_abandoned(isolation: Isolation, model: str) -> None:
    """Raise `SlotStuckError` for a model that left too many calls behind to be loaded again."""
    calls = len(isolation.abandoned_of(model))
    if calls >= MOST_ABANDONED:
        raise SlotStuckError(
            f"model {model!r} is not loaded again: {calls} of its former loads and unloads never "
            "returned and still hold memory; with isolation 'process' they could be ended"
        )
