"""Rules of the whole journal: its numbers and clock, the server's phases, and the last balance."""

from collections.abc import Iterator
from typing import Final

from paraudio.journal._events import Event, Kind
from paraudio.journal.checker._rule import Finding, Rule
from paraudio.journal.checker._world import Model, World, text


class Sequence(Rule):
    """Events are numbered from 1 without a gap, and time does not run backwards."""

    name = "sequence"
    kinds = tuple(Kind)

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        last = world.last
        expected = 1 if last is None else last.seq + 1
        if event.seq > expected:
            count = event.seq - expected
            missing = f"{count} event{'s' if count > 1 else ''} before {event.seq}"
            yield Finding(f"the journal is incomplete: it lacks {missing}", (last,))
        elif event.seq != expected:
            yield Finding(f"event {event.seq} stands where {expected} should be", (last,))
        if last is not None and event.at < last.at:
            yield Finding(f"time runs from {last.at} back to {event.at}", (last,))


class Phases(Rule):
    """The phases follow each other in order; once the server stops, nothing is granted."""

    name = "phase"
    kinds = (Kind.PHASE, Kind.GRANTED)

    _ORDER: Final = ("running", "draining", "stopping", "stopped")

    def see(self, event: Event, world: World) -> Iterator[Finding]:
        """See `Rule.see`."""
        if event.kind is Kind.GRANTED:
            if world.phase_is("stopping", "stopped"):
                yield Finding(
                    f"ticket {event.facts['ticket']} of {event.model!r} was granted "
                    "although the server stops",
                    (world.phase,),
                )
            return
        phase = text(event, "phase")
        if phase not in self._ORDER:
            yield Finding(f"there is no phase {phase!r}")
        elif world.phase is None:
            if phase != "running":
                yield Finding(f"the first phase is {phase!r}")
        elif phase not in self._ORDER[self._place(world) + 1 :]:
            yield Finding(f"phase {phase!r} follows {world.phase.facts['phase']!r}", (world.phase,))

    def _place(self, world: World) -> int:
        """The place of the present phase in the order."""
        return max((i for i, each in enumerate(self._ORDER) if world.phase_is(each)), default=-1)


class Balance(Rule):
    """A server that has stopped leaves nobody waiting, and nothing but what it says it cut.

    A stuck slot says so itself.
    """

    name = "balance"

    def end(self, last: Event, world: World) -> Iterator[Finding]:
        """See `Rule.end`."""
        del last
        if not world.phase_is("stopped"):
            return
        for model in world.models.values():
            for ticket in model.waiting.values():
                yield Finding(f"{ticket} still waits", (ticket.queued,))
            if not world.cuts:
                yield from self._leftovers(model)

    @staticmethod
    def _leftovers(model: Model) -> Iterator[Finding]:
        for ticket in [each for each in model.held.values() if not each.stuck]:
            yield Finding(f"{ticket} still holds slots {list(ticket.slots)}", (ticket.granted,))
        for run in model.runs.values():
            yield Finding(f"request {run.request!r} still runs", (run.started,))
        for generation in model.unfinished.values():
            yield Finding(
                f"generation {generation.number} of {model.name!r} is still "
                f"{generation.stage.value}",
                (generation.since,),
            )
