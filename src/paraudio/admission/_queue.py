"""The queue of one model: the line, and the coroutines that wait in it."""

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
            SlotStuckError: The same, for a manager that a stuck slot kept out.
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
