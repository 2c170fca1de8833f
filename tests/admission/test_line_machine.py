"""The line against a reference: lists and loops, written from the rules and nothing else."""

from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
)

from paraudio.admission import Claim, Lease, Ticket
from paraudio.admission._line import Line
from paraudio.errors import (
    ParaudioError,
    QueueFullError,
    ServerBusyError,
    ShuttingDownError,
    SlotStuckError,
)
from paraudio.journal import Kind
from paraudio.spec import Json

Story = list[tuple[str, object]]


@dataclass
class Member:
    """Somebody in the reference: waiting, or holding."""

    number: int
    manager: bool
    deadline: float
    since: float = 0.0
    stuck: bool = False
    abandoned: bool = False
    released: bool = False


@dataclass
class Reference:
    """Behaviour 2 word by word: a list of who waits, a list of who holds."""

    slots: int
    waiting: list[Member] = field(default_factory=list)
    holding: list[Member] = field(default_factory=list)
    entered: int = 0
    resize_to: int | None = None
    closed: bool = False
    story: Story = field(default_factory=list)

    def occupied(self) -> int:
        return sum(self.slots if each.manager else 1 for each in self.holding)

    def can_hold(self, *, manager: bool) -> bool:
        return not self.holding if manager else self.occupied() < self.slots

    def enter(self, now: float, *, manager: bool, bound_s: float, limit: int) -> str:
        if self.closed:
            return self.refuse("shutting_down")
        if self.waiting or not self.can_hold(manager=manager):
            if not [each for each in self.holding if now - each.since <= bound_s]:
                stuck = manager and [each for each in self.holding if each.stuck]
                return self.refuse("slot_stuck" if stuck else "server_busy")
            if limit and len(self.waiting) >= limit:
                return self.refuse("queue_full")
        self.entered += 1
        self.waiting.append(Member(self.entered, manager, now + bound_s))
        self.story.append(("queued", self.entered))
        self.grant_heads(now)
        return "entered"

    def refuse(self, why: str) -> str:
        self.story.append(("refused", why))
        return why

    def grant_heads(self, now: float) -> None:
        while self.waiting and self.can_hold(manager=self.waiting[0].manager):
            member = self.waiting.pop(0)
            member.since = now
            self.holding.append(member)
            self.story.append(("granted", member.number))
        head = self.waiting[0] if self.waiting else None
        hopeless = all(each.abandoned for each in self.holding)
        if head is not None and head.manager and head.deadline == inf and hopeless:
            self.leave(head.number, "slot_stuck", now)

    def abandon(self, number: int, now: float) -> None:
        self.holder(number).abandoned = True
        self.grant_heads(now)

    def leave(self, number: int, why: str, now: float) -> None:
        if [each for each in self.waiting if each.number == number]:
            self.waiting = [each for each in self.waiting if each.number != number]
            self.story.append(("left", (number, why)))
            self.grant_heads(now)

    def holder(self, number: int) -> Member:
        [member] = [each for each in self.holding if each.number == number]
        return member

    def release(self, number: int, now: float) -> None:
        member = self.holder(number)
        member.released = True
        self.let_go(member, now)

    def free(self, number: int, now: float) -> None:
        member = self.holder(number)
        member.stuck = member.abandoned = False
        self.story.append(("freed", number))
        self.let_go(member, now)

    def let_go(self, member: Member, now: float) -> None:
        if member.released and not member.stuck:
            self.holding.remove(member)
            self.story.append(("released", member.number))
            if member.manager and self.resize_to is not None:
                self.slots, self.resize_to = self.resize_to, None
            self.grant_heads(now)

    def close(self) -> None:
        self.closed = True
        for each in self.waiting:
            self.story.append(("left", (each.number, "shutting_down")))
        self.waiting = []


ERRORS: dict[str, type[ParaudioError]] = {
    "server_busy": ServerBusyError,
    "slot_stuck": SlotStuckError,
    "queue_full": QueueFullError,
    "shutting_down": ShuttingDownError,
}
BOUNDS = st.sampled_from([0.5, 1.0, 2.0, 4.0, inf])


class LineMachine(RuleBasedStateMachine):
    """Drives a line and its reference together, step by step, with a clock of its own."""

    tickets: Bundle[Ticket] = Bundle("tickets")
    leases: Bundle[Lease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.story: Story = []
        self.line = Line("voice", 3, record=self._record, clock=lambda: self.now)
        self.reference = Reference(3)
        self.entered: list[Ticket] = []

    def _record(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        assert model == "voice"
        ticket = facts.get("ticket")
        if kind is Kind.REFUSED:
            self.story.append(("refused", facts["why"]))
        elif kind is Kind.LEFT:
            self.story.append(("left", (ticket, facts["why"])))
        elif kind is not Kind.STUCK and kind is not Kind.RESIZED:
            self.story.append((kind.value, ticket))

    @rule(target=tickets, claim=st.sampled_from(Claim), bound_s=BOUNDS, limit=st.integers(0, 4))
    def enter(self, claim: Claim, bound_s: float, limit: int) -> Ticket | MultipleResults[Ticket]:
        manager = claim is Claim.MANAGER
        expected = self.reference.enter(self.now, manager=manager, bound_s=bound_s, limit=limit)
        if expected != "entered":
            with pytest.raises(ERRORS[expected]):
                self.line.enter(claim, bound_s, limit, None)
            return multiple()
        self.entered.append(self.line.enter(claim, bound_s, limit, None))
        return self.entered[-1]

    @rule(target=leases, claim=st.sampled_from(Claim))
    def try_enter(self, claim: Claim) -> Lease | MultipleResults[Lease]:
        manager = claim is Claim.MANAGER
        free = not self.reference.waiting and self.reference.can_hold(manager=manager)
        lease = self.line.try_enter(claim, None)
        assert (lease is not None) is (free and not self.reference.closed)
        if lease is None:
            return multiple()
        self.reference.enter(self.now, manager=manager, bound_s=inf, limit=0)
        return lease

    @rule(target=leases, ticket=tickets)
    def collect(self, ticket: Ticket) -> Lease | MultipleResults[Lease]:
        if ticket.lease is None or ticket.collected:
            with pytest.raises((RuntimeError, ParaudioError)):
                self.line.collect(ticket)
            return multiple()
        return self.line.collect(ticket)

    @rule(ticket=tickets)
    def leave(self, ticket: Ticket) -> None:
        held = [each.number for each in self.reference.holding if not each.released]
        if ticket.number in held and not ticket.collected:
            self.reference.release(ticket.number, self.now)
        else:
            self.reference.leave(ticket.number, "cancelled", self.now)
        self.line.leave(ticket)

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        if not lease.released:
            self.reference.release(lease.ticket, self.now)
        lease.release()

    @rule(lease=leases)
    def mark_stuck(self, lease: Lease) -> None:
        if not lease.released:
            self.reference.holder(lease.ticket).stuck = True
            lease.mark_stuck()

    @rule(lease=leases)
    def mark_abandoned(self, lease: Lease) -> None:
        if lease.stuck:
            self.reference.abandon(lease.ticket, self.now)
        lease.mark_abandoned()

    @rule(lease=leases)
    def mark_freed(self, lease: Lease) -> None:
        if lease.stuck:
            self.reference.free(lease.ticket, self.now)
        lease.mark_freed()

    @rule(lease=leases, slots=st.integers(1, 5))
    def resize(self, lease: Lease, slots: int) -> None:
        if lease.claim is Claim.MANAGER and not lease.released:
            self.reference.resize_to = slots
            self.line.resize(lease, slots)
        else:
            with pytest.raises(ValueError, match="exclusively"):
                self.line.resize(lease, slots)

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass; those who reach their bound leave on time, the earliest first."""
        end = self.now + seconds
        while due := [each for each in self.entered if each.waiting and each.deadline <= end]:
            ticket = min(due, key=lambda each: (each.deadline, each.number))
            self.now = ticket.deadline
            self.reference.leave(ticket.number, "timeout", self.now)
            self.line.expire(ticket)
        self.now = end

    @precondition(lambda self: len(self.story) > 25)
    @rule()
    def close(self) -> None:
        self.reference.close()
        self.line.close(lambda: ShuttingDownError("over"))

    @invariant()
    def tells_the_same_story(self) -> None:
        assert self.story == self.reference.story

    @invariant()
    def shows_the_same_picture(self) -> None:
        now, then = self.line.snapshot(), self.reference
        assert now.slots == then.slots
        assert now.active_slots == then.occupied()
        assert now.queued_managers == sum(each.manager for each in then.waiting)
        assert now.queued_requests == sum(not each.manager for each in then.waiting)
        assert now.managed == any(each.manager for each in then.holding)

    @invariant()
    def knows_everybodys_position(self) -> None:
        waiting = [each.number for each in self.reference.waiting]
        for ticket in self.entered:
            if ticket.waiting:
                assert self.line.position(ticket) == waiting.index(ticket.number)

    @invariant()
    def gives_no_slot_to_two(self) -> None:
        held = [each.lease for each in self.entered if each.lease is not None]
        taken = [slot for each in held if not each.released or each.stuck for slot in each.slots]
        assert len(taken) == len(set(taken))
        assert set(taken) <= set(range(self.line.snapshot().slots))


TestLineAgainstReference = LineMachine.TestCase
TestLineAgainstReference.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
