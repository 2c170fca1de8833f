"""What fails before, during and after a load, and what it leaves, at every number of slots."""

from collections.abc import Callable

import pytest
from tests.contract.house import House, Rules, model

from paraudio.journal import Kind
from paraudio.spec import ModelSpec
from paraudio.testing import Stepper

MEBIBYTE = 2**20
SLOTS = pytest.mark.parametrize("slots", [1, 2, 4])


FAULTS: dict[str, Callable[[int], ModelSpec]] = {
    "loader": lambda slots: model("m", slots, fail_loads=1, load_ms=1000),
    "null": lambda slots: model("m", slots, null_sessions=1, load_ms=1000),
    "primary": lambda slots: model("m", slots, fail_clone=1, load_ms=1000),
}


def loaded(stepper: Stepper, spec: ModelSpec, rules: Rules | None = None) -> House:
    house = House(rules or Rules(hang_s=60), stepper)
    house.open([spec])
    house.use("warm", "m")
    house.settle(step_s=10, steps=2)
    assert house.model("m").loaded
    return house


@SLOTS
@pytest.mark.contract("fail/invalid_before_live_change")
@pytest.mark.parametrize(
    ("field", "new"),
    [
        ("slots", model("m", 17)),
        ("family", ModelSpec(id="m", family="no_such", path="/x", task="tts")),
        ("task", ModelSpec(id="m", family="simulated", path="/x", task="midi")),
        ("load_options.load_ms", model("m", load_ms=-1)),
        ("session_options.chunks", model("m", chunks=0)),
    ],
)
def test_a_candidate_that_is_wrong_in_itself_takes_no_place_in_the_queue(
    stepper: Stepper, field: str, new: ModelSpec, slots: int
) -> None:
    house = loaded(stepper, model("m", slots))
    house.use("runs", "m", run_ms=1000)
    before = house.runtime.snapshot()
    house.register("wrong", new)
    assert house.ends["wrong"] == "invalid_request_error"
    assert house.errors["wrong"].param == field
    assert house.runtime.snapshot() == before
    house.advance(1)
    assert house.ends["runs"] == "done"
    house.end()


@pytest.mark.contract(
    "fail/unsupported_capacity_on_existing", "fail/capacity_probe_of_changed_replacement"
)
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("limit", [0, 1])
def test_more_slots_than_the_weights_allow_leave_the_very_pool_in_place(
    stepper: Stepper, changed: bool, limit: int, slots: int
) -> None:
    house = loaded(
        stepper, model("m", slots, capacity=3, load_ms=1000), Rules(hang_s=60, limit=limit)
    )
    before = house.model("m")
    path = "/other" if changed else "/m"
    house.register("grows", model("m", 4, path=path, capacity=3, load_ms=1000))
    house.settle(step_s=10, steps=2)
    assert house.ends["grows"] == "invalid_request_error"
    assert house.errors["grows"].param == "slots"
    assert house.model("m") == before
    assert house.retirements() == []
    probes = house.gates.count("load") - 1
    assert probes == int(changed), "live weights tell for themselves; changed ones need a probe"
    house.use("after", "m")
    assert house.ends["after"] == "done"
    house.end()


@SLOTS
@pytest.mark.contract("register_new/first_load_failure_stays_registered")
@pytest.mark.contract("fail/initial_load_loader_failure", "fail/initial_load_null_primary")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_first_load_that_fails_leaves_the_model_registered_and_the_next_request_retries(
    stepper: Stepper, fault: str, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([])
    house.register("new", FAULTS[fault](slots))
    house.advance(1)
    assert house.ends["new"] == "load_failed"
    now = house.model("m")
    assert (now.state, now.loaded, now.slots) == ("unloaded", False, slots)
    census = house.family.census
    assert (census.weights, census.sessions) == ({}, {})
    house.use("next", "m")
    house.advance(1)
    assert house.ends["next"] == "done"
    assert house.counters("m") == (0, 0, 0, 0)
    house.end()


@pytest.mark.contract("fail/initial_load_partial_clone")
@pytest.mark.parametrize("slots", [2, 4])
def test_a_clone_that_fails_takes_everything_private_with_it_and_waiters_retry(
    stepper: Stepper, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([model("m", slots, fail_clone=slots, load_ms=1000)])
    for index in range(slots):
        house.use(f"r{index}", "m")
    house.advance(1)
    assert house.ends == {"r0": "load_failed"}, "only the one that drove the load is told"
    points = [each.point for each in house.gates.arrivals]
    tail = ["session"] * slots + ["close_session"] * (slots - 1) + ["close_model", "load"]
    assert points == ["load", *tail]
    house.advance(1)
    assert {house.ends[f"r{index}"] for index in range(1, slots)} == {"done"}
    house.end()


@pytest.mark.contract(
    "register_new/unsupported_count_stays_registered_unloaded",
)
@pytest.mark.parametrize("slots", [2, 3, 4])
def test_a_new_model_with_more_slots_than_its_weights_allow_publishes_nothing(
    stepper: Stepper, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([])
    house.register("new", model("m", slots, capacity=slots - 1))
    assert house.ends["new"] == "invalid_request_error"
    assert house.errors["new"].param == "slots"
    assert (house.model("m").state, house.model("m").slots) == ("unloaded", slots)
    assert house.kinds(Kind.PUBLISHED) == []
    house.use("tries", "m")
    assert house.ends["tries"] == "invalid_request_error"
    house.register("corrects", model("m", slots - 1, capacity=slots - 1))
    house.use("works", "m")
    assert (house.ends["corrects"], house.ends["works"]) == ("done", "done")
    house.end()


@SLOTS
@pytest.mark.contract("register_new/different_ids_independent")
def test_registrations_of_different_models_run_side_by_side(stepper: Stepper, slots: int) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([])
    house.register("slow", model("a", slots, load_ms=5000))
    house.register("quick", model("b", slots, load_ms=1000))
    house.use("user", "b", run_ms=500)
    assert {house.model(name).state for name in "ab"} == {"loading"}
    house.advance(1.5)
    assert (house.ends["quick"], house.left_at["quick"]) == ("done", 1)
    assert house.ends["user"] == "done"
    assert house.inside == ["slow"]
    house.settle(step_s=10, steps=2)
    house.end()


@SLOTS
@pytest.mark.contract("fail/residency_refusal")
def test_where_nobody_becomes_idle_a_load_is_refused_at_its_bound_and_nothing_is_lost(
    stepper: Stepper, slots: int
) -> None:
    house = loaded(stepper, model("m", slots), Rules(hang_s=60, limit=1))
    house.register("other", model("n", slots, path="/n"), bound_ms=1)
    house.settle(step_s=10, steps=2)
    house.use("back", "m", run_ms=9000)
    assert house.model("m").loaded
    for index in range(slots):
        house.use(f"cold{index}", "n", bound_ms=2000)
    assert house.counters("n") == (slots, 0, 0, 0), "a slot counts as active while it waits"
    house.advance(2)
    assert house.errors["cold0"].code == "server_busy"
    assert house.errors["cold0"].message.endswith("none became idle within 2000 ms")
    house.advance(2 * slots)
    assert {house.ends[f"cold{index}"] for index in range(slots)} == {"server_busy"}
    assert house.counters("n") == (0, 0, 0, 0)
    house.settle(step_s=10, steps=2)
    assert house.ends["back"] == "done"
    house.use("later", "n")
    assert house.ends["later"] == "done"
    assert house.retirements()[-1] == ("m", "evict")
    house.end()


@SLOTS
@pytest.mark.contract("fail/memory_refusal")
def test_too_little_memory_refuses_a_load_and_an_eviction_before_it_stays(
    stepper: Stepper, slots: int
) -> None:
    house = loaded(stepper, model("m", slots), Rules(hang_s=60, limit=1, free_mb=100))
    house.free_memory = 150 * MEBIBYTE
    house.register("big", model("n", slots, path="/n", memory_mb=60))
    assert house.ends["big"] == "insufficient_memory"
    assert (house.model("n").state, house.model("m").state) == ("unloaded", "unloaded")
    assert house.retirements() == [("m", "evict")], "an eviction is not undone"
    house.use("warm", "m")
    assert house.ends["warm"] == "done", "a model that needs less is loaded as before"
    house.free_memory = 160 * MEBIBYTE
    house.use("now", "n")
    assert house.ends["now"] == "done"
    house.end()


@SLOTS
@pytest.mark.contract("fail/slow_teardown")
def test_a_slow_teardown_keeps_its_own_model_and_nobody_else(stepper: Stepper, slots: int) -> None:
    house = House(Rules(hang_s=60, limit=1), stepper)
    house.open([model("m", slots, unload_ms=8000), model("n", slots)])
    house.use("warm", "m")
    house.unload("unloads", "m")
    now = house.model("m")
    assert (now.state, now.loaded, now.max_parallel_slots) == ("unloading", False, None)
    house.use("other", "n")
    assert house.ends["other"] == "done", "what retires is no resident and in nobody's way"
    house.use("own", "m")
    house.advance(7)
    assert house.inside == ["unloads", "own"]
    house.advance(1)
    assert (house.ends["unloads"], house.left_at["unloads"]) == ("done", 8)
    house.settle(step_s=10, steps=3)
    assert house.ends["own"] == "done"
    house.end()
