"""A registered model with the parts that serve it, and the task that owns them."""

from dataclasses import dataclass

import trio

from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._initialize import Initializer
from paraudio.lifecycle._recover import Recovery
from paraudio.lifecycle._retire import tear_down


@dataclass(frozen=True, slots=True)
class Model:
    """One model's entry and what works on it.

    Attributes:
        entry: Its data and steps.
        initializer: Its loads under requests.
        recovery: How its sessions come back.
    """

    entry: Entry
    initializer: Initializer
    recovery: Recovery

    async def serve(self, context: Context) -> None:
        """Do the model's work until stopping; then end its users' waits and destroy its pool."""
        await self.entry.serve()
        self.initializer.close()
        await self._users_gone(context)
        pool = self.entry.clear(None, "shutdown")
        if pool is not None:
            await tear_down(context, self.entry, pool)
        self.recovery.settle()

    async def _users_gone(self, context: Context) -> None:
        """Wait until nobody holds the model, within the grace."""
        with trio.move_on_after(context.phases.grace_s):
            while self.entry.held_slots:
                await context.changes.next()
        if held := self.entry.held_slots:  # the last may have come back as the grace ran out
            context.cut(f"model {self.entry.id!r}: {held} of its slots were still held")
