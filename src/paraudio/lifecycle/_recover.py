"""How a session comes back when its user leaves: at once, or through the model's own task."""

import logging
from functools import partial

import trio

from paraudio.admission import Claim, Lease
from paraudio.engines.isolation import SessionHandle
from paraudio.errors import ShuttingDownError
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._initialize import Initializer
from paraudio.lifecycle._pool import Pool
from paraudio.lifecycle._retire import hand_over_retirement

log = logging.getLogger(__name__)


class Recovery:
    """Takes sessions back and makes them usable before their slot is free again.

    Mostly that is nothing, or a short reset, and happens in the scope of the request. What takes
    longer than the hang timeout, or has to wait for a call that ignores its stop, is handed to the
    model's own task together with the lease, so that the request ends and only its slot stays out.

    A session that can be neither reset nor replaced breaks its pool. Nobody new takes a session of
    a broken pool: who is granted a slot waits, as for any load. When the last session in use has
    come back, the pool is retired: under the lease of the first waiter, who then loads anew, or,
    when nobody waits, under a manager's lease of the model's own.

    Args:
        context: The runtime's.
        entry: The model.
        initializer: The model's.
    """

    # Why a broken pool strands nobody: every way in which its last user can leave goes through
    # `_end`. There, waiters get a driver. Without waiters, the lease of a manager is tried: it is
    # refused only while somebody holds or wants the model. A request that does so asks for a
    # session, or leaves and comes here; a manager finds the pool unusable and retires it.

    def __init__(self, context: Context, entry: Entry, initializer: Initializer) -> None:
        self._context = context
        self._entry = entry
        self._initializer = initializer
        self._stuck: dict[int, Lease] = {}

    async def give_back(self, pool: Pool, lease: Lease) -> None:
        """End the use of a session, and the lease with it, at once or later.

        Cancelled: takes at most the hang timeout, and ends the lease all the same.
        """
        session = pool.sessions[lease.slot]
        if not self._context.phases.stopping and not session.busy:
            await self._restore(pool, lease, session)
        if lease.released:
            return
        if session.busy:
            lease.mark_stuck()
            self._stuck[lease.slot] = lease
        if not self._entry.submit(partial(self._recover, pool, lease, session)):
            self._end(pool, lease)

    def vacate(self, lease: Lease) -> None:
        """End a lease that used no session."""
        lease.release()
        self._mend()

    def settle(self, abandoned: tuple[int, ...]) -> None:
        """Free the stuck slots whose sessions are gone after all; for a process that stops."""
        for slot, lease in tuple(self._stuck.items()):
            if slot not in abandoned:
                self._free(lease)

    async def _restore(self, pool: Pool, lease: Lease, session: SessionHandle) -> None:
        """Restore a session within the hang timeout and end its lease; else leave both alone."""
        deadline = trio.current_time() + self._context.hang_s
        scope = trio.CancelScope(shield=True, deadline=deadline)
        try:
            with scope, self._context.phases.interruptible():
                await session.restore()
        except ShuttingDownError:
            return
        except Exception as error:
            self._break(pool, error)
        if not scope.cancelled_caught:
            self._end(pool, lease)

    async def _recover(self, pool: Pool, lease: Lease, session: SessionHandle) -> None:
        """Wait for a call that ignores its stop, or end it; then restore. The model's own task."""
        try:
            with self._context.phases.interruptible():
                if session.busy and not await session.kill():
                    await session.wait_idle()
                await session.restore()
        except ShuttingDownError:
            pass  # a stuck slot stays out of use
        except Exception as error:
            self._break(pool, error)
            self._free(lease)
        else:
            self._free(lease)
        self._end(pool, lease)

    def _break(self, pool: Pool, error: Exception) -> None:
        pool.broken = True
        log.warning(
            "model %r: a session could not be restored, so the model is loaded anew: %s",
            self._entry.id,
            error,
        )

    def _free(self, lease: Lease) -> None:
        self._stuck.pop(lease.slot, None)
        lease.mark_freed()

    def _end(self, pool: Pool, lease: Lease) -> None:
        """The session is back: free the slot, and see to a broken pool, in one step."""
        pool.put(lease.slot)
        lease.release()
        self._initializer.advance()
        self._mend()

    def _mend(self) -> None:
        """Retire a broken pool that nobody uses or wants."""
        pool = self._entry.pool
        if pool is None or not pool.broken or pool.in_use or self._context.phases.stopping:
            return
        lease = self._entry.queue.admit_nowait(Claim.MANAGER)
        if lease is not None:
            hand_over_retirement(self._context, self._entry, lease, "broken")
