"""What a rule is, and what it finds."""

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar, Final, NamedTuple

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._world import Place, World, number

MANY: Final = 1_000
"""Events on an agenda that are no burden."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a journal breaks.

    Attributes:
        rule: The name of the rule.
        message: What happened, in one sentence.
        seqs: The numbers of the events that show it, ascending; the last one breaks the rule.
    """

    rule: str
    message: str
    seqs: tuple[int, ...]

    def __str__(self) -> str:
        events = ", ".join(map(str, self.seqs))
        return f"{self.rule}: {self.message} (event{'s' * (len(self.seqs) > 1)} {events})"


class Finding(NamedTuple):
    """What a rule has found: a sentence, and the events beside the one that breaks it."""

    message: str
    others: tuple[Event | None, ...] = ()


class Agenda:
    """Events that are to be looked at again when their time has come."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Event]] = []
        self._count = count()
        self._many = MANY

    def put(self, due: float, event: Event) -> None:
        """Remember an event until a time."""
        heapq.heappush(self._heap, (due, next(self._count), event))

    def put_off(self, by: float, to: float) -> None:
        """Put off what is due before a time: by so many seconds, but not beyond that time."""
        early = []
        while self._heap and self._heap[0][0] < to:
            early.append(heapq.heappop(self._heap))
        for due, place, event in early:
            heapq.heappush(self._heap, (min(due + by, to), place, event))

    @property
    def crowded(self) -> bool:
        """Whether there are more than twice as many events as when it was last made thinner."""
        return len(self._heap) > self._many

    def thin(self, stands: Callable[[Event], bool]) -> None:
        """Let go of events that nobody has to look at."""
        self._heap = [each for each in self._heap if stands(each[2])]
        heapq.heapify(self._heap)
        self._many = max(MANY, 2 * len(self._heap))

    def before(self, now: float) -> Iterator[Event]:
        """Take out the events whose time has passed, the earliest first."""
        while self._heap and self._heap[0][0] < now:
            yield heapq.heappop(self._heap)[2]


class Rule:
    """One rule; an instance watches one journal.

    Attributes:
        name: How violations name it.
        kinds: The kinds of events that it looks at.
    """

    name: ClassVar[str]
    kinds: ClassVar[Collection[Kind]] = ()

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """Judge an event by the world as it was before it."""
        raise NotImplementedError

    def end(self, last: Event, world: World) -> Iterator[Finding]:
        """Judge what the whole journal leaves behind; the findings belong to its last event."""
        del last, world
        yield from ()


@dataclass
class Promise(Rule):
    """A rule of what must have happened by a time; each promise is looked at when it is due.

    Attributes:
        tolerance_s: How much later than promised a thing may happen.
    """

    kinds = tuple(Kind)

    tolerance_s: float
    _due: Agenda = field(default_factory=Agenda)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        if event.kind is Kind.PAUSED:
            # A process that does not run is not late: what falls due meanwhile is due at its end.
            self._due.put_off(number(event, "ms") / 1000, event.at + self.tolerance_s)
        yield from self._overdue(event.at, world)
        yield from self.note(event, world)
        if self._due.crowded:
            self._due.thin(lambda promised: self.stands(promised, world))

    def end(self, last: Event, world: World) -> Iterator[Finding]:
        """See `Rule.end`."""
        yield from self._overdue(last.at, world)

    def promise(self, event: Event, within_s: float) -> None:
        """Look at an event again so many seconds after it."""
        self._due.put(event.at + within_s + self.tolerance_s, event)

    def note(self, event: Event, world: World) -> Iterator[Finding]:
        """Make the promises of an event, and judge it."""
        raise NotImplementedError

    def stands(self, promised: Event, world: World) -> bool:
        """Whether a promise still has to be looked at when it is due."""
        del promised, world
        return True

    def due(self, promised: Event, late_ms: float, world: World) -> Iterator[Finding]:
        """Judge an event that made a promise, so long after it."""
        raise NotImplementedError

    def _overdue(self, now: float, world: World) -> Iterator[Finding]:
        for promised in self._due.before(now):
            yield from self.due(promised, (now - promised.at) * 1000, world)


def unleased(event: Event, world: World, what: str) -> Iterator[Finding]:
    """What is wrong if the ticket of an event holds no lease."""
    ticket = world.ticket(event)
    if ticket is None:
        absent = world.model(event).absent(number(event, "ticket"))
        yield Finding(f"{what} under ticket {event.facts['ticket']}, which {absent}")
    elif ticket.place is not Place.HELD:
        yield Finding(
            f"{what} under {ticket}, which is {ticket.place.value}",
            (ticket.queued, ticket.granted),
        )
