"""Ending a pool: its residency at once, its sessions and weights as soon as the backend can."""

import logging

from paraudio.admission import Lease
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._pool import Pool, destroy
from paraudio.lifecycle._promise import Promise

log = logging.getLogger(__name__)


async def retire(context: Context, entry: Entry, ticket: int | None, why: str) -> None:
    """Clear the residency, then destroy sessions and weights; does nothing when there is none.

    Not interrupted by cancellation; once the process stops, the teardown has a grace.

    Args:
        context: The runtime's.
        entry: The model, which the caller holds so that nobody uses its pool.
        ticket: The ticket of that lease, or None when the process stops.
        why: ``unload``, ``reconfigure``, ``evict``, ``idle``, ``broken`` or ``shutdown``.
    """
    pool = entry.clear(ticket, why)
    if pool is not None:
        await tear_down(context, entry, pool)


async def tear_down(context: Context, entry: Entry, pool: Pool) -> None:
    """Destroy a pool that was cleared."""
    abandoned: tuple[int, ...] = ()
    try:
        with context.phases.shielded() as scope:
            abandoned = await _destroy(entry, pool)
    finally:
        entry.destroyed(pool)
    if scope.cancelled_caught:
        context.cut(f"model {entry.id!r}: its teardown did not end in time")
    for slot in abandoned:
        note = f"model {entry.id!r}: the call in slot {slot} ignored its stop and was abandoned"
        if context.phases.stopping:
            context.cut(note)
        else:
            log.warning(note)


async def _destroy(entry: Entry, pool: Pool) -> tuple[int, ...]:
    """Destroy it; what goes wrong is logged, and no reason not to do what comes next."""
    try:
        return await destroy(pool.model, pool.sessions)
    except Exception:
        log.exception("model %r: its teardown failed", entry.id)
        return ()


def hand_over_retirement(context: Context, entry: Entry, lease: Lease, why: str) -> Promise[None]:
    """Let the model's own task retire the pool under a manager's lease, whoever waits for it."""

    async def operation(held: Lease) -> None:
        await retire(context, entry, held.ticket, why)

    return entry.hand_over(lease, operation)
