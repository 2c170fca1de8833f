"""What a journal says that the world looks like, replayed event by event.

The world believes everything: an event that breaks a rule changes it as well as that makes sense,
so that one violation does not drag others behind it. Judging is the rules' business.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from paraudio.journal._events import Event, Kind
from paraudio.spec import Json


class Place(StrEnum):
    """Where a ticket stands."""

    WAITING = "waiting"
    HELD = "held"
    LEFT = "left"
    RELEASED = "released"


@dataclass(slots=True)
class Ticket:
    """A ticket and its lease.

    Attributes:
        model: The model.
        number: The number of the ticket within its model.
        manager: Whether it wants all slots.
        request: The request that it serves, or None.
        queued: When it was queued.
        deadline: When its bound passes, in seconds; ``inf`` for none.
        place: Where it stands.
        slots: What it was granted.
        granted: When it was granted, or None.
        config: The model's configuration when it was granted, or None if that is unknown.
        bound: Whether a request was bound to it.
        ran: Whether a run was ever started under it.
        stuck: Whether its backend call ignores its stop.
    """

    model: str
    number: int
    manager: bool
    request: str | None
    queued: Event
    deadline: float
    place: Place = Place.WAITING
    slots: tuple[int, ...] = ()
    granted: Event | None = None
    config: int | None = None
    bound: Event | None = None
    ran: bool = False
    stuck: bool = False

    def __str__(self) -> str:
        return f"{'manager' if self.manager else 'ticket'} {self.number} of {self.model!r}"


class Stage(StrEnum):
    """How far a generation has come."""

    LOADING = "loading"
    PUBLISHED = "published"
    FAILED = "failed"
    RETIRED = "retired"
    DESTROYED = "destroyed"


@dataclass(slots=True)
class Generation:
    """One load of a model and what became of it.

    Attributes:
        number: Its number within the model.
        ticket: The ticket that drives the load, and later the one that retires it.
        config: The configuration that is loaded.
        since: The event that brought it to its stage.
        stage: How far it has come.
    """

    number: int
    ticket: int | None
    config: int | None
    since: Event
    stage: Stage


@dataclass(slots=True)
class Run:
    """A run that has not ended."""

    request: str
    ticket: int
    slot: int
    generation: int
    started: Event


@dataclass(slots=True)
class Model:
    """What is known of one model.

    Attributes:
        name: Its ID.
        slots: Its slots, or None before anything told.
        resized: The slots that it will have when its manager releases, or None.
        config: The number of its configuration, or None before it is registered.
        state: Its state, or None before anything told.
        tickets: Every ticket that was queued, by number.
        waiting: Tickets that wait, in the order of queueing.
        held: Tickets that hold a lease.
        generations: Every generation, by number.
        unfinished: Those that are neither failed nor destroyed, by number.
        runs: Runs that have not ended, by ticket.
        abandoned: Calls that were given up and still run, by number.
        given_up: How many were.
    """

    name: str
    slots: int | None = None
    resized: int | None = None
    config: int | None = None
    state: str | None = None
    tickets: dict[int, Ticket] = field(default_factory=dict)
    waiting: dict[int, Ticket] = field(default_factory=dict)
    held: dict[int, Ticket] = field(default_factory=dict)
    generations: dict[int, Generation] = field(default_factory=dict)
    unfinished: dict[int, Generation] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    abandoned: dict[int, Event] = field(default_factory=dict)
    given_up: int = 0

    @property
    def head(self) -> Ticket | None:
        """The first waiting ticket."""
        return next(iter(self.waiting.values()), None)

    @property
    def taken(self) -> dict[int, Ticket]:
        """Who holds each slot that is held."""
        return {slot: ticket for ticket in self.held.values() for slot in ticket.slots}

    @property
    def manager(self) -> Ticket | None:
        """The manager that holds the model."""
        return next((ticket for ticket in self.held.values() if ticket.manager), None)

    def at(self, stage: Stage) -> Generation | None:
        """The latest unfinished generation at a stage."""
        found = [each for each in self.unfinished.values() if each.stage is stage]
        return found[-1] if found else None


@dataclass
class World:
    """Everything, after the events so far.

    Attributes:
        models: What is known of each model.
        requests: The tickets of each request.
        phase: The phase of the server, or None before the first.
        cuts: How many things shutdown did not wait for.
        last: The latest event, or None.
    """

    models: dict[str, Model] = field(default_factory=dict)
    requests: dict[str, list[Ticket]] = field(default_factory=dict)
    phase: Event | None = None
    cuts: int = 0
    last: Event | None = None

    def model(self, event: Event) -> Model:
        """The model that an event happened to."""
        name = event.model or ""
        return self.models.setdefault(name, Model(name))

    def ticket(self, event: Event) -> Ticket | None:
        """The ticket that an event names, if it was ever queued."""
        return self.model(event).tickets.get(number(event, "ticket"))

    def held(self, event: Event) -> Ticket | None:
        """The ticket that an event names, if it holds a lease."""
        ticket = self.ticket(event)
        return ticket if ticket is not None and ticket.place is Place.HELD else None

    def phase_is(self, *phases: str) -> bool:
        """Whether the server is in one of these phases."""
        return self.phase is not None and self.phase.facts["phase"] in phases

    def apply(self, event: Event) -> None:
        """Change the world as an event says."""
        match event.kind:
            case Kind.PHASE:
                self.phase = event
            case Kind.CUT:
                self.cuts += 1
            case Kind.DISCONNECTED | Kind.REFUSED | Kind.INSPECTED:
                pass
            case Kind.QUEUED:
                ticket = _queue(self.model(event), event)
                if ticket.request is not None:
                    self.requests.setdefault(ticket.request, []).append(ticket)
            case _:
                _CHANGES[event.kind](self.model(event), event)
        self.last = event


def number(event: Event, fact: str) -> int:
    """A fact that is a number; its kind's table says that it is."""
    value = event.facts[fact]
    return value if isinstance(value, int) else 0


def text(event: Event, fact: str) -> str:
    """A fact that is text."""
    return str(event.facts[fact])


def numbers(event: Event, fact: str) -> tuple[int, ...]:
    """A fact that is a list of numbers."""
    value: Json = event.facts[fact]
    return tuple(each for each in value if isinstance(each, int)) if isinstance(value, list) else ()


def _queue(model: Model, event: Event) -> Ticket:
    bound_ms, request = event.facts["bound_ms"], event.facts["request"]
    ticket = Ticket(
        model=model.name,
        number=number(event, "ticket"),
        manager=event.facts["manager"] is True,
        request=request if isinstance(request, str) else None,
        queued=event,
        deadline=event.at + bound_ms / 1000 if isinstance(bound_ms, int) else inf,
    )
    model.tickets[ticket.number] = model.waiting[ticket.number] = ticket
    return ticket


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
    generation.stage = stage
    generation.since = event
    ticket = event.facts.get("ticket")
    generation.ticket = ticket if isinstance(ticket, int) else None
    model.unfinished.pop(named, None)
    if stage not in (Stage.FAILED, Stage.DESTROYED):
        model.unfinished[named] = generation
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


_CHANGES = {
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
