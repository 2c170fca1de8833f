"""Telling a journal event by event, the way it stands in the table of kinds."""

from typing import Self

from paraudio.journal import Event, Kind
from paraudio.spec import Json


class Story:
    """Events of one model ``m`` (or another that is named), numbered and timed as they are told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.seq = 0

    def tell(self, kind: Kind, model: str | None = "m", /, **facts: Json) -> Self:
        self.seq += 1
        self.events.append(Event(self.seq, self.now, kind, model, facts))
        return self

    def later(self, seconds: float) -> Self:
        self.now += seconds
        return self

    def skip(self, numbers: int = 1) -> Self:
        self.seq += numbers
        return self

    def queued(
        self,
        ticket: int,
        *,
        manager: bool = False,
        bound_ms: int | None = None,
        request: str | None = None,
        model: str = "m",
    ) -> Self:
        facts: dict[str, Json] = {"ticket": ticket, "manager": manager}
        return self.tell(Kind.QUEUED, model, **facts, bound_ms=bound_ms, request=request)

    def granted(self, ticket: int, *slots: int, model: str = "m") -> Self:
        return self.tell(Kind.GRANTED, model, ticket=ticket, slots=list(slots))

    def released(self, ticket: int, *slots: int, model: str = "m") -> Self:
        return self.tell(Kind.RELEASED, model, ticket=ticket, slots=list(slots))

    def left(self, ticket: int, why: str = "cancelled") -> Self:
        return self.tell(Kind.LEFT, ticket=ticket, why=why)

    def held(
        self, ticket: int, *slots: int, manager: bool = False, request: str | None = None
    ) -> Self:
        return self.queued(ticket, manager=manager, request=request).granted(ticket, *slots)

    def stuck(self, ticket: int, *slots: int) -> Self:
        return self.tell(Kind.STUCK, ticket=ticket, slots=list(slots))

    def freed(self, ticket: int, *slots: int) -> Self:
        return self.tell(Kind.FREED, ticket=ticket, slots=list(slots))

    def resized(self, ticket: int, slots: int) -> Self:
        return self.tell(Kind.RESIZED, ticket=ticket, slots=slots)

    def registered(self, slots: int = 2, config: int = 1, model: str = "m") -> Self:
        return self.tell(Kind.REGISTERED, model, slots=slots, path="/m", config=config)

    def committed(self, ticket: int, slots: int, config: int) -> Self:
        return self.tell(Kind.COMMITTED, ticket=ticket, slots=slots, path="/m", config=config)

    def state(self, old: str, new: str) -> Self:
        return self.tell(Kind.STATE, **{"from": old, "to": new, "event": "test"})

    def loading(self, ticket: int, generation: int, config: int = 1, model: str = "m") -> Self:
        facts: dict[str, Json] = {"ticket": ticket, "generation": generation}
        return self.tell(Kind.LOAD_STARTED, model, **facts, config=config)

    def abandoned(self, call: int) -> Self:
        return self.tell(Kind.ABANDONED, call=call, what="model 'm': load")

    def returned(self, call: int) -> Self:
        return self.tell(Kind.RETURNED, call=call)

    def failed(self, ticket: int, generation: int) -> Self:
        return self.tell(Kind.LOAD_FAILED, ticket=ticket, generation=generation, error="no")

    def published(
        self, ticket: int, generation: int, sessions: int = 2, config: int = 1, model: str = "m"
    ) -> Self:
        facts: dict[str, Json] = {"ticket": ticket, "generation": generation}
        return self.tell(Kind.PUBLISHED, model, **facts, sessions=sessions, config=config)

    def loaded(self, ticket: int, generation: int, sessions: int = 2, config: int = 1) -> Self:
        return self.loading(ticket, generation, config).published(
            ticket, generation, sessions, config
        )

    def retired(self, ticket: int | None, generation: int, why: str = "unload") -> Self:
        return self.tell(Kind.RETIRED, ticket=ticket, generation=generation, why=why)

    def destroyed(self, generation: int) -> Self:
        return self.tell(Kind.DESTROYED, generation=generation)

    def bound(self, request: str, ticket: int, config: int = 1) -> Self:
        return self.tell(Kind.BOUND, request=request, ticket=ticket, config=config)

    def runs(self, request: str, ticket: int, slot: int = 0, generation: int = 1) -> Self:
        facts: dict[str, Json] = {"slot": slot, "generation": generation}
        return self.tell(Kind.RUN_STARTED, request=request, ticket=ticket, **facts)

    def ran(self, request: str, ticket: int, outcome: str = "ok") -> Self:
        return self.tell(Kind.RUN_ENDED, request=request, ticket=ticket, outcome=outcome)

    def gone(self, request: str) -> Self:
        return self.tell(Kind.DISCONNECTED, None, request=request)

    def paused(self, seconds: float) -> Self:
        return self.later(seconds).tell(Kind.PAUSED, None, ms=round(seconds * 1000))

    def phase(self, phase: str) -> Self:
        return self.tell(Kind.PHASE, None, phase=phase)

    def cut(self) -> Self:
        return self.tell(Kind.CUT, None, what="a thing")


def ready() -> Story:
    """A server that runs, with a model of two slots that is loaded; ticket 1 has done that."""
    return (
        Story()
        .phase("running")
        .registered(2)
        .held(1, 0, 1, manager=True)
        .state("unloaded", "loading")
        .loaded(1, 1)
        .state("loading", "ready")
        .released(1, 0, 1)
    )
