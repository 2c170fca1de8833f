"""Replaying a journal against every rule."""

from collections.abc import Iterable, Iterator
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
    rules = _rules(max_loaded_models, tolerance_s)
    watching = {kind: [rule for rule in rules if kind in rule.kinds] for kind in Kind}
    world = World()
    violations = []
    for event in events:
        if (wrong := flaw(event)) is not None:
            violations.append(Violation("facts", wrong, (event.seq,)))
            world.last = event
            continue
        for rule in watching[event.kind]:
            violations += _violations(rule, event, rule.see(event, world))
        world.apply(event)
    if world.last is not None:
        for rule in rules:
            violations += _violations(rule, world.last, rule.end(world.last, world))
    return violations


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


def _violations(rule: Rule, event: Event, findings: Iterator[Finding]) -> Iterator[Violation]:
    """What a rule found at an event, with the numbers of the events that show it."""
    for finding in findings:
        seqs = {each.seq for each in (*finding.others, event) if each is not None}
        yield Violation(rule.name, finding.message, tuple(sorted(seqs)))
