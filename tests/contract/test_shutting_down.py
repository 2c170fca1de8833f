"""What a drain does to evictions: none begins any more, and none that has begun is undone."""

from collections.abc import Iterator

import pytest
from tests.contract.house import House, Rules

from paraudio.journal import Kind
from paraudio.spec import ModelSpec
from paraudio.testing import Stepper

pytestmark = [
    pytest.mark.contract("ops/shutting_down/evict"),
    pytest.mark.parametrize("slots", [1, 2, 4]),
]


def model(name: str, slots: int, **load_ms: int) -> ModelSpec:
    return ModelSpec(
        id=name, family="simulated", path=f"/{name}", task="tts", slots=slots, load_options=load_ms
    )


@pytest.fixture
def stepper() -> Iterator[Stepper]:
    with Stepper() as it:
        yield it


def retirements(house: House) -> list[tuple[str | None, object]]:
    return [
        (event.model, event.facts["why"])
        for event in house.journal.since(0)
        if event.kind is Kind.RETIRED
    ]


def ended(house: House) -> None:
    """Stop, and find nothing that was cut, left or against the rules."""
    house.stop()
    house.advance(30)
    assert (house.phase, house.record_cuts()) == ("stopped", [])
    census = house.family.census
    assert (census.weights, census.sessions, census.wrongs) == ({}, {}, [])
    assert house.violations() == []


def test_nobody_is_evicted_for_a_load_that_waited_for_room_when_the_drain_began(
    stepper: Stepper, slots: int
) -> None:
    house = House(Rules(limit=1, hang_s=10), stepper)
    house.open([model("a", slots), model("b", slots)])
    for index in range(slots):
        house.use(f"a{index}", "a", run_ms=3000)
    house.use("waits", "b")
    assert house.model("b").active_slots == 1
    house.advance(1)
    house.drain()
    assert house.ends == {"waits": "shutting_down"}
    assert house.model("b").active_slots == 0
    house.advance(2)
    assert {house.ends[f"a{index}"] for index in range(slots)} == {"done"}
    house.advance(5)
    assert house.model("a").loaded, "it is idle now, and nobody is left who wants its place"
    assert retirements(house) == []
    ended(house)
    assert retirements(house) == [("a", "shutdown")]


def test_an_eviction_that_has_begun_ends_and_so_does_the_load_it_made_room_for(
    stepper: Stepper, slots: int
) -> None:
    house = House(Rules(limit=1, hang_s=10), stepper)
    house.open([model("a", slots, unload_ms=4000), model("b", slots, load_ms=2000)])
    house.use("warm", "a")
    house.use("incoming", "b", run_ms=1000)
    assert (house.model("a").state, house.model("b").state) == ("unloading", "loading")
    house.advance(1)
    house.drain()
    house.advance(2)
    assert house.ends["incoming"] == "done"
    assert house.model("a").state == "unloading"
    house.advance(1)
    assert house.model("a").state == "unloaded"
    ended(house)
    assert retirements(house) == [("a", "evict"), ("b", "shutdown")]


def test_idle_models_stay_loaded_until_the_stop(stepper: Stepper, slots: int) -> None:
    house = House(Rules(idle_ms=1000, hang_s=10), stepper)
    house.open([model("a", slots), model("b", slots)])
    house.use("warm a", "a")
    house.advance(0.5)
    house.use("warm b", "b", run_ms=100)
    house.advance(0.25)
    house.drain()
    house.advance(10)
    assert house.model("a").loaded
    assert house.model("b").loaded
    assert retirements(house) == []
    ended(house)
    assert sorted(retirements(house), key=str) == [("a", "shutdown"), ("b", "shutdown")]
