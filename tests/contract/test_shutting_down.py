"""What a drain does to evictions: none begins any more, and none that has begun is undone."""

import pytest
from tests.contract.house import House, Rules, model

from paraudio.testing import Stepper

pytestmark = [
    pytest.mark.contract("ops/shutting_down/evict"),
    pytest.mark.parametrize("slots", [1, 2, 4]),
]


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
    assert house.retirements() == []
    house.end()
    assert house.retirements() == [("a", "shutdown")]


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
    house.end()
    assert house.retirements() == [("a", "evict"), ("b", "shutdown")]


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
    assert house.retirements() == []
    house.end()
    assert sorted(house.retirements(), key=str) == [("a", "shutdown"), ("b", "shutdown")]
