"""Loading a model: through the guard, privately, and published whole."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf

import trio

from paraudio.errors import InvalidRequestError, LoadError, LoadTimeoutError
from paraudio.lifecycle._abandoned import check_abandoned
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._guard import Guard
from paraudio.lifecycle._pool import Pool, build
from paraudio.lifecycle._retire import retire
from paraudio.spec import ModelSpec


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
        """Wait until a load may begin; it happens inside what this returns. See `Guard.enter`.

        The guard itself refuses whoever waits when the process drains.

        Raises:
            SlotStuckError: Former loads and unloads of the model never returned, too often.
        """
        check_abandoned(entry.candidate.isolation, entry.id)
        return await self._guard.enter(entry.id, bound_s)

    async def load(
        self,
        entry: Entry,
        ticket: int,
        bound_s: float,
        published: Callable[[Pool], None] = lambda _: None,
        wanted: trio.CancelScope | None = None,
    ) -> None:
        """Build the pool and publish it.

        A load that is told to stop, and ignores that for the hang timeout, is given up: a process
        is killed, and a thread counts as abandoned until it returns after all.

        Args:
            entry: The model.
            ticket: The ticket of the lease.
            bound_s: How long it may wait for memory, in seconds.
            published: Called in the step that publishes.
            wanted: To be cancelled when nobody wants the load any more.

        Raises:
            InvalidRequestError: The weights allow fewer sessions.
            LoadError: The load failed, of a wrong path or option for one, or nobody wanted it any
                more.
            LoadTimeoutError: It took longer than ``load_timeout_ms``.
            InsufficientMemoryError: Too little memory is free.
            ShuttingDownError: The process stopped meanwhile.
        """
        entry.begin_load(ticket)
        try:
            with self._context.phases.interruptible():
                pool = await self._build_wanted(entry, bound_s, wanted or trio.CancelScope())
        except Exception as error:
            told = _told(entry, error)
            self._note_cut(entry)
            entry.fail_load(ticket, told)
            if told is error:
                raise
            raise told from error
        entry.publish(ticket, pool)
        published(pool)

    async def ensure(self, entry: Entry, ticket: int, bound_s: float) -> None:
        """Load the model unless it is loaded already; for a manager. Raises as `load` does."""
        if entry.usable_pool is not None:
            return
        await retire(self._context, entry, ticket, "broken")
        with await self.enter(entry, bound_s):
            await self.load(entry, ticket, bound_s)

    async def _build_wanted(self, entry: Entry, bound_s: float, wanted: trio.CancelScope) -> Pool:
        with wanted:
            return await self._build(entry, bound_s)
        raise LoadError(f"model {entry.id!r} was not loaded: nobody waited for it any more")

    async def _build(self, entry: Entry, bound_s: float) -> Pool:
        candidate = entry.candidate
        if entry.inspection is None:
            entry.inspection = await candidate.inspect()
        await self._guard.check_memory(entry, bound_s)
        load, slots = candidate.generation(entry.generation), candidate.spec.slots
        with in_time(self._context, candidate.spec):
            return await build(candidate, load, slots, self._context.phases)

    def _note_cut(self, entry: Entry) -> None:
        if self._context.phases.stopping:
            self._context.cut(f"model {entry.id!r}: its load was cancelled")


def _told(entry: Entry, error: Exception) -> Exception:
    """An error of a load as everybody is told of it.

    What is found to be wrong only now is no refusal: whoever asks meets a model whose configuration
    stands, and which could not be loaded. Too many slots stay the 400 that says so, since nothing
    but a correction will help.
    """
    if isinstance(error, InvalidRequestError) and error.param != "slots":
        return LoadError(f"model {entry.id!r} could not be loaded: {error.message}")
    return error


@contextmanager
def in_time(context: Context, spec: ModelSpec) -> Iterator[None]:
    """Within the block, weights and sessions are built, and told to stop when that takes too long.

    Raises:
        LoadTimeoutError: ``load_timeout_ms`` is over.
    """
    own = spec.load_timeout_ms
    limit_ms = context.settings.load_timeout_ms if own is None else own
    with trio.move_on_after(limit_ms / 1000 if limit_ms else inf) as scope:
        yield
    if scope.cancelled_caught:
        raise LoadTimeoutError(
            f"model {spec.id!r} could not be loaded within {limit_ms} ms, which is load_timeout_ms"
        )
