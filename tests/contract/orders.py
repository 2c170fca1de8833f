"""Every order in which operations can arrive at two models, in each situation of the contract."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Literal, TypeAlias

from tests.contract.house import House, Rules
from tests.contract.reference import Arrival, Outcome, Pace, What, World

from paraudio.journal import Kind
from paraudio.spec import ModelSpec
from paraudio.testing import Stepper

Operation: TypeAlias = Literal[
    "request a",
    "request b",
    "change a",
    "unload a",
    "bulk a+b",
    "bulk b+a",
    "idle",
    "stream a",
    "disconnect",
]
OPERATIONS: Final[tuple[Operation, ...]] = (
    "request a",
    "request b",
    "change a",
    "unload a",
    "bulk a+b",
    "bulk b+a",
    "idle",
    "stream a",
    "disconnect",
)
KINDS: Final[dict[str, What]] = {
    "request": "request",
    "more": "request",
    "stream": "stream",
    "change": "change",
    "unload": "unload",
    "bulk": "bulk",
    "idle": "idle",
    "disconnect": "disconnect",
}
PACES: Final = {"a": Pace(4000, 3000, 5000), "b": Pace(1000, 2000, 1000)}
GAPS_MS: Final = (0, 1700)
"""Time between arrivals: none, or so that no two things that matter happen at once."""

SAMPLES: Final = {1: 1, 2: 2, 3: 53, 4: 499}
"""Of the orders of each length the tests play every so manieth; no divisor of the choices."""

SITUATIONS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "a_unloaded_b_ready": ("b", ()),
    "a_loading_b_ready": ("b", ("request a",)),
    "a_running_spare_b_ready": ("ab", ("request a",)),
    "a_full_queued_b_ready": ("ab", ("request a", "more a", "request a")),
    "a_reconfiguring_b_running": ("ab", ("middle a", "request b")),
    "a_unloading_slowly_b_ready": ("ab", ("unload a",)),
    "both_loading_or_running": ("", ("request a", "request b")),
    "other_bulk_on_a_and_b": ("ab", ("request a", "request b", "bulk b+a")),
}
"""Who is loaded, and what has arrived before the order begins."""


@dataclass(frozen=True)
class Case:
    """One order in one situation.

    Attributes:
        situation: Where it begins.
        slots: The slots of both models.
        gap_ms: Time between two arrivals of the order.
        order: What arrives.
    """

    situation: str
    slots: int
    gap_ms: int
    order: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"{self.situation}, slots {self.slots}, gap {self.gap_ms}: {', '.join(self.order)}"


def cases(length: int) -> Iterator[Case]:
    """Every case with orders of this length."""
    for situation, slots, gap_ms in product(SITUATIONS, (1, 2), GAPS_MS):
        for order in product(OPERATIONS, repeat=length):
            yield Case(situation, slots, gap_ms, order)


def sample(situation: str, length: int) -> list[Case]:
    """The cases of a situation that the tests play."""
    here = [case for case in cases(length) if case.situation == situation]
    return here[:: SAMPLES[length]]


def arrivals(case: Case) -> list[Arrival]:
    """Everybody who arrives, those of the situation first."""
    _, older = SITUATIONS[case.situation]
    all_of_them: list[Arrival] = []
    for what in older:
        if what != "more a" or case.slots > 1:
            all_of_them.append(_arrival(what, len(all_of_them), case.slots, 0))
    changes = 0
    for index, operation in enumerate(case.order):
        at = case.gap_ms * (index + 1)
        came = _arrival(operation, len(all_of_them), case.slots, at)
        if operation == "change a":
            came = replace(came, path=f"/new{changes // 2}", slots=_other(case.slots, changes))
            changes += 1
        all_of_them.append(came)
    return all_of_them


def expect(case: Case) -> Outcome:
    """What the reference says."""
    warm, _ = SITUATIONS[case.situation]
    world = World(
        {name: (PACES[name], f"/{name}", case.slots, name in warm) for name in PACES},
    )
    return world.run(arrivals(case))


def play(case: Case, *, seed: int = 0) -> Outcome:
    """What the runtime does; its journal has to keep every rule besides."""
    warm, _ = SITUATIONS[case.situation]
    house = House(Rules(busy_ms=0, hang_s=60), Stepper(seed=seed))
    with house.stepper:
        house.open([_spec(name, case.slots) for name in PACES])
        for name in warm:
            house.use(f"warm {name}", name)
        house.settle(step_s=10, steps=3)
        began, history = house.now, house.journal.revision
        for arrival in arrivals(case):
            ahead = began + arrival.at / 1000 - house.now
            if ahead > 0:
                house.advance(ahead)
            _let_come(house, arrival)
        house.settle(step_s=60, steps=10)
        outcome = _outcome(house, began, history)
        house.stop()
        house.advance(60)
        assert house.phase == "stopped"
        assert house.runtime.cuts() == []
        census = house.family.census
        assert (census.weights, census.sessions, census.wrongs) == ({}, {}, [])
        assert (found := house.violations()) == [], found
    return outcome


def _other(slots: int, changes: int) -> int:
    """One change alters the slots with the path, the next one gives the old number back."""
    return 3 - slots if changes % 2 == 0 else slots


def _arrival(what: str, index: int, slots: int, at: int) -> Arrival:
    kind, _, models = what.partition(" ")
    name = f"{index} {what}"
    if kind == "middle":
        return Arrival(name, "change", models, at, path="/middle", slots=slots)
    if kind in {"idle", "disconnect"}:
        name = ""
    return Arrival(name, KINDS[kind], models.replace("+", ""), at)


def _spec(name: str, slots: int, path: str = "") -> ModelSpec:
    pace = PACES[name]
    return ModelSpec(
        id=name,
        family="simulated",
        path=path or f"/{name}",
        task="tts",
        slots=slots,
        load_options={"load_ms": pace.load, "unload_ms": pace.unload, "capacity": 2},
        session_options={"chunks": 4},
    )


def _let_come(house: House, arrival: Arrival) -> None:
    name, models = arrival.name, arrival.models
    match arrival.kind:
        case "request":
            house.use(name, models, run_ms=PACES[models].run)
        case "stream":
            house.use(name, models, "stream", run_ms=PACES[models].run)
        case "change":
            house.register(name, _spec(models, arrival.slots, arrival.path))
        case "unload":
            house.unload(name, models)
        case "bulk":
            house.unload_many(name, list(models))
        case "idle":
            house.sweep()
        case "disconnect":
            if house.inside:
                house.leave(house.inside[-1])


def _outcome(house: House, began: float, history: int) -> Outcome:
    def since(at: float) -> int:
        return round((at - began) * 1000)

    grants: dict[str, list[tuple[str, int]]] = {name: [] for name in PACES}
    names: dict[tuple[str | None, object], str] = {}
    for event in house.journal.since(history):
        key = (event.model, event.facts.get("ticket"))
        if event.kind is Kind.QUEUED:
            names[key] = str(event.facts["request"] or "")
        elif event.kind is Kind.GRANTED:
            grants[event.model or ""].append((names[key], since(event.at)))
    ends = {
        name: (what, since(house.left_at[name]))
        for name, what in house.ends.items()
        if not name.startswith("warm")
    }
    models = {
        each.spec.id: (each.loaded, each.spec.path, each.slots)
        for each in house.runtime.snapshot().models
    }
    return Outcome(grants, ends, models)


def differences(found: Sequence[Case]) -> Iterator[tuple[Case, Outcome, Outcome]]:
    """The cases in which the runtime does something else than the reference says."""
    for number, case in enumerate(found):
        expected, outcome = expect(case), play(case, seed=number)
        if outcome != expected:
            yield case, expected, outcome
