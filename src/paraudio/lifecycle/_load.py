"""Loading a model: through the guard, privately, and published whole."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._guard import Guard
from paraudio.lifecycle._pool import Pool, build
from paraudio.lifecycle._retire import retire


class Loader:
    """Loads models; every method runs in the model's own task, under a lease of the model.

    Args:
        context: The runtime's.
        guard: The runtime's.
    """

    def __init__(self, context: Context, guard: Guard) -> None:
        self._context = context
        self._guard = guard

    async def enter(self, entry: Entry, bound_s: float) -> AbstractContextManager[object]:
        """Wait until a load may begin; it happens inside what this returns. See `Guard.enter`."""
        with self._context.phases.interruptible():
            return await self._guard.enter(entry.id, bound_s)

    async def load(
        self,
        entry: Entry,
        ticket: int,
        bound_s: float,
        published: Callable[[Pool], None] = lambda _: None,
    ) -> None:
        """Build the pool and publish it; ``published`` is called in the step that publishes.

        Raises:
            InvalidRequestError: The weights allow fewer sessions, or a path or option is wrong.
            LoadError: The load failed.
            InsufficientMemoryError: Too little memory is free.
            ShuttingDownError: The process stopped meanwhile.
        """
        entry.begin_load(ticket)
        try:
            with self._context.phases.interruptible():
                pool = await self._build(entry, bound_s)
        except Exception as error:
            self._note_cut(entry)
            entry.fail_load(ticket, error)
            raise
        entry.publish(ticket, pool)
        published(pool)

    async def ensure(self, entry: Entry, ticket: int, bound_s: float) -> None:
        """Load the model unless it is loaded already; for a manager. Raises as `load` does."""
        if entry.usable_pool is not None:
            return
        await retire(self._context, entry, ticket, "broken")
        with await self.enter(entry, bound_s):
            await self.load(entry, ticket, bound_s)

    async def _build(self, entry: Entry, bound_s: float) -> Pool:
        candidate = entry.candidate
        if entry.inspection is None:
            entry.inspection = await candidate.inspect()
        await self._guard.check_memory(entry, bound_s)
        return await build(
            candidate,
            candidate.generation(entry.generation),
            candidate.spec.slots,
            self._context.phases,
        )

    def _note_cut(self, entry: Entry) -> None:
        if self._context.phases.stopping:
            self._context.cut(f"model {entry.id!r}: its load was cancelled")
