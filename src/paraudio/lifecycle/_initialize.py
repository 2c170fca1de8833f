"""Shared initialization: many requests may wait for one load, and one of them drives it."""

from bisect import insort
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import trio

from paraudio.admission import Claim, Lease
from paraudio.errors import LoadTimeoutError
from paraudio.lifecycle._context import Context
from paraudio.lifecycle._entry import Entry
from paraudio.lifecycle._load import Loader
from paraudio.lifecycle._pool import Pool, Seat
from paraudio.lifecycle._promise import Promise
from paraudio.lifecycle._retire import retire


class Waiter:
    """An admitted request that waits until its model is loaded.

    Attributes:
        lease: The slot that it holds meanwhile.
        bound_s: How long it would wait for room, in seconds, if it drove the load.
        seat: Kept in the step that publishes the pool.
        left: Whether its client is gone and the model's task ends its lease.
    """

    __slots__ = ("bound_s", "lease", "left", "seat")

    def __init__(self, lease: Lease, bound_s: float) -> None:
        self.lease = lease
        self.bound_s = bound_s
        self.seat: Promise[Seat] = Promise()
        self.left = False


class Initializer:
    """The loads of one model that requests drive, one at a time.

    The waiter that has waited longest drives. When the load succeeds, every waiter has its session
    in that very step; when it fails, the driver gets the error and the next waiter drives the next
    attempt, in that very step too. The load runs in the model's own task, so a driver may leave: a
    load that has begun goes on to its end, and the driver's lease with it; one that still waits for
    room is given up, since nobody needs another model evicted for it. A load that nobody waits for
    is told to stop when a manager is next in line, who would only throw away what it builds. One
    that takes too long is told to stop whoever waits, and everybody who waits is told so: the next
    attempt would be no faster.

    Args:
        context: The runtime's.
        loader: The runtime's.
        entry: The model.
    """

    # Invariants: a waiter is in ``_waiting``, or is the driver, or its promise is settled;
    # with waiters there is a driver, unless a broken pool is still in use: then its last user
    # calls `advance`.

    def __init__(self, context: Context, loader: Loader, entry: Entry) -> None:
        self._context = context
        self._loader = loader
        self._entry = entry
        self._waiting: list[Waiter] = []
        self._driver: Waiter | None = None
        self._begun = False
        self._room: trio.CancelScope | None = None
        self._load: trio.CancelScope | None = None

    def join(self, lease: Lease, bound_s: float) -> Waiter:
        """Wait for the model under a lease; starts a load when none is under way."""
        waiter = Waiter(lease, bound_s)
        insort(self._waiting, waiter, key=_ticket)
        self._step_back()
        self.advance()
        return waiter

    def leave(self, waiter: Waiter) -> bool:
        """Stop waiting.

        Returns:
            Whether the model's own task has taken the lease over: it does so for a driver. Else
            the caller still has the lease, and the seat if the promise was kept.
        """
        if waiter is self._driver:
            waiter.left = True
            if self._room is not None:
                self._room.cancel()
            self._reconsider()
            return True
        if not waiter.seat.settled:
            self._waiting.remove(waiter)
        return False

    def advance(self) -> None:
        """Let the next waiter drive an attempt, if one is needed and none is under way.

        To be called whenever an attempt ends or a session of a broken pool comes back.
        """
        pool = self._entry.pool
        if self._driver is not None or not self._waiting or (pool is not None and pool.in_use):
            return
        self._driver = self._waiting.pop(0)
        if not self._entry.submit(self._attempt):
            self._refuse_all(self._driver)

    def _step_back(self) -> None:
        """Let the longest waiter drive: those of one grant join in any order, before it begins."""
        driver, first = self._driver, self._waiting[0]
        if driver is None or driver.left or self._begun or _ticket(driver) < _ticket(first):
            return
        # He was the longest waiter until now, so that the others stay in order.
        self._waiting[0], self._driver = driver, first

    def close(self) -> None:
        """Fail everybody who still waits; for a process that stops."""
        self._refuse_all()

    async def _attempt(self) -> None:
        """One attempt under the driver's lease, run by the model's own task."""
        driver = self._driver
        if driver is None:
            raise RuntimeError("an attempt without a driver")
        self._begun = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_line)
            await self._settle(driver)
            nursery.cancel_scope.cancel("the attempt has ended")

    async def _settle(self, driver: Waiter) -> None:
        """Make the attempt, tell whom it concerns, and let the next one begin in the same step."""
        try:
            await self._drive(driver)
        except LoadTimeoutError as error:
            self._fail_all(partial(LoadTimeoutError, error.message), driver)
        except Exception as error:
            driver.seat.fail(error)
        self._driver = self._room = self._load = None
        self._begun = False
        if driver.left:
            driver.lease.release()
        self.advance()

    async def _watch_line(self) -> None:
        """Look again at whether the load is wanted, whenever somebody may have come or gone."""
        while True:
            await self._context.changes.next()
            self._reconsider()

    def _reconsider(self) -> None:
        """Tell a load to stop that nobody waits for, and whose pool a manager would retire."""
        if self._load is None or self._driver is None or not self._driver.left or self._waiting:
            return
        head = next(iter(self._entry.queue.waiting()), None)
        if head is not None and head.claim is Claim.MANAGER:
            self._load.cancel("nobody wants the load any more")

    async def _drive(self, driver: Waiter) -> None:
        """Clear a broken pool away, wait for room, load; nothing of it if the driver leaves."""
        ticket = driver.lease.ticket
        await retire(self._context, self._entry, ticket, "broken")
        guard: AbstractContextManager[object] | None = None
        with trio.CancelScope() as self._room:
            if not driver.left:
                guard = await self._loader.enter(self._entry, driver.bound_s)
        self._room = None
        if guard is None:
            return
        with guard:
            if not driver.left:
                self._load = trio.CancelScope()
                await self._loader.load(
                    self._entry,
                    ticket,
                    driver.bound_s,
                    lambda pool: self._share(driver, pool),
                    self._load,
                )

    def _share(self, driver: Waiter, pool: Pool) -> None:
        """Give everybody who waits the session of their slot, in the step that publishes it."""
        waiters = [driver, *self._waiting] if not driver.left else list(self._waiting)
        self._waiting.clear()
        for waiter in waiters:
            waiter.seat.keep(pool.take(waiter.lease.slot))

    def _refuse_all(self, *others: Waiter) -> None:
        self._driver = None
        self._fail_all(self._context.phases.refusal, *others)

    def _fail_all(self, error: Callable[[], Exception], *others: Waiter) -> None:
        for waiter in (*others, *self._waiting):
            waiter.seat.fail(error())
        self._waiting.clear()


def _ticket(waiter: Waiter) -> int:
    return waiter.lease.ticket
