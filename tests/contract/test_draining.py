"""Every operation on a model whose slots are all busy while the server drains, and its end."""

from collections.abc import Callable

import pytest
from tests.contract.house import House, Rules, model

from paraudio.journal import Kind
from paraudio.testing import Stepper

pytestmark = pytest.mark.parametrize("slots", [1, 2, 4])

LATE: dict[str, Callable[[House, int], None]] = {
    "inference": lambda house, _: house.use("late", "m"),
    "register": lambda house, slots: house.register("late", model("m", slots, path="/new")),
    "unload": lambda house, _: house.unload("late", "m"),
    "bulk_unload": lambda house, _: house.unload_many("late", ["m"]),
}


def busy(stepper: Stepper, slots: int) -> House:
    """A house where every slot runs for two seconds and one of each kind waits."""
    house = House(Rules(hang_s=5), stepper)
    house.open([model("m", slots, unload_ms=1000)])
    for index in range(slots):
        house.use(f"runs{index}", "m", run_ms=2000)
    house.use("waits", "m")
    house.unload("manager", "m")
    house.unload_many("bulk", None)
    assert house.counters("m") == (slots, 1, 2, 0)
    house.advance(1)
    house.drain()
    return house


@pytest.mark.parametrize(
    "operation",
    [pytest.param(each, marks=pytest.mark.contract(f"ops/shutting_down/{each}")) for each in LATE],
)
@pytest.mark.contract("time/shutdown_queued_request", "time/shutdown_active_finite_handler")
def test_who_waits_and_who_comes_late_is_sent_away_and_what_runs_ends_well(
    stepper: Stepper, operation: str, slots: int
) -> None:
    house = busy(stepper, slots)
    assert house.ends == dict.fromkeys(("waits", "manager", "bulk"), "shutting_down")
    history = house.journal.revision
    LATE[operation](house, slots)
    assert house.ends["late"] == "shutting_down"
    assert all(event.kind is Kind.REFUSED for event in house.journal.since(history))
    assert house.counters("m") == (slots, 0, 0, 0)
    house.advance(1)
    assert [house.ends[f"runs{index}"] for index in range(slots)] == ["done"] * slots
    assert house.left_at["runs0"] == house.now
    assert house.model("m").spec.path == "/m"
    house.end()
    assert house.retirements() == [("m", "shutdown")]


@pytest.mark.contract("ops/shutting_down/status", "state/shutting_down")
def test_a_status_tells_of_the_drain_and_of_what_still_runs(stepper: Stepper, slots: int) -> None:
    house = busy(stepper, slots)
    snapshot = house.runtime.snapshot()
    assert (snapshot.phase, snapshot.revision) == ("draining", house.journal.revision)
    (seen,) = snapshot.models
    assert (seen.state, seen.loaded, seen.slots, seen.active_slots) == ("ready", True, slots, slots)
    assert house.runtime.snapshot() == snapshot
    house.advance(1)
    assert house.counters("m") == (0, 0, 0, 0)
    house.end()


@pytest.mark.contract("ops/shutting_down/shutdown")
def test_a_second_drain_changes_nothing_and_a_stop_ends_what_runs(
    stepper: Stepper, slots: int
) -> None:
    house = busy(stepper, slots)
    history = house.journal.revision
    house.drain()
    assert house.journal.revision == history
    house.stop()
    ends = {house.ends[f"runs{index}"] for index in range(slots)}
    assert ends == {"shutting_down"}
    house.stop()
    house.advance(1)
    assert house.phase == "stopped"
    assert len(house.runtime.cuts()) == slots, "one line for each run"
    assert [event.facts["phase"] for event in house.kinds(Kind.PHASE)] == [
        *("running", "draining", "stopping", "stopped")
    ]


@pytest.mark.contract("time/shutdown_manager")
@pytest.mark.parametrize("operation", ["unload", "change", "new"])
def test_a_manager_that_works_when_the_drain_begins_ends_well(
    stepper: Stepper, operation: str, slots: int
) -> None:
    house = House(Rules(hang_s=60), stepper)
    house.open([model("m", slots, load_ms=2000, unload_ms=3000)])
    house.use("warm", "m")
    house.settle(step_s=5, steps=2)
    match operation:
        case "unload":
            house.unload("manager", "m")
        case "change":
            house.register("manager", model("m", slots, path="/new", load_ms=2000))
        case _:
            house.register("manager", model("n", slots, load_ms=2000))
    house.advance(1)
    house.drain()
    assert "manager" not in house.ends
    house.advance(20)
    assert house.ends["manager"] == "done"
    assert house.model("m").loaded == (operation != "unload")
    assert house.model("m").spec.path == ("/new" if operation == "change" else "/m")
    house.end()


@pytest.mark.contract("time/shutdown_hung_backend", "beyond/g05_bounded_shutdown")
@pytest.mark.parametrize("can_kill", [False, True])
def test_backends_that_never_return_do_not_keep_the_server(
    stepper: Stepper, can_kill: bool, slots: int
) -> None:
    house = House(Rules(hang_s=2, can_kill=can_kill), stepper)
    house.open([model("m", slots, ignore_cancel=True)])
    for index in range(slots):
        house.use(f"hangs{index}", "m", run_ms=10**9)
    house.stop()
    house.leave_all()
    house.advance(2)
    assert house.inside == [], "users are let go after the hang timeout"
    house.advance(6)
    assert house.phase == "stopped"
    cuts = house.record_cuts()
    runs = [cut for cut in cuts if "its run on model 'm' was cancelled" in cut]
    assert len(runs) == slots
    abandoned = [cut for cut in cuts if "ignored its stop and was abandoned" in cut]
    assert len(abandoned) == (0 if can_kill else slots)
    assert len(house.isolation.abandoned()) == (0 if can_kill else slots)
    assert house.violations() == []
    house.close()
