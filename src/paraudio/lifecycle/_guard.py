"""The guard of cold loads: one at a time, and only where there is room.

Why this cannot deadlock
------------------------
A load holds a lease of its own model and then waits for the guard, and perhaps, inside the guard,
for room: for *another* model to become idle or to lose its pool. A cycle would need somebody whom
that wait depends on to wait for the guard in turn. Only models with a published pool count against
the limit, so look at who can hold such a model:

- A request that runs. It has its session and never needs the guard again.
- A request that was told "ready" and has not started yet: the same.
- A manager that unloads or evicts: it clears the residency in its first step, which is the room.
- A manager that replaces the configuration: its probe evicts nobody and takes no guard, so it gets
  to its retirement, which clears the residency. Only then does it want the guard, and by then its
  model is no resident that anybody waits for.
- A manager that finds its model loaded: it is done.
- A request of a model whose pool is broken: the pool is cleared before the guard is entered.

So every resident that keeps the guard's holder out gets to its end without the guard. What remains
is a caller that holds one model and asks for another, where the limit has no room for both; no rule
of ours can serve it. The wait is bounded by the bound of whoever drives the load, and ends when
that caller leaves.

The teardown of an evicted model is not waited for: a model that is retiring does not block an
incoming one. Only a load that is short of memory waits for teardowns that are under way, since
these give memory back; a teardown needs neither guard nor lease, so that wait ends too. It does not
wait for one that was abandoned: that may never end. What such a call holds is not free, and what
an abandoned load may still take is counted on top.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import Final, TypeAlias

import trio

from paraudio.admission import Claim, Lease, ModelQueue
from paraudio.errors import InsufficientMemoryError, ServerBusyError
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._residency import Resident, choose_victims
from paraudio.lifecycle._retire import tear_down

MEBIBYTE: Final = 2**20

FreeMemory: TypeAlias = Callable[[], int]
"""Tells the free bytes of the memory that models are loaded into; must not block."""


class Guard:
    """Serialises cold loads while a residency limit or a memory limit is set; else it is open.

    Args:
        context: The runtime's.
        entries: Every registered model.
        free_memory: Tells the free bytes.
    """

    def __init__(
        self,
        context: Context,
        entries: Callable[[], Iterable[Entry]],
        free_memory: FreeMemory,
    ) -> None:
        self._context = context
        self._entries = entries
        self._free_memory = free_memory
        settings = context.settings
        self._limit = settings.max_loaded_models
        self._headroom = settings.min_free_memory_mb * MEBIBYTE
        self._line = ModelQueue("cold loads", 1)

    def close(self) -> None:
        """Fail everybody who waits to load, and who will."""
        self._line.close(self._context.phases.refusal)

    async def enter(self, model: str, bound_s: float) -> AbstractContextManager[object]:
        """Wait until the load of a model may begin; the load happens inside what this returns.

        Cancelled, or failed: nothing is held. An eviction that was begun goes on.

        Args:
            model: The model that is to be loaded.
            bound_s: The longest wait, in seconds.

        Raises:
            ServerBusyError: There was no room within the bound.
            ShuttingDownError: The process takes no new work.
        """
        if not self._limit and not self._headroom:
            return nullcontext()
        deadline = trio.current_time() + bound_s
        lease = await self._stand_in_line(model, bound_s)
        try:
            await self._until(deadline, self._make_room, lambda: self._no_room(model, bound_s))
        except BaseException:
            lease.release()
            raise
        return lease

    async def check_memory(self, entry: Entry, bound_s: float) -> None:
        """Wait until enough memory is free, as long as a teardown may still give some back.

        Raises:
            InsufficientMemoryError: Too little is free, and nothing is about to be freed.
        """
        inspection = entry.inspection
        if not self._headroom or inspection is None:
            return
        need = inspection.memory * entry.candidate.loads

        def enough() -> bool:
            if need + self._headroom + self._reserved() <= self._free_memory():
                return True
            if not any(each.teardowns for each in self._entries()):
                raise self._too_little(entry.id, need)
            return False

        await self._until(
            trio.current_time() + bound_s, enough, lambda: self._too_little(entry.id, need)
        )

    async def _stand_in_line(self, model: str, bound_s: float) -> Lease:
        try:
            return await self._line.admit(Claim.REQUEST, bound_s=bound_s)
        except ServerBusyError:
            raise ServerBusyError(
                f"model {model!r} cannot be loaded now: another load was not over "
                f"within {bound_s * 1000:g} ms"
            ) from None

    async def _until(
        self, deadline: float, decide: Callable[[], bool], overdue: Callable[[], Exception]
    ) -> None:
        """Decide again after each change, until the decision is made or time is up."""
        with trio.CancelScope(deadline=deadline):
            while not decide():
                await self._context.changes.next()
            return
        raise overdue()

    def _make_room(self) -> bool:
        """Evict what has to go, if that makes room; whether there is room now."""
        self._context.phases.check()
        entries = {each.id: each for each in self._entries() if each.pool is not None}
        victims = choose_victims([_resident(each) for each in entries.values()], self._limit)
        if victims is None:
            return False
        for victim in victims:
            self._evict(entries[victim])
        return True

    def _evict(self, entry: Entry) -> None:
        """Clear the residency now, and let the model's own task destroy the pool."""
        lease = entry.queue.admit_nowait(Claim.MANAGER)
        if lease is None:
            raise RuntimeError(f"model {entry.id!r} was chosen as a victim and is not idle")
        pool = entry.clear(lease.ticket, "evict")
        if pool is None:
            raise RuntimeError(f"model {entry.id!r} was chosen as a victim and is not resident")

        def destroy(_: Lease) -> Awaitable[object]:
            return tear_down(self._context, entry, pool)

        entry.hand_over(lease, destroy)

    def _no_room(self, model: str, bound_s: float) -> ServerBusyError:
        waited = "" if bound_s == inf else f" within {bound_s * 1000:g} ms"
        return ServerBusyError(
            f"model {model!r} cannot be loaded now: {self._limit} models are loaded, "
            f"which is max_loaded_models, and none became idle{waited}"
        )

    def _reserved(self) -> int:
        """Bytes that loads may still take which were given up and go on."""
        return sum(each.abandoned.reserved for each in self._entries())

    def _too_little(self, model: str, need: int) -> InsufficientMemoryError:
        reserved = _mib(self._reserved())
        left = f", and abandoned loads may still take {reserved} MiB" if reserved else ""
        return InsufficientMemoryError(
            f"model {model!r} needs about {_mib(need)} MiB and min_free_memory_mb keeps "
            f"{_mib(self._headroom)} MiB free, but only {_mib(self._free_memory())} MiB are "
            f"free{left}"
        )


def _resident(entry: Entry) -> Resident:
    queue = entry.queue.snapshot()
    idle = not (queue.active_slots or queue.queued_requests or queue.queued_managers)
    return Resident(entry.id, entry.last_used, idle)


def _mib(size: int) -> int:
    return round(size / MEBIBYTE)
