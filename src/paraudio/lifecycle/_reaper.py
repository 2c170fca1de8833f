"""Retiring what nobody has used for a while."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import trio

from paraudio.admission import Claim
from paraudio.errors import ShuttingDownError
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._retire import hand_over_retirement


class Reaper:
    """Retires models that were neither loaded nor run for ``idle_unload_ms``.

    It never queues: a model that somebody holds or waits for is not idle, and is looked at again
    after as long as it would have to be idle.

    Args:
        context: The runtime's.
        entries: Every registered model.
    """

    def __init__(self, context: Context, entries: Callable[[], Iterable[Entry]]) -> None:
        self._context = context
        self._entries = entries
        self._idle_s = context.settings.idle_unload_ms / 1000

    async def run(self) -> None:
        """Look at each model in the moment in which it may be due, until draining or stopping."""
        with suppress(ShuttingDownError), self._context.phases.interruptible():
            while self._context.phases.running:
                later = self.sweep(trio.current_time())
                await trio.sleep_until(later)

    def sweep(self, now: float) -> float:
        """Retire what is due and idle.

        A model that is published after this cannot be due before the time that this returns.

        Returns:
            When to look again, in seconds of the loop's clock.
        """
        later = now + self._idle_s
        for entry in self._entries():
            if entry.pool is None:
                continue
            due = entry.last_used + self._idle_s
            if due > now:
                later = min(later, due)
            else:
                self._retire(entry)
        return later

    def _retire(self, entry: Entry) -> None:
        lease = entry.queue.admit_nowait(Claim.MANAGER)
        if lease is not None:
            hand_over_retirement(self._context, entry, lease, "idle")
