"""What each event changes in the world."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._world import (
    Generation,
    Model,
    Place,
    Run,
    Stage,
    Ticket,
    World,
    number,
    numbers,
    text,
)

REMEMBERED: Final = 1_000
"""Tickets of a model that are over, and generations, that a late event can still be held to."""
_OVER: Final = (Place.LEFT, Place.RELEASED)


def apply(world: World, event: Event) -> None:
    """Change the world as an event says."""
    change = _CHANGES.get(event.kind)
    if change is not None:
        change(world.model(event), event)
    more = _MORE.get(event.kind)
    if more is not None:
        more(world, event)
    world.last = event


def _set_phase(world: World, event: Event) -> None:
    world.phase = event


def _count_cut(world: World, event: Event) -> None:
    del event
    world.cuts += 1


def _note_request(world: World, event: Event) -> None:
    ticket = world.ticket(event)
    if ticket is not None and ticket.request is not None:
        world.requests.setdefault(ticket.request, []).append(ticket)


def _forget(world: World, event: Event) -> None:
    """A ticket that is over serves no request, and is remembered only for a while."""
    ended, model = world.ticket(event), world.model(event)
    if ended is None or ended.place not in _OVER:
        return
    if ended.request is not None:
        left = [each for each in world.requests.get(ended.request, []) if each is not ended]
        if left:
            world.requests[ended.request] = left
        else:
            world.requests.pop(ended.request, None)
    model.over.append(ended.number)
    if len(model.over) > REMEMBERED:
        old = model.tickets.get(model.over.popleft())
        if old is not None and old.place in _OVER:
            del model.tickets[old.number]


def _queue(model: Model, event: Event) -> None:
    bound_ms, request = event.facts["bound_ms"], event.facts["request"]
    ticket = Ticket(
        model=model.name,
        number=number(event, "ticket"),
        manager=event.facts["manager"] is True,
        request=request if isinstance(request, str) else None,
        queued=event,
        deadline=event.at + bound_ms / 1000 if isinstance(bound_ms, int) else inf,
    )
    model.entered = max(model.entered, ticket.number)  # after a gap the numbers go on from there
    model.tickets[ticket.number] = model.waiting[ticket.number] = ticket


def _grant(model: Model, event: Event) -> None:
    ticket = model.tickets.get(number(event, "ticket"))
    if ticket is None:
        return
    model.waiting.pop(ticket.number, None)
    model.held[ticket.number] = ticket
    ticket.place = Place.HELD
    ticket.slots = numbers(event, "slots")
    ticket.granted = event
    ticket.config = model.config
    if ticket.manager and model.slots is None:
        model.slots = len(ticket.slots)


def _leave(model: Model, event: Event) -> None:
    ticket = model.waiting.pop(number(event, "ticket"), None)
    if ticket is not None:
        ticket.place = Place.LEFT


def _release(model: Model, event: Event) -> None:
    ticket = model.held.pop(number(event, "ticket"), None)
    if ticket is None:
        return
    ticket.place = Place.RELEASED
    ticket.stuck = False
    if ticket.manager and model.resized is not None:
        model.slots, model.resized = model.resized, None


def _stick(model: Model, event: Event) -> None:
    _set_stuck(model, event, stuck=True)


def _free(model: Model, event: Event) -> None:
    _set_stuck(model, event, stuck=False)


def _set_stuck(model: Model, event: Event, *, stuck: bool) -> None:
    ticket = model.held.get(number(event, "ticket"))
    if ticket is not None:
        ticket.stuck = stuck


def _resize(model: Model, event: Event) -> None:
    model.resized = number(event, "slots")


def _register(model: Model, event: Event) -> None:
    model.config = number(event, "config")
    if model.slots is None:
        model.slots = number(event, "slots")
    for ticket in model.held.values():  # the registration's own, which came before
        ticket.config = model.config


def _commit(model: Model, event: Event) -> None:
    model.config = number(event, "config")


def _set_state(model: Model, event: Event) -> None:
    model.state = text(event, "to")


def _start_load(model: Model, event: Event) -> None:
    _move(Stage.LOADING, model, event).config = number(event, "config")


def _move(stage: Stage, model: Model, event: Event) -> Generation:
    """Bring the generation that an event names to a stage; one that is not known begins so."""
    named = number(event, "generation")
    generation = model.generations.setdefault(named, Generation(named, None, None, event, stage))
    model.latest = max(model.latest, named)
    generation.stage = stage
    generation.since = event
    ticket = event.facts.get("ticket")
    generation.ticket = ticket if isinstance(ticket, int) else None
    model.unfinished.pop(named, None)
    if stage not in (Stage.FAILED, Stage.DESTROYED):
        model.unfinished[named] = generation
    else:
        model.finished.append(named)
        if len(model.finished) > REMEMBERED:
            old = model.finished.popleft()
            if old not in model.unfinished:
                model.generations.pop(old, None)
    return generation


def _fail_load(model: Model, event: Event) -> None:
    _move(Stage.FAILED, model, event)


def _publish(model: Model, event: Event) -> None:
    _move(Stage.PUBLISHED, model, event)


def _retire(model: Model, event: Event) -> None:
    _move(Stage.RETIRED, model, event)


def _destroy(model: Model, event: Event) -> None:
    _move(Stage.DESTROYED, model, event)


def _bind(model: Model, event: Event) -> None:
    ticket = model.tickets.get(number(event, "ticket"))
    if ticket is not None:
        ticket.bound = event


def _start_run(model: Model, event: Event) -> None:
    run = Run(
        request=text(event, "request"),
        ticket=number(event, "ticket"),
        slot=number(event, "slot"),
        generation=number(event, "generation"),
        started=event,
    )
    model.runs[run.ticket] = run
    if run.ticket in model.tickets:
        model.tickets[run.ticket].ran = True


def _end_run(model: Model, event: Event) -> None:
    model.runs.pop(number(event, "ticket"), None)


def _abandon(model: Model, event: Event) -> None:
    model.given_up = number(event, "call")
    model.abandoned[model.given_up] = event


def _return(model: Model, event: Event) -> None:
    model.abandoned.pop(number(event, "call"), None)


_CHANGES: Final[Mapping[Kind, Callable[[Model, Event], None]]] = {
    Kind.QUEUED: _queue,
    Kind.GRANTED: _grant,
    Kind.LEFT: _leave,
    Kind.RELEASED: _release,
    Kind.STUCK: _stick,
    Kind.FREED: _free,
    Kind.RESIZED: _resize,
    Kind.REGISTERED: _register,
    Kind.COMMITTED: _commit,
    Kind.STATE: _set_state,
    Kind.LOAD_STARTED: _start_load,
    Kind.LOAD_FAILED: _fail_load,
    Kind.PUBLISHED: _publish,
    Kind.RETIRED: _retire,
    Kind.DESTROYED: _destroy,
    Kind.ABANDONED: _abandon,
    Kind.RETURNED: _return,
    Kind.BOUND: _bind,
    Kind.RUN_STARTED: _start_run,
    Kind.RUN_ENDED: _end_run,
}
_MORE: Final[Mapping[Kind, Callable[[World, Event], None]]] = {
    Kind.PHASE: _set_phase,
    Kind.CUT: _count_cut,
    Kind.QUEUED: _note_request,
    Kind.LEFT: _forget,
    Kind.RELEASED: _forget,
}
"""What changes beside the model itself."""
