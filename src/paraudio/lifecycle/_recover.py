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
from paraudio.lifecycle._load import in_time
from paraudio.lifecycle._pool import Pool
from paraudio.lifecycle._retire import hand_over_retirement

log = logging.getLogger(__name__)


class Recovery:
    """Takes sessions back and makes them usable before their slot is free again.

    Mostly that is nothing, or a short reset, and happens in the scope of the request. What takes
    longer than the hang timeout, as the load behind a death may, or has to wait for a call that
    ignores its stop, is handed to the model's own task together with the lease, so that the request
    ends and only its slot stays out.

    A session that can be neither reset nor replaced, or not within the time that a load may take,
    breaks its pool. Nobody new takes a session of a broken pool: who is granted a slot waits, as
    for any load. When the last session in use has come back, the pool is retired: under the lease
    of the first waiter, who then loads anew, or, when nobody waits, under a manager's lease of the
    model's own.

    Args:
        context: The runtime's.
        entry: The model.
        initializer: The model's.
    """

    # Why a broken pool strands nobody: every way in which its last user can leave goes through
    # `_see_to_pool`. There, waiters get a driver. Without waiters, the lease of a manager is
    # tried: it is refused only while somebody holds or wants the model. A request that does so asks
    # for a session, or leaves and comes here; a manager finds the pool unusable and retires it.
    # Once the model's task has a session, its user counts as gone: a slot that is stuck for ever
    # keeps managers out, but not the other slots from a new pool.

    def __init__(self, context: Context, entry: Entry, initializer: Initializer) -> None:
        self._context = context
        self._entry = entry
        self._initializer = initializer
        self._stuck: dict[Lease, SessionHandle] = {}

    async def give_back(self, pool: Pool, lease: Lease) -> None:
        """End the use of a session, and the lease with it, at once or later.

        Cancelled: takes no longer than the hang timeout for the reset, and again for a reset that
        ignores its stop; the lease ends all the same.
        """
        session = pool.sessions[lease.slot]
        at_hand = not session.busy and not session.lost
        usable = at_hand and await self._restored(pool, session)
        if session.busy:
            lease.mark_stuck()
            self._stuck[lease] = session
        pool.put(lease.slot)
        if usable or not self._entry.submit(partial(self._recover, pool, lease, session)):
            lease.release()
        self._see_to_pool()

    def vacate(self, lease: Lease) -> None:
        """End a lease that used no session."""
        lease.release()
        self._see_to_pool()

    def settle(self) -> None:
        """Free the stuck slots whose calls were ended after all; for a process that stops."""
        for lease, session in tuple(self._stuck.items()):
            if not session.busy:
                self._free(lease)

    async def _restored(self, pool: Pool, session: SessionHandle) -> bool:
        """Restore a session, if that can be done within the hang timeout.

        Returns:
            Whether nothing is left to do: it is usable, or found broken and its pool with it.
        """
        deadline = trio.current_time() + self._context.hang_s
        scope = trio.CancelScope(shield=True, deadline=deadline)
        try:
            with scope, self._context.phases.interruptible():
                await session.restore()
        except ShuttingDownError:
            return False
        except Exception as error:
            self._break(pool, error)
        return not scope.cancelled_caught

    async def _recover(self, pool: Pool, lease: Lease, session: SessionHandle) -> None:
        """Wait for a call that ignores its stop, or end it; then restore. The model's own task."""
        try:
            with self._context.phases.interruptible():
                if session.busy and not await session.kill():
                    lease.mark_abandoned()
                    await session.wait_idle()
                if pool is self._entry.pool:
                    # A worker that is to come back loads anew, and may hang in that as any load.
                    with in_time(self._context, self._entry.spec):
                        await session.restore()
        except ShuttingDownError:
            lease.release()  # what is stuck stays out of use
            return
        except Exception as error:
            if pool is self._entry.pool:  # else it was closed with its pool meanwhile
                self._break(pool, error)
        self._free(lease)
        lease.release()
        self._see_to_pool()

    def _break(self, pool: Pool, error: Exception) -> None:
        pool.broken = True
        log.warning(
            "model %r: a session could not be restored, so the model is loaded anew: %s",
            self._entry.id,
            error,
        )

    def _free(self, lease: Lease) -> None:
        self._stuck.pop(lease, None)
        lease.mark_freed()

    def _see_to_pool(self) -> None:
        """Let waiters have a broken pool that nobody uses any more; without them, retire it."""
        self._initializer.advance()
        pool = self._entry.pool
        if pool is None or not pool.broken or pool.in_use or self._context.phases.stopping:
            return
        lease = self._entry.queue.admit_nowait(Claim.MANAGER)
        if lease is not None:
            hand_over_retirement(self._context, self._entry, lease, "broken")
