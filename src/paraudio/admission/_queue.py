"""The queue of one model: a line that decides, and coroutines that wait in it.

Requests want one slot each, managers want all of them, and everybody is served in the order in
which he came. That is a lock with two modes, and the usual ways to build one go wrong in a few well
known places. This is how this one is built, and why.

**Two channels.** Trio's memory channels are queues that are exact under cancellation: an item is
either taken or still there. The *inbox* is one whose items are tickets; the order of entering is
the order of its items, and nothing else in the program, no clock, no task, no lock, has a say in
it. The *free slots* are the second one, whose items are the numbers of the slots that nobody holds:
who has taken a number owns the slot, and it cannot be owned twice, because it is not there to be
taken. A manager needs all of them. It takes none before all are there: a manager that held two of
four slots and waited for the rest would keep work out that could run, and two managers that did so
would wait for each other for ever.

**Decide synchronously, wait asynchronously.** Who is granted is decided by one plain function,
``settle``, which everything that changes the line calls before it returns: entering, releasing,
timing out, being cancelled, giving up, freeing a stuck slot. It runs between two checkpoints, so
nobody ever sees a head that could be granted and is not. The coroutines in this module only sleep
until the decision is made for them. The line needs no event loop, and its tests run it without one.

**What goes wrong in the usual fair locks.**

*The head that leaves strands its followers.* A manager heads the queue while a request runs; behind
it stand requests that would fit beside the running one. The manager times out. Most locks decide
only when something is released, so the followers stay where they are, with free slots before their
eyes, until the running request happens to end. Here leaving is a change like any other.

*The newcomer passes the one who was woken.* A release wakes the first waiter, and before that task
runs, another one finds the slot free and takes it. Here the release assigns the slot to the ticket,
in the same step; when the waiter wakes is of no importance.

*The cancelled waiter swallows the wake-up.* A slot is assigned to a waiter which, before it runs,
is cancelled and goes away with it. Here ``wait`` looks once more when it wakes: it returns a lease,
or it raises and has released what it was granted, and the slot goes to the next in line.

*The waiter that was cancelled but is still counted.* If a cancelled task leaves the queue when it
runs next, rather than when it is cancelled, a release in between serves a ghost. Here the line is
told from inside the cancellation itself (``give_up`` below runs in the canceller's step), which is
why this module talks to Trio's scheduler directly instead of waiting on an event per ticket.

**The alternatives.** ``trio.Semaphore`` and ``CapacityLimiter`` have no second mode, and acquiring
all tokens one by one is the partial collection from above. A ``trio.Condition`` wakes everybody to
look again, which costs the square of the number of waiters. A dispatcher task that reads the inbox
puts a scheduler tick between every decision and its cause, and with it all the ghosts. A dict of
waiting tickets would serve as well as the inbox and its tombstones; the channel was taken because
its order is the only thing that can be done with it.
"""

from collections.abc import Callable
from functools import partial
from math import inf

import trio

from paraudio.admission._line import Line, QueueSnapshot
from paraudio.admission._rules import Claim
from paraudio.admission._ticket import Lease, Ticket
from paraudio.errors import ParaudioError
from paraudio.journal import Recorder, no_record


class ModelQueue:
    """A model's FIFO with barriers: requests take one slot, managers take all.

    Args:
        model: The model's ID, for errors and the journal.
        slots: How many slots there are, 1..16.
        record: Takes each transition.
        clock: Seconds that never run backwards. Tickets that are *waited* for need Trio's own
            clock, which counts their bounds; any other serves to drive the line without a loop.

    Raises:
        ValueError: ``slots`` is out of range.
    """

    def __init__(
        self,
        model: str,
        slots: int,
        *,
        record: Recorder = no_record,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._line = Line(model, slots, record=record, clock=clock)

    def enter(
        self,
        claim: Claim,
        *,
        bound_s: float = inf,
        limit: int = 0,
        request: str | None = None,
    ) -> Ticket:
        """Take the last place in the line, now; perhaps it is granted at once.

        Who enters owes the ticket a `wait` or a `leave`: nobody else takes it out of the line.

        Args:
            claim: One slot or all.
            bound_s: The longest wait from now on, in seconds; ``inf`` for none.
            limit: How many tickets may wait already; 0 for any number.
            request: The ID of the request that it is for.

        Raises:
            ServerBusyError: Everybody who holds the model has held it for longer than the bound.
            SlotStuckError: The same, for a manager, and one of them is stuck.
            QueueFullError: ``limit`` tickets wait already.
            ParaudioError: Whatever `close` was given.
            ValueError: ``bound_s`` is not positive.
        """
        return self._line.enter(claim, bound_s, limit, request)

    async def wait(self, ticket: Ticket) -> Lease:
        """Wait until the ticket is granted; whoever gets the lease releases it.

        Always a checkpoint. Either it returns a lease, or it raises and nothing is held or queued
        any more: a waiting ticket leaves the line in the very step that cancels it, and what was
        granted before the cancellation is released before this raises.

        Raises:
            ServerBusyError: The bound, counted from `enter`, has passed.
            SlotStuckError: The same, for a manager that a stuck slot kept out; or, for one without
                a bound, nothing but abandoned slots keep it out.
            ParaudioError: Whatever `close` was given.
            RuntimeError: Somebody else waits for the ticket, or has taken its lease.
        """
        if ticket.wake is not None:
            raise RuntimeError(f"another task waits for {ticket!r}")
        try:
            if ticket.waiting:
                await self._park(ticket)
                await trio.lowlevel.checkpoint_if_cancelled()
            else:
                await trio.lowlevel.checkpoint()
        except BaseException:
            self.leave(ticket)
            raise
        return self._line.collect(ticket)

    async def admit(
        self,
        claim: Claim,
        *,
        bound_s: float = inf,
        limit: int = 0,
        request: str | None = None,
    ) -> Lease:
        """`enter` and `wait` in one; a caller that is cancelled already takes no place."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self.wait(self._line.enter(claim, bound_s, limit, request))

    def admit_nowait(self, claim: Claim, *, request: str | None = None) -> Lease | None:
        """Take a lease if nobody waits and it can be had now; else, or when closed, None."""
        return self._line.try_enter(claim, request)

    def leave(self, ticket: Ticket) -> None:
        """Give up a ticket; whoever can be granted because of that is granted in the same step.

        A lease that was granted but that no `wait` returned yet is released. Does nothing to a
        ticket that has left, or whose lease somebody has.
        """
        self._line.leave(ticket)

    def resize(self, lease: Lease, slots: int) -> None:
        """Change the number of slots; the change takes effect when the lease is released.

        Raises:
            ValueError: ``lease`` does not hold this model exclusively, or ``slots`` is not 1..16.
        """
        self._line.resize(lease, slots)

    def close(self, error: Callable[[], ParaudioError]) -> None:
        """Fail every waiting ticket with ``error()``, and every later `enter`; leases go on."""
        self._line.close(error)

    def snapshot(self) -> QueueSnapshot:
        """One consistent look at slots and line."""
        return self._line.snapshot()

    def position(self, ticket: Ticket) -> int:
        """How many tickets stand before this one; 0 is the head.

        Raises:
            ValueError: The ticket does not wait.
        """
        return self._line.position(ticket)

    def waiting(self) -> list[Ticket]:
        """Every waiting ticket, in order: the first is the head."""
        return self._line.waiting()

    def held(self) -> list[Lease]:
        """Every lease whose slots are not free, in the order of the grants."""
        return self._line.held()

    async def _park(self, ticket: Ticket) -> None:
        """Sleep until the ticket is granted or left; at its bound it leaves."""
        with trio.CancelScope(deadline=ticket.deadline) as bound:

            def give_up(_: object) -> trio.lowlevel.Abort:
                ticket.wake = None  # Trio wakes this task itself
                if bound.cancel_called:
                    self._line.expire(ticket)
                else:
                    self._line.leave(ticket)
                return trio.lowlevel.Abort.SUCCEEDED

            ticket.wake = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(give_up)
