"""What a rule is, and what it finds."""

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, NamedTuple

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._world import World


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

    def put(self, due: float, event: Event) -> None:
        """Remember an event until a time."""
        heapq.heappush(self._heap, (due, next(self._count), event))

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
