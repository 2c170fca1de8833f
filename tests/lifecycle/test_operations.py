"""Every operation in every state of a model: what it waits for, answers, and leaves behind."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.lifecycle.stage import Stage, having, open_stage, spec
from trio.testing import MockClock

from paraudio.journal import Kind
from paraudio.lifecycle import Unloaded
from paraudio.spec import ModelSpec

STATES = ("unloaded", "loading", "ready", "reconfiguring", "unloading")
SLOTS = (1, 2, 4)
FAILS_ONCE = {"fail_loads": 1}


def _model(slots: int, path: str = "/old") -> ModelSpec:
    return spec("m", slots, path=path, load_ms=2000, unload_ms=2000, run_ms=1000)


async def _reach(stage: Stage, state: str, slots: int) -> None:
    """Bring the model into a state, with older work that an operation has to wait for."""
    await stage.ask("neighbour", "b")
    if state not in {"unloaded", "loading"}:
        await stage.ask("warm", "m")
        await stage.done()
    match state:
        case "loading" | "ready":
            await stage.ask("older", "m")
        case "reconfiguring":
            await stage.register("older", _model(slots, "/middle"))
        case "unloading":
            await stage.unload("older", "m")
    assert stage.model("m").state == state


@asynccontextmanager
async def _in_state(
    state: str, slots: int, *others: ModelSpec, limit: int = 0
) -> AsyncIterator[Stage]:
    """A stage with model M in a state, an idle neighbour B that is loaded, and others."""
    async with open_stage(_model(slots), spec("b"), *others, max_loaded_models=limit) as stage:
        await _reach(stage, state, slots)
        yield stage


def _older_ended(stage: Stage, state: str) -> float:
    """When the work ended that was there before the operation, which has to be well."""
    if state == "unloaded":
        return 0
    what, at = stage.ends()["older"]
    assert what == {"reconfiguring": "reconfigured", "unloading": "unloaded"}.get(state, "done")
    return at


def _cells(operation: str) -> list[object]:
    return [
        pytest.param(state, marks=pytest.mark.contract(f"ops/{state}/{operation}"))
        for state in STATES
    ]


Act = Callable[[Stage], Awaitable[None]]


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("inference"))
async def test_a_request_runs_as_soon_as_the_model_lets_it(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        began = stage.now
        await stage.ask("op", "m")
        await stage.done()
        older = _older_ended(stage, state)
        expected = {
            "unloaded": began + 3,
            "loading": older if slots > 1 else older + 1,
            "ready": older if slots > 1 else older + 1,
            "reconfiguring": older + 1,
            "unloading": older + 3,
        }[state]
        assert stage.ends()["op"] == ("done", expected)
        assert stage.made_by("op")[0] == ("/middle" if state == "reconfiguring" else "/old")
        assert stage.model("m").state == "ready"
        stage.assert_quiet()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("register"))
async def test_a_registration_waits_for_older_work_and_ends_ready(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        await stage.register("op", _model(slots, "/new"))
        await stage.ask("younger", "m")
        await stage.done()
        older = _older_ended(stage, state)
        probe = 0 if slots == 1 else 4
        retire = 0 if state in {"unloaded", "unloading"} else 2
        assert stage.ends()["op"] == ("reconfigured", older + probe + retire + 2)
        assert stage.ends()["younger"] == ("done", older + probe + retire + 3)
        assert stage.made_by("younger")[0] == "/new"
        assert (stage.model("m").state, stage.model("m").spec.path) == ("ready", "/new")
        stage.assert_quiet()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("unload"))
async def test_an_unload_waits_for_older_work_and_is_idempotent(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        await stage.unload("op", "m")
        await stage.unload("again", "m")
        await stage.done()
        older = _older_ended(stage, state)
        takes = 0 if state in {"unloaded", "unloading"} else 2
        assert stage.ends()["op"] == ("unloaded", older + takes)
        assert stage.ends()["again"] == ("unloaded", older + takes)
        assert (stage.model("m").state, stage.model("m").loaded) == ("unloaded", False)
        assert stage.model("m").max_parallel_slots is None
        assert stage.model("b").loaded
        stage.assert_quiet()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("bulk_unload"))
async def test_a_bulk_unload_frees_the_idle_neighbour_before_it_waits(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        began = stage.now
        await stage.unload_many("op", ["m", "b", "m"])
        assert not stage.model("b").loaded
        await stage.done()
        older = _older_ended(stage, state)
        takes = 0 if state in {"unloaded", "unloading"} else 2
        assert stage.ends()["op"] == ("unloaded", max(began, older + takes))
        assert stage.answers["op"] == Unloaded(("m", "b"), ())
        assert stage.model("m").state == "unloaded"
        stage.assert_quiet()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("evict"))
async def test_an_eviction_takes_who_is_idle_and_resident(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots, spec("c"), spec("d"), limit=2) as stage:
        if state == "ready":
            await stage.done()
            await stage.ask("neighbour again", "b")
        elif state in {"unloaded", "unloading"}:
            await stage.ask("filler", "d")  # there is room for it beside b, and for nobody else
        await stage.ask("incoming", "c")
        assert stage.model("m").state == state or state == "ready"
        await stage.done()
        _older_ended(stage, state)
        await stage.pass_time(2)
        stage.assert_quiet()
        evicted = [model for model, why in stage.retirements() if why == "evict"]
        assert evicted == (["m"] if state == "ready" else ["b"])
        assert stage.model("m").state == (
            "ready" if state in {"loading", "reconfiguring"} else "unloaded"
        )
        assert stage.ends()["incoming"][0] == "done"


@pytest.mark.contract("ops/loading/evict")
@pytest.mark.parametrize("slots", SLOTS)
async def test_who_needs_the_room_of_a_model_that_loads_is_sent_away_at_his_bound(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(_model(slots), spec("c"), max_loaded_models=1) as stage:
        await stage.ask("older", "m")
        await stage.ask("incoming", "c", bound_ms=1000)
        await stage.done()
        assert stage.ends() == {"incoming": ("server_busy", 1), "older": ("done", 3)}
        assert (stage.model("m").state, stage.retirements()) == ("ready", [])
        stage.assert_quiet()


@pytest.mark.contract("ops/reconfiguring/inference")
@pytest.mark.parametrize("slots", SLOTS)
async def test_a_request_behind_a_change_that_fails_loads_the_new_configuration_itself(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(_model(slots)) as stage:
        await stage.ask("warm", "m")
        await stage.done()
        # With several slots the first load is the probe's, which has to succeed.
        broken = having(_model(slots, "/new"), **({"fail_clone": 2} if slots > 1 else FAILS_ONCE))
        await stage.register("change", broken)
        await stage.ask("op", "m")
        await stage.done()
        assert stage.ends()["change"][0] == "load_failed"
        assert stage.ends()["op"][0] == "done"
        assert stage.made_by("op")[0] == "/new"
        assert stage.model("m").state == "ready"
        stage.assert_quiet()


@pytest.mark.contract("state/models_counters", "beyond/g06_atomic_status")
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("status"))
async def test_status_tells_all_and_takes_nothing(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        history = len(stage.journal)
        whole = stage.runtime.snapshot()
        seen = stage.model("m")
        assert whole.revision == history
        assert whole.models == (seen, stage.model("b"))
        assert (seen.state, seen.slots) == (state, slots)
        probing = state == "reconfiguring" and slots > 1
        assert seen.loaded == (state == "ready" or probing)
        assert seen.max_parallel_slots == (16 if seen.loaded else None)
        assert seen.active_slots == (1 if state in {"loading", "ready"} else 0)
        assert (seen.queued_requests, seen.queued_managers) == (0, 0)
        assert len(stage.journal) == history
        await stage.done()
        assert whole.models[0] == seen, "a snapshot does not change any more"
        assert stage.runtime.snapshot().revision > history or state == "unloaded"


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("state", _cells("shutdown"))
async def test_a_shutdown_ends_every_state_unloaded(
    autojump_clock: MockClock, state: str, slots: int
) -> None:
    async with _in_state(state, slots) as stage:
        stage.runtime.drain()
        await stage.ask("late", "m")
        assert stage.ends()["late"][0] == "shutting_down"
        await stage.runtime.wait_drained()
        await stage.done()
        _older_ended(stage, state)
        stage.runtime.stop()
        while stage.runtime.snapshot().phase != "stopped":
            await stage.runtime.wait_change(stage.runtime.snapshot().revision)
        assert {model.state for model in stage.runtime.snapshot().models} == {"unloaded"}
        assert stage.runtime.cuts() == []
        stage.assert_quiet()


@pytest.mark.contract("order/request_then_manager")
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("manager", ["unload", "register"])
async def test_a_manager_waits_for_all_older_work_and_no_younger_passes_it(
    autojump_clock: MockClock, manager: str, slots: int
) -> None:
    async with open_stage(spec("m", slots, path="/old", run_ms=2000)) as stage:
        for index in range(slots + 1):
            await stage.ask(f"older{index}", "m")
        if manager == "unload":
            await stage.unload("manager", "m")
        else:
            await stage.register("manager", spec("m", slots, path="/new"))
        await stage.ask("younger", "m", run_ms=0)
        assert stage.model("m").queued_managers == 1
        await stage.done()
        assert [stage.when(f"older{index}", "done") for index in range(slots + 1)] == [
            *([2] * slots),
            4,
        ]
        assert stage.ends()["manager"][1] == 4
        assert stage.when("younger", "granted") == 4
        assert stage.made_by("younger")[0] == ("/old" if manager == "unload" else "/new")
        stage.assert_quiet()


@pytest.mark.contract("order/manager_then_request")
@pytest.mark.parametrize("slots", SLOTS)
async def test_a_request_behind_a_manager_binds_what_the_manager_leaves(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("m", slots, path="/old")) as stage:
        await stage.ask("warm", "m")
        await stage.register("manager", spec("m", slots, path="/new", load_ms=1000))
        await stage.ask("impatient", "m", bound_ms=500)
        await stage.ask("patient", "m")
        await stage.done()
        assert stage.ends()["impatient"] == ("server_busy", 0.5)
        tickets = {e.facts["request"]: e.facts["ticket"] for e in stage.kinds(Kind.QUEUED)}
        granted = [event.facts["ticket"] for event in stage.kinds(Kind.GRANTED)]
        assert tickets["impatient"] not in granted
        assert tickets["patient"] in granted
        assert stage.made_by("patient")[0] == "/new"
        bound = stage.kinds(Kind.BOUND)[-1]
        assert (bound.facts["request"], bound.facts["config"]) == ("patient", 2)


@pytest.mark.contract("order/manager_then_manager")
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("first", ["unload", "register"])
@pytest.mark.parametrize("second", ["unload", "register"])
async def test_managers_run_in_the_order_in_which_they_came(
    autojump_clock: MockClock, first: str, second: str, slots: int
) -> None:
    async with open_stage(spec("m", slots, path="/old", run_ms=1000)) as stage:
        await stage.ask("older", "m")
        for number, kind in enumerate((first, second), start=1):
            if kind == "unload":
                await stage.unload(f"manager{number}", "m")
            else:
                await stage.register(f"manager{number}", spec("m", slots, path=f"/new{number}"))
        await stage.done()
        paths = {"unload": "/old", "register": "/new1"}
        last = paths[first] if second == "unload" else "/new2"
        assert stage.model("m").spec.path == last
        assert stage.model("m").loaded == (second == "register")
        granted = [
            event.facts["ticket"]
            for event in stage.kinds(Kind.GRANTED)
            if event.facts["slots"] == list(range(slots))
        ]
        assert granted[-2:] == [2, 3]
        stage.assert_quiet()


@pytest.mark.contract("order/request_then_request")
@pytest.mark.parametrize("slots", SLOTS)
async def test_requests_share_a_load_and_no_session(autojump_clock: MockClock, slots: int) -> None:
    async with open_stage(spec("m", slots, load_ms=1000, run_ms=1000)) as stage:
        for index in range(2 * slots):
            await stage.ask(f"r{index}", "m")
        await stage.done()
        assert stage.gates.count("load") == 1
        for wave in (range(slots), range(slots, 2 * slots)):
            sessions = {stage.results[f"r{index}"].artifacts["session"] for index in wave}
            assert len(sessions) == slots
            assert len({stage.when(f"r{index}", "done") for index in wave}) == 1


@pytest.mark.contract("order/different_models_either_order")
@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_other_models_go_on_beside_a_slow_manager(
    autojump_clock: MockClock, order: str
) -> None:
    acts: dict[str, Act] = {
        "a": lambda stage: stage.register("slow", spec("a", path="/new", load_ms=9000)),
        "b": lambda stage: stage.ask("quick", "b", run_ms=1000),
    }
    async with open_stage(spec("a"), spec("b")) as stage:
        for name in "ab":
            await stage.ask(name, name)
        for name in order:
            await acts[name](stage)
        await stage.done()
        assert stage.ends()["quick"] == ("done", 1)
        assert stage.ends()["slow"] == ("reconfigured", 9)
