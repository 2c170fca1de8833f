"""What a rule is, and what it finds."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
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

    def end(self, world: World) -> Iterator[Finding]:
        """Judge what the whole journal leaves behind; the findings belong to its last event."""
        del world
        yield from ()
