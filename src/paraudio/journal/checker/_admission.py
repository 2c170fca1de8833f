"""Rules of admission (behaviour 2): one FIFO a model, with barriers."""

from collections.abc import Iterator
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._rule import Finding, Promise, Rule
from paraudio.journal.checker._world import Model, Place, Ticket, World, number, numbers, text
from paraudio.spec import MAX_SLOTS

_OF_A_TICKET: Final = (
    Kind.GRANTED,
    Kind.LEFT,
    Kind.RELEASED,
    Kind.STUCK,
    Kind.FREED,
    Kind.RESIZED,
)


ROUNDING_S: Final = 0.001
"""The journal has bounds in whole milliseconds."""


class OnlyQueued(Rule):
    """Tickets are numbered in the order of queueing, and nothing happens to one never queued."""

    name = "queued"
    kinds = (Kind.QUEUED, *_OF_A_TICKET)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model, ticket = world.model(event), number(event, "ticket")
        if event.kind is not Kind.QUEUED:
            if ticket not in model.tickets:
                yield Finding(f"ticket {ticket} of {event.model!r} {model.absent(ticket)}")
        elif ticket != model.entered + 1:
            yield Finding(
                f"ticket {ticket} of {event.model!r} was queued after {model.entered} others"
            )


class OneEnd(Rule):
    """A ticket leaves or is granted, once; a lease is released, once, with the slots granted."""

    name = "lease"
    kinds = _OF_A_TICKET

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket = world.ticket(event)
        if ticket is None:
            return
        needed = Place.WAITING if event.kind in (Kind.GRANTED, Kind.LEFT) else Place.HELD
        if ticket.place is not needed:
            yield Finding(
                f"{ticket} cannot be {event.kind.value}: it is {ticket.place.value}",
                (ticket.queued, ticket.granted),
            )
        elif event.kind in (Kind.RELEASED, Kind.STUCK, Kind.FREED):
            yield from self._same_slots(event, ticket)
        elif event.kind is Kind.RESIZED and not ticket.manager:
            yield Finding(f"{ticket} is no manager and cannot resize the model", (ticket.granted,))

    @staticmethod
    def _same_slots(event: Event, ticket: Ticket) -> Iterator[Finding]:
        slots = numbers(event, "slots")
        if slots != ticket.slots:
            yield Finding(
                f"{ticket} was granted slots {list(ticket.slots)}, "
                f"but {list(slots)} are {event.kind.value}",
                (ticket.granted,),
            )


class Stuck(Rule):
    """A stuck slot comes back when its call has ended, and not before."""

    name = "stuck"
    kinds = (Kind.STUCK, Kind.FREED, Kind.RELEASED)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket = world.ticket(event)
        if ticket is None or ticket.place is not Place.HELD:
            return
        if ticket.stuck is not (event.kind is Kind.FREED):
            state = "stuck" if ticket.stuck else "not stuck"
            yield Finding(
                f"{ticket} was {event.kind.value} while it was {state}", (ticket.granted,)
            )


class Fifo(Rule):
    """Tickets are granted in the order in which they were queued."""

    name = "fifo"
    kinds = (Kind.GRANTED,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket, head = _granted_past(event, world)
        if ticket is not None and head is not None and _first_manager(event, world) is None:
            yield Finding(f"{ticket} was granted before {head}", (head.queued, ticket.queued))


class Barrier(Rule):
    """Nobody passes a queued manager, also when slots are spare."""

    name = "barrier"
    kinds = (Kind.GRANTED,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket, _ = _granted_past(event, world)
        manager = _first_manager(event, world)
        if ticket is not None and manager is not None:
            yield Finding(f"{ticket} has passed {manager}", (manager.queued, ticket.queued))


def _granted_past(event: Event, world: World) -> tuple[Ticket | None, Ticket | None]:
    """The ticket that is granted, and the head if that is another one."""
    ticket, head = world.ticket(event), world.model(event).head
    if ticket is None or ticket.place is not Place.WAITING or ticket is head:
        return None, None
    return ticket, head


def _first_manager(event: Event, world: World) -> Ticket | None:
    """The first manager that waits before the ticket of the event."""
    ticket = number(event, "ticket")
    waiting = world.model(event).waiting.values()
    return next((each for each in waiting if each.manager and each.number < ticket), None)


class Exclusive(Rule):
    """A manager holds the model alone."""

    name = "exclusive"
    kinds = (Kind.GRANTED,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket, model = world.ticket(event), world.model(event)
        if ticket is None:
            return
        others = [each for each in model.held.values() if each is not ticket]
        for other in others:
            if ticket.manager or other.manager:
                yield Finding(
                    f"{ticket} was granted while {other} held the model", (other.granted,)
                )


class Slots(Rule):
    """A slot has one owner, and a number below the number of slots; a manager owns them all."""

    name = "slots"
    kinds = (Kind.GRANTED,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        ticket, model = world.ticket(event), world.model(event)
        if ticket is None:
            return
        slots = numbers(event, "slots")
        known = model.slots or (len(slots) if ticket.manager else MAX_SLOTS)
        if ticket.manager and slots != tuple(range(known)):
            yield Finding(f"{ticket} was granted slots {list(slots)} of {known}")
        if not ticket.manager and len(slots) != 1:
            yield Finding(f"{ticket} was granted {len(slots)} slots")
        for slot in slots:
            yield from self._judge(slot, ticket, model, known)

    @staticmethod
    def _judge(slot: int, ticket: Ticket, model: Model, known: int) -> Iterator[Finding]:
        if not 0 <= slot < known:
            yield Finding(f"{ticket} was granted slot {slot} of {known}")
        owner = model.taken.get(slot)
        if owner is not None and owner is not ticket:
            yield Finding(
                f"{ticket} was granted slot {slot}, which {owner} holds", (owner.granted,)
            )


class Stranded(Rule):
    """A head that can be granted is granted before anything else happens in its queue."""

    name = "stranded"
    kinds = (Kind.QUEUED, Kind.REFUSED, *_OF_A_TICKET)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        closing = event.kind is Kind.LEFT and text(event, "why") == "shutting_down"
        if event.kind is Kind.GRANTED or closing:
            return
        head = _grantable_head(world.model(event))
        if head is not None:
            yield Finding(f"{head} could be granted and was not", (head.queued,))

    def end(self, last: Event, world: World) -> Iterator[Finding]:
        """See `Rule.end`."""
        del last
        if world.phase_is("stopped"):
            for model in world.models.values():
                head = _grantable_head(model)
                if head is not None:
                    yield Finding(f"{head} could be granted and never was", (head.queued,))


def _grantable_head(model: Model) -> Ticket | None:
    """The head, if nothing is in its way; None as long as the number of slots is not known."""
    head = model.head
    if head is None or (model.slots is None and not head.manager):
        return None
    if head.manager:
        return None if model.held else head
    free = model.manager is None and len(model.taken) < (model.slots or 0)
    return head if free else None


class Bounds(Promise):
    """Nobody waits longer than his bound, and nobody is sent away before it."""

    name = "wait"

    def note(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Promise.note`."""
        if event.kind is Kind.QUEUED and isinstance(bound_ms := event.facts["bound_ms"], int):
            self.promise(event, bound_ms / 1000)
        if event.kind is Kind.LEFT and text(event, "why") == "timeout":
            ticket = world.ticket(event)
            if ticket is not None and event.at < ticket.deadline - ROUNDING_S:
                yield Finding(f"{ticket} timed out before its bound", (ticket.queued,))

    def due(self, promised: Event, late_ms: float, world: World) -> Iterator[Finding]:
        """See `Promise.due`."""
        ticket = world.ticket(promised)
        if ticket is not None and self.stands(promised, world):
            yield Finding(f"{ticket} still waited after {late_ms:.0f} ms", (promised,))

    def stands(self, promised: Event, world: World) -> bool:
        """See `Promise.stands`."""
        ticket = world.ticket(promised)
        return ticket is not None and ticket.place is Place.WAITING
