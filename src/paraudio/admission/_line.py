"""The line of one model: all of admission that decides, without one ``await``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NoReturn

from paraudio.admission._inbox import Inbox
from paraudio.admission._notes import WhyLeft, WhyRefused, notes_for
from paraudio.admission._rules import Claim, fails_fast, grantable, is_full
from paraudio.admission._slots import FreeSlots, check_slots
from paraudio.admission._ticket import Lease, Ticket
from paraudio.errors import ParaudioError, QueueFullError, ServerBusyError, SlotStuckError
from paraudio.journal import Recorder


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One consistent look at a line.

    Attributes:
        slots: Slots of the model.
        active_slots: Slots that a lease holds, the stuck ones among them.
        queued_requests: Requests that wait.
        queued_managers: Managers that wait.
        stuck_slots: Slots whose backend call ignores its stop.
        managed: Whether a manager holds the model.
    """

    slots: int
    active_slots: int
    queued_requests: int
    queued_managers: int
    stuck_slots: int
    managed: bool


class Line:
    """Who holds what, who waits for it, and the one decision: `settle`.

    Every method runs from start to end between two checkpoints and leaves the line settled: no
    head that could be granted is left waiting.
    """

    # Invariants: a manager's lease is the only lease; each slot is free or in exactly one lease;
    # settled: the head, if any, is not grantable, nor waits without a bound for abandoned slots.

    def __init__(
        self, model: str, slots: int, *, record: Recorder, clock: Callable[[], float]
    ) -> None:
        self.model = model
        self._notes = notes_for(model, record)
        self._clock = clock
        self._inbox = Inbox()
        self._slots = FreeSlots(slots)
        self._held: dict[int, Lease] = {}
        self._entered = 0
        self._size = slots  # the number of slots from the next exclusive release on
        self._closed: Callable[[], ParaudioError] | None = None

    def enter(self, claim: Claim, bound_s: float, limit: int, request: str | None) -> Ticket:
        """Take the place at the end of the line, and be granted at once if that can be."""
        if not bound_s > 0:
            raise ValueError(f"bound_s must be positive (inf for no bound), not {bound_s}")
        now = self._clock()
        if self._closed is not None:
            self._refuse("shutting_down", self._closed())
        if self._must_wait(claim):
            if fails_fast(bound_s, now, [lease.held_since for lease in self._held.values()]):
                self._refuse_hopeless(claim, bound_s)
            if is_full(limit, len(self._inbox)):
                self._refuse("queue_full", self._full(limit))
        return self._take_place(claim, bound_s, request)

    def try_enter(self, claim: Claim, request: str | None) -> Lease | None:
        """Be granted at once, or change nothing and return None."""
        if self._closed is not None or self._must_wait(claim):
            return None
        return self.collect(self._take_place(claim, inf, request))

    def collect(self, ticket: Ticket) -> Lease:
        """Hand out the lease of a granted ticket, once; raise why a ticket that left did."""
        if ticket.failure is not None:
            raise ticket.failure()
        if ticket.lease is None or ticket.collected:
            raise RuntimeError(f"{ticket!r} has no lease to collect")
        ticket.collected = True
        return ticket.lease

    def leave(self, ticket: Ticket) -> None:
        """Give the place up, or the lease that nobody has collected yet; else do nothing."""
        if ticket.waiting:
            self._strike(ticket, "cancelled", _given_up)
            self.settle()
        elif ticket.lease is not None and not ticket.collected:
            ticket.lease.release()

    def expire(self, ticket: Ticket) -> None:
        """Take out a waiting ticket that reached its bound; what keeps it out now is the error."""
        self._strike(ticket, "timeout", self._overdue(ticket))
        self.settle()

    def settle(self) -> None:
        """Grant heads for as long as the head can be granted.

        A manager without a bound that nothing but abandoned slots keep out leaves instead: it would
        wait for a call that may never end, and everybody behind it with it.

        Whatever changes the line ends with this call: entering, releasing, leaving by timeout or
        cancellation, a stuck slot that is abandoned or freed, resizing.
        """
        inbox, slots = self._inbox, self._slots
        while (head := inbox.head) is not None:
            if grantable(head.claim, slots.free, slots.total):
                self._grant(head)
            elif self._waits_for_the_abandoned(head):
                error = partial(
                    SlotStuckError, f"{self._stuck_message()}, and nothing else is held"
                )
                self._strike(head, "slot_stuck", error)
            else:
                return

    def take_back(self, lease: Lease) -> None:
        """The lease ended: return its slots, in the new number if its manager resized the model."""
        del self._held[lease.ticket]
        self._notes.released(lease)
        if lease.claim is Claim.MANAGER:
            self._slots.put_all(self._size)
        else:
            self._slots.put(lease.slot)
        self.settle()

    def note_stuck(self, lease: Lease) -> None:
        """Record that a backend call ignores its stop; its slots stay held."""
        self._notes.stuck(lease)

    def note_abandoned(self) -> None:
        """A stuck call cannot be ended: whoever waits for it without a bound leaves."""
        self.settle()

    def note_freed(self, lease: Lease) -> None:
        """Record that a stuck call ended; the lease decides when the slots come back."""
        self._notes.freed(lease)

    def resize(self, lease: Lease, slots: int) -> None:
        """Change the number of slots when the exclusive lease is released."""
        check_slots(slots)
        mine = self._held.get(lease.ticket) is lease and not lease.released
        if lease.claim is not Claim.MANAGER or not mine:
            raise ValueError(f"{lease!r} does not hold {self.model!r} exclusively")
        self._notes.resized(lease, slots)
        self._size = slots

    def close(self, error: Callable[[], ParaudioError]) -> None:
        """Fail every waiting ticket and every later one; leases go on."""
        self._closed = error
        while (head := self._inbox.head) is not None:
            self._strike(head, "shutting_down", error)

    def snapshot(self) -> QueueSnapshot:
        """One consistent look."""
        return QueueSnapshot(
            slots=self._slots.total,
            active_slots=self._slots.total - self._slots.free,
            queued_requests=self._inbox.requests,
            queued_managers=self._inbox.managers,
            stuck_slots=sum(len(each.slots) for each in self._held.values() if each.stuck),
            managed=any(each.claim is Claim.MANAGER for each in self._held.values()),
        )

    def position(self, ticket: Ticket) -> int:
        """How many tickets stand before this one."""
        if not ticket.waiting:
            raise ValueError(f"{ticket!r} does not stand in the line of {self.model!r}")
        return self._inbox.position(ticket)

    def waiting(self) -> list[Ticket]:
        """Every waiting ticket, in order."""
        return self._inbox.waiting()

    def held(self) -> list[Lease]:
        """Every lease whose slots are not free, in the order of the grants."""
        return list(self._held.values())

    def _must_wait(self, claim: Claim) -> bool:
        """Whether a newcomer cannot be granted at once."""
        return self._inbox.head is not None or not grantable(
            claim, self._slots.free, self._slots.total
        )

    def _take_place(self, claim: Claim, bound_s: float, request: str | None) -> Ticket:
        """Stand at the end of the line, and settle it."""
        self._entered += 1
        ticket = Ticket(self._entered, claim, request, bound_s, inf)
        self._notes.queued(ticket)
        # The bound counts from behind the note: the system may stop this thread before it, and
        # nobody leaves sooner than his bound after what the journal says.
        ticket.deadline = self._clock() + bound_s
        self._inbox.put(ticket)
        self.settle()
        return ticket

    def _grant(self, head: Ticket) -> None:
        """Assign ownership to the head; only then does its waiter wake."""
        manager = head.claim is Claim.MANAGER
        slots = self._slots.take_all() if manager else (self._slots.take(),)
        lease = head.lease = Lease(self, head, slots, self._clock())
        self._held[head.number] = lease
        self._inbox.remove(head)
        self._notes.granted(lease)
        _wake(head)

    def _strike(self, ticket: Ticket, why: WhyLeft, failure: Callable[[], Exception]) -> None:
        """Take a waiting ticket out of the line without granting it."""
        ticket.failure = failure
        self._inbox.remove(ticket)
        self._notes.left(ticket, why)
        _wake(ticket)

    def _refuse(self, why: WhyRefused, error: ParaudioError) -> NoReturn:
        """Turn a newcomer away."""
        self._notes.refused(why)
        raise error

    def _refuse_hopeless(self, claim: Claim, bound_s: float) -> NoReturn:
        """Turn a newcomer away whose whole wait would be shorter than what it waits for."""
        bound = f"longer than the bound of {bound_s * 1000:g} ms"
        if self._kept_out_by_stuck(claim):
            self._refuse(
                "slot_stuck", SlotStuckError(f"{self._stuck_message()}, and all have been {bound}")
            )
        self._refuse(
            "server_busy",
            ServerBusyError(f"model {self.model!r} is busy: whoever holds it has done so {bound}"),
        )

    def _overdue(self, ticket: Ticket) -> Callable[[], ParaudioError]:
        """What makes the error of a ticket that reaches its bound now."""
        waited = f"waited {ticket.bound_s * 1000:g} ms"
        if self._kept_out_by_stuck(ticket.claim):
            return partial(SlotStuckError, f"{self._stuck_message()}: {waited}")
        wish = "all its slots" if ticket.claim is Claim.MANAGER else "a slot"
        return partial(ServerBusyError, f"model {self.model!r} is busy: {waited} for {wish}")

    def _full(self, limit: int) -> QueueFullError:
        """The error of a newcomer to a full queue."""
        return QueueFullError(
            f"the queue of model {self.model!r} is full: "
            f"{len(self._inbox)} wait, and max_queued_requests is {limit}"
        )

    def _kept_out_by_stuck(self, claim: Claim) -> bool:
        """Whether a stuck slot alone is reason enough that the claim cannot be granted."""
        return claim is Claim.MANAGER and any(lease.stuck for lease in self._held.values())

    def _waits_for_the_abandoned(self, head: Ticket) -> bool:
        """Whether a head without a bound waits for nothing but abandoned slots."""
        return (
            head.claim is Claim.MANAGER
            and head.bound_s == inf
            and all(lease.abandoned for lease in self._held.values())
        )

    def _stuck_message(self) -> str:
        """Which slots are stuck, as the beginning of a sentence."""
        stuck = [slot for each in self._held.values() if each.stuck for slot in each.slots]
        return f"model {self.model!r} cannot be managed while its slots {stuck} are stuck"


def _wake(ticket: Ticket) -> None:
    """Wake whoever waits for the ticket; the outcome is in the ticket already."""
    if ticket.wake is not None:
        ticket.wake()
        ticket.wake = None


def _given_up() -> RuntimeError:
    """The error of whoever still waits for a ticket that somebody else gave up."""
    return RuntimeError("the ticket was given up while a task waited for it")
