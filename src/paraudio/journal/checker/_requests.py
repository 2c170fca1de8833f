"""Rules of requests (behaviour 4 and 5): what they run on, and how soon they are gone."""

from collections.abc import Iterator
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._lifecycle import works
from paraudio.journal.checker._rule import Finding, Promise, Rule, unleased
from paraudio.journal.checker._world import Place, Stage, Ticket, World, number, text

DISCONNECT_S: Final = 0.1
"""How soon a ticket whose client is gone has to leave."""


class Binding(Rule):
    """A request binds its lease while it holds it, to the configuration at its grant."""

    name = "binding"
    kinds = (Kind.BOUND,)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        yield from unleased(event, world, f"request {event.facts['request']!r} was bound")
        ticket = world.held(event)
        if ticket is None:
            return
        if ticket.config is not None and number(event, "config") != ticket.config:
            yield Finding(
                f"{ticket} was bound to configuration {event.facts['config']}, "
                f"but was granted under {ticket.config}",
                (ticket.granted,),
            )


class Runs(Rule):
    """A run has a bound lease, its slot to itself, and a published pool of its configuration."""

    name = "run"
    kinds = (Kind.RUN_STARTED, Kind.RUN_ENDED)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        model = world.model(event)
        run = model.runs.get(number(event, "ticket"))
        if event.kind is Kind.RUN_ENDED:
            if run is None or run.request != event.facts["request"]:
                yield Finding(
                    f"request {event.facts['request']!r} ended a run that it has not begun"
                )
            return
        if run is not None:
            yield Finding(f"ticket {run.ticket} of {model.name!r} runs already", (run.started,))
        yield from self._leased(event, world)
        yield from self._on_published(event, world)

    @staticmethod
    def _leased(event: Event, world: World) -> Iterator[Finding]:
        who, ticket = event.facts["request"], world.held(event)
        yield from unleased(event, world, f"request {who!r} runs")
        if ticket is None:
            return
        if number(event, "slot") not in ticket.slots:
            yield Finding(
                f"request {who!r} runs in slot {event.facts['slot']}, "
                f"but holds {list(ticket.slots)}",
                (ticket.granted,),
            )
        if ticket.bound is None or ticket.bound.facts["request"] != who:
            yield Finding(f"request {who!r} runs under {ticket} without being bound to it")

    @staticmethod
    def _on_published(event: Event, world: World) -> Iterator[Finding]:
        model, named = world.model(event), number(event, "generation")
        generation, ticket = model.generations.get(named), world.ticket(event)
        if generation is None or generation.stage is not Stage.PUBLISHED:
            stage = "unknown" if generation is None else generation.stage.value
            yield Finding(
                f"request {event.facts['request']!r} runs on generation {named} "
                f"of {model.name!r}, which is {stage}",
                () if generation is None else (generation.since,),
            )
        elif ticket is not None and ticket.bound is not None and generation.config is not None:
            bound = number(ticket.bound, "config")
            if bound != generation.config:
                yield Finding(
                    f"request {event.facts['request']!r} is bound to configuration {bound}, "
                    f"but generation {named} has {generation.config}",
                    (ticket.bound, generation.since),
                )


class Disconnects(Promise):
    """A client that is gone waits no longer, for a slot or for a load that somebody else drives.

    A lease is excused that a run was ever made under, since the engine needs its time to stop and
    the session to be made usable; that drives a load or a teardown; that is stuck; or that is a
    manager's, whose work is done to its end.
    """

    name = "disconnect"

    def note(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Promise.note`."""
        del world
        if event.kind is Kind.DISCONNECTED:
            self.promise(event, DISCONNECT_S)
        yield from ()

    def due(self, promised: Event, late_ms: float, world: World) -> Iterator[Finding]:
        """See `Promise.due`."""
        for ticket in world.requests.get(text(promised, "request"), []):
            # An ID that is free again may be another request's, such as one that is sent anew.
            before = ticket.queued.seq < promised.seq
            if before and not _may_stay(ticket, world):
                yield Finding(
                    f"the client of {ticket} is gone, and it is {ticket.place.value} "
                    f"{late_ms:.0f} ms later",
                    (ticket.queued, promised),
                )


def _may_stay(ticket: Ticket, world: World) -> bool:
    """Whether a ticket is over, or has an excuse."""
    if ticket.place is not Place.HELD:
        return ticket.place is not Place.WAITING
    excused = ticket.manager or ticket.ran or ticket.stuck
    return excused or works(ticket, world.models[ticket.model])
