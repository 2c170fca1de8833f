"""What generated histories were made of, so that no kind of operation or end goes missing."""

from collections import Counter
from typing import Final, get_args

from tests.contract.guests import Manner
from tests.contract.house import House

FACTS: Final = ("why", "outcome", "phase")
"""Facts that tell what kind of an event it was."""

MANNERS: Final[tuple[str, ...]] = get_args(Manner)
NEEDED: Final = (
    *(f"slots {count}" for count in (1, 2, 3, 4)),
    *(f"limit {limit}" for limit in (0, 1, 2)),
    # Who came, and that each could get what he came for.
    *(f"{manner}: done" for manner in MANNERS if manner not in {"fail", "bad"}),
    *("fail: server_error", "bad: invalid_request_error"),
    *("registration: done", "unload: done", "bulk: done"),
    # How it can end otherwise: by a bound, a client that leaves, a fault, or the server's end.
    *("run: server_busy", "run: cancelled", "run: load_failed", "run: backend_crashed"),
    *("run: shutting_down", "run: queue_full", "run: insufficient_memory", "live: cancelled"),
    *("registration: cancelled", "registration: server_busy", "registration: load_failed"),
    *("registration: invalid_request_error", "registration: shutting_down"),
    *("unload: cancelled", "unload: server_busy", "unload: shutting_down"),
    *("bulk: cancelled", "bulk: shutting_down"),
    # What the journal has of it.
    *("left timeout", "left cancelled", "left shutting_down", "left slot_stuck"),
    *("refused server_busy", "refused queue_full", "refused shutting_down"),
    *("retired unload", "retired reconfigure", "retired evict", "retired idle"),
    *("retired shutdown", "run_ended ok", "run_ended error", "run_ended stopped"),
    *("run_ended stuck", "stuck", "freed", "resized", "committed", "load_failed"),
    *("phase draining", "phase stopping", "phase stopped", "disconnected", "cut"),
)
"""What a few thousand steps must have seen."""


class Tally:
    """Counts, over many histories.

    Attributes:
        steps: Steps that were made.
        seen: How often each thing happened.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.seen: Counter[str] = Counter()

    def note(self, house: House) -> None:
        """Count what happened in a house."""
        self.seen[f"limit {house.rules.limit}"] += 1
        for model in house.runtime.snapshot().models:
            self.seen[f"slots {model.slots}"] += 1
        for name, what in house.came.items():
            self.seen[f"{what}: {house.ends.get(name)}"] += 1
        for event in house.journal.since(0):
            of_which = [str(event.facts[fact]) for fact in FACTS if fact in event.facts]
            self.seen[" ".join([event.kind.value, *of_which])] += 1

    def missing(self) -> list[str]:
        """What should have happened and did not."""
        return [each for each in NEEDED if not self.seen[each]]
