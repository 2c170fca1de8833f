"""Replaying a journal against every rule."""

from collections.abc import Iterable
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal._facts import flaw
from paraudio.journal.checker._admission import (
    Barrier,
    Bounds,
    Exclusive,
    Fifo,
    OneEnd,
    OnlyQueued,
    Slots,
    Stranded,
    Stuck,
)
from paraudio.journal.checker._changes import apply
from paraudio.journal.checker._lifecycle import (
    Abandonment,
    Configuration,
    OneLoad,
    Residency,
    Retirement,
    States,
    UnderLease,
    Whole,
)
from paraudio.journal.checker._requests import Binding, Disconnects, Runs
from paraudio.journal.checker._rule import Finding, Rule, Violation
from paraudio.journal.checker._server import Balance, Phases, Sequence
from paraudio.journal.checker._world import World

TOLERANCE_S: Final = 0.25
"""How much later than promised a thing may happen on a machine that is busy."""


class Checker:
    """Checks a journal event by event, from its first one on, as `check` does at once.

    Args:
        max_loaded_models: The server's limit; 0 is none, and then that rule is not checked.
        tolerance_s: How many seconds later than promised a thing may happen.

    Attributes:
        violations: What has broken a rule so far, in the order in which it showed.
    """

    def __init__(self, *, max_loaded_models: int = 0, tolerance_s: float = TOLERANCE_S) -> None:
        self.violations: list[Violation] = []
        self._rules = _rules(max_loaded_models, tolerance_s)
        self._watching = {kind: [r for r in self._rules if kind in r.kinds] for kind in Kind}
        self._world = World()

    def see(self, event: Event, *, sound: bool = False) -> None:
        """Look at the next event.

        Args:
            event: The event.
            sound: Whether its facts are known to be what they must be, as those from a file are.
        """
        if not sound and (wrong := flaw(event)) is not None:
            self.violations.append(Violation("facts", wrong, (event.seq,)))
            self._world.last = event
            return
        for rule in self._watching[event.kind]:
            for finding in rule.see(event, self._world):
                self._note(rule, event, finding)
        apply(self._world, event)

    def end(self) -> None:
        """Look at what is left when there are no more events."""
        last = self._world.last
        if last is not None:
            for rule in self._rules:
                for finding in rule.end(last, self._world):
                    self._note(rule, last, finding)

    def _note(self, rule: Rule, event: Event, finding: Finding) -> None:
        """Note what a rule found at an event, with the numbers of the events that show it."""
        seqs = {each.seq for each in (*finding.others, event) if each is not None}
        self.violations.append(Violation(rule.name, finding.message, tuple(sorted(seqs))))


def check(
    events: Iterable[Event],
    *,
    max_loaded_models: int = 0,
    tolerance_s: float = TOLERANCE_S,
) -> list[Violation]:
    """Check a journal, from its first event on, against the rules of behaviour 2 to 5.

    Args:
        events: All events of one process, in their order.
        max_loaded_models: The server's limit; 0 is none, and then that rule is not checked.
        tolerance_s: How many seconds later than promised a thing may happen.

    Returns:
        What breaks a rule, in the order in which it shows; nothing for a journal as it should be.
    """
    checker = Checker(max_loaded_models=max_loaded_models, tolerance_s=tolerance_s)
    for event in events:
        checker.see(event)
    checker.end()
    return checker.violations


def _rules(max_loaded_models: int, tolerance_s: float) -> tuple[Rule, ...]:
    """One instance of each rule."""
    return (
        Sequence(),
        Phases(),
        OnlyQueued(),
        OneEnd(),
        Stuck(),
        Fifo(),
        Barrier(),
        Exclusive(),
        Slots(),
        Stranded(),
        Bounds(tolerance_s),
        UnderLease(),
        OneLoad(),
        Whole(),
        Retirement(),
        Abandonment(),
        Configuration(),
        States(),
        Residency(max_loaded_models),
        Binding(),
        Runs(),
        Disconnects(tolerance_s),
        Balance(),
    )
