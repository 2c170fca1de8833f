"""What a journal says that the world looks like, replayed event by event.

The world believes everything: an event that breaks a rule changes it as well as that makes sense,
so that one violation does not drag others behind it. Judging is the rules' business. What is over
is forgotten after a while, so a journal of any length needs no more memory than what goes on in it
at one time.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from paraudio.journal._events import Event
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
        entered: The greatest number of a ticket; without a gap, how many were queued.
        tickets: Those that wait or hold a lease, and the latest that are over, by number.
        over: The numbers of those that are over, in the order in which they ended.
        waiting: Tickets that wait, in the order of queueing.
        held: Tickets that hold a lease.
        latest: The greatest number of a generation.
        generations: Those that are unfinished, and the latest that are finished, by number.
        finished: The numbers of the finished ones, in the order in which they ended.
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
    entered: int = 0
    tickets: dict[int, Ticket] = field(default_factory=dict)
    over: deque[int] = field(default_factory=deque)
    waiting: dict[int, Ticket] = field(default_factory=dict)
    held: dict[int, Ticket] = field(default_factory=dict)
    latest: int = 0
    generations: dict[int, Generation] = field(default_factory=dict)
    finished: deque[int] = field(default_factory=deque)
    unfinished: dict[int, Generation] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    abandoned: dict[int, Event] = field(default_factory=dict)
    given_up: int = 0

    def absent(self, ticket: int) -> str:
        """What is to be said of a ticket that is not known."""
        return "was over long ago" if 0 < ticket <= self.entered else "was never queued"

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
        requests: The tickets of each request that wait or hold a lease.
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
        found = self.models.get(name)
        if found is None:
            found = self.models[name] = Model(name)
        return found

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
