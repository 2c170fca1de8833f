"""Waiting for a slot or for a load, its bounds, and clients that leave."""

import pytest
from tests.contract.house import House, Rules, model

from paraudio.journal import Kind
from paraudio.testing import Stepper

pytestmark = pytest.mark.parametrize("slots", [1, 2, 4])


def full(stepper: Stepper, slots: int, rules: Rules, *, seconds: float = 10) -> House:
    """A house where every slot runs, for that long."""
    house = House(rules, stepper)
    house.open([model("m", slots)])
    for index in range(slots):
        house.use(f"runs{index}", "m", run_ms=round(seconds * 1000))
    return house


@pytest.mark.contract("time/admission_timeout_request")
@pytest.mark.parametrize(
    ("request_ms", "server_ms", "leaves_s"),
    [(1000, 5000, 1), (5000, 1000, 1), (None, 1000, 1), (0, 1000, 1), (1000, 0, 1), (0, 0, None)],
)
def test_a_request_leaves_at_the_smaller_of_both_bounds(
    stepper: Stepper, request_ms: int | None, server_ms: int, leaves_s: int | None, slots: int
) -> None:
    house = full(stepper, slots, Rules(busy_ms=server_ms, hang_s=5))
    house.use("waits", "m", bound_ms=request_ms)
    house.advance(0.999)
    assert house.inside[-1] == "waits"
    house.advance(0.001)
    if leaves_s is None:
        house.advance(9)
        assert (house.ends["waits"], house.left_at["waits"]) == ("done", house.left_at["runs0"])
    else:
        assert (house.ends["waits"], house.left_at["waits"]) == ("server_busy", leaves_s)
        assert house.counters("m") == (slots, 0, 0, 0)
    house.settle(step_s=10, steps=2)
    house.end()


@pytest.mark.contract("time/admission_timeout_manager")
@pytest.mark.parametrize("manager", ["unload", "change"])
def test_a_manager_that_leaves_at_its_bound_lets_those_behind_it_in_at_once(
    stepper: Stepper, manager: str, slots: int
) -> None:
    house = full(stepper, slots, Rules(busy_ms=0, hang_s=5))
    house.leave("runs0")
    house.use("stays", "m", run_ms=10_000)
    if manager == "unload":
        house.unload("manager", "m", bound_ms=2000)
    else:
        house.register("manager", model("m", slots, path="/new"), bound_ms=2000)
    for index in range(slots):
        house.use(f"behind{index}", "m", run_ms=1000)
    house.advance(1)
    house.leave("stays")
    spare = slots > 1
    assert house.counters("m") == (slots - 1 if spare else 1, slots if spare else 0, int(spare), 0)
    house.advance(1)
    if spare:
        assert (house.ends["manager"], house.left_at["manager"]) == ("server_busy", 2)
        (granted,) = [event for event in house.kinds(Kind.GRANTED) if event.at == 2]
        (left,) = [event for event in house.kinds(Kind.LEFT) if event.at == 2]
        assert granted.seq == left.seq + 1, "whoever becomes grantable is granted in that step"
    else:
        assert house.ends["manager"] == "done", "nobody was left whom it had to wait for"
    assert house.model("m").spec.path == ("/new" if manager == "change" and not spare else "/m")
    house.settle(step_s=20, steps=3)
    house.end()


@pytest.mark.contract("time/healthy_and_overdue_blockers")
@pytest.mark.parametrize("claim", ["request", "manager"])
def test_only_where_every_holder_is_overdue_is_a_newcomer_sent_away_at_once(
    stepper: Stepper, claim: str, slots: int
) -> None:
    house = full(stepper, slots, Rules(busy_ms=0, hang_s=5))

    def come(name: str, bound_ms: int) -> None:
        if claim == "request":
            house.use(name, "m", bound_ms=bound_ms)
        else:
            house.unload(name, "m", bound_ms=bound_ms)

    house.advance(2)
    come("exactly", 2000)
    assert "exactly" in house.inside, "held for as long as the bound is not yet longer"
    house.advance(0.5)
    come("hopeless", 2000)
    assert house.ends["hopeless"] == "server_busy"
    come("patient", 3000)
    assert "patient" in house.inside
    house.leave("exactly")
    house.leave("patient")
    house.leave("runs0")
    house.use("healthy", "m", run_ms=10_000)
    come("hopeful", 2000)
    assert "hopeful" in house.inside, "one healthy holder allows the wait"
    house.advance(2)
    assert house.ends["hopeful"] == "server_busy"
    refused = [event.facts["why"] for event in house.kinds(Kind.REFUSED)]
    assert refused == ["server_busy"]
    house.settle(step_s=10, steps=3)
    house.end()


@pytest.mark.contract("time/timeout_zero_and_bulk")
def test_a_bulk_and_whoever_has_no_bound_wait_for_as_long_as_it_takes(
    stepper: Stepper, slots: int
) -> None:
    house = full(stepper, slots, Rules(busy_ms=0, hang_s=5), seconds=100_000)
    house.advance(1000)
    house.unload_many("bulk", ["m"])
    house.use("behind", "m")
    house.advance(90_000)
    assert house.inside[-2:] == ["bulk", "behind"]
    house.settle(step_s=10_000, steps=3)
    assert house.left_at["bulk"] == 100_000
    assert house.ends["behind"] == "done"
    house.end()


@pytest.mark.contract("time/disconnect_queued", "beyond/g01_waiter_leaves_on_disconnect")
def test_of_those_who_queue_the_one_that_leaves_uses_no_slot(stepper: Stepper, slots: int) -> None:
    house = full(stepper, slots, Rules(hang_s=5), seconds=2)
    for index in range(2 * slots):
        house.use(f"waits{index}", "m", run_ms=1000)
    house.leave("waits0")
    assert house.counters("m") == (slots, 2 * slots - 1, 0, 0)
    house.settle(step_s=10, steps=3)
    (gone,) = [each for each in house.kinds(Kind.LEFT) if each.facts["why"] == "cancelled"]
    assert gone.facts["ticket"] not in [
        each.facts["ticket"] for each in house.kinds(Kind.GRANTED, Kind.RUN_STARTED)
    ]
    assert [house.ends[f"waits{index}"] for index in range(1, 2 * slots)] == ["done"] * (
        2 * slots - 1
    )
    house.end()


@pytest.mark.contract(
    "time/disconnect_waiting_initialization",
    "beyond/g02_initializer_disconnect_keeps_load",
    "phase/admitted_initializing",
)
@pytest.mark.parametrize("leaver", ["driver", "follower"])
def test_a_client_that_leaves_during_a_load_gives_its_slot_up_unless_it_drives(
    stepper: Stepper, leaver: str, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([model("m", slots, load_ms=5000)])
    house.use("driver", "m")
    house.use("follower", "m")
    house.advance(1)
    admitted = min(slots, 2)
    assert house.counters("m") == (admitted, 2 - admitted, 0, 0)
    house.leave(leaver)
    assert house.ends == {leaver: "cancelled"}
    still = 2 if leaver == "driver" else 1
    assert house.counters("m") == (min(slots, still), still - min(slots, still), 0, 0)
    house.advance(4)
    assert house.model("m").loaded, "the load ends first"
    assert house.counters("m") == (0, 0, 0, 0)
    assert len(house.kinds(Kind.LOAD_STARTED)) == 1
    runs = [event.facts["request"] for event in house.kinds(Kind.RUN_STARTED)]
    assert runs == ["follower" if leaver == "driver" else "driver"]
    house.end()


@pytest.mark.contract("beyond/g07_queue_bound")
def test_a_queue_takes_as_many_as_it_may_and_counts_managers_too(
    stepper: Stepper, slots: int
) -> None:
    house = full(stepper, slots, Rules(queue=2, hang_s=5), seconds=3)
    house.use("first", "m")
    house.unload("second", "m")
    house.use("third", "m")
    assert house.ends == {"third": "queue_full"}
    house.leave("first")
    house.use("fourth", "m")
    assert house.inside[-2:] == ["second", "fourth"]
    house.settle(step_s=10, steps=3)
    assert (house.ends["second"], house.ends["fourth"]) == ("done", "done")
    house.end()


@pytest.mark.contract("order/different_models_either_order")
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_whatever_one_model_does_the_other_neither_waits_nor_notices(
    stepper: Stepper, order: str, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([model("a", slots, load_ms=9000), model("b", slots)])
    for name in order:
        if name == "a":
            house.use("slow", "a")
            house.unload("slower", "a")
        else:
            for index in range(slots):
                house.use(f"quick{index}", "b", run_ms=1000)
    house.advance(1)
    assert [house.ends[f"quick{index}"] for index in range(slots)] == ["done"] * slots
    assert house.inside == ["slow", "slower"]
    house.settle(step_s=20, steps=2)
    house.end()
