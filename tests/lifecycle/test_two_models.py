"""Two models in every situation of the contract, and five things that can be asked of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.lifecycle.stage import Stage, open_stage, spec
from trio.testing import MockClock

from paraudio.journal import Kind
from paraudio.lifecycle import Unloaded
from paraudio.spec import ModelSpec

LOAD_S, RUN_S, UNLOAD_S = 4, 3, 5


def _a(slots: int, path: str = "/a") -> ModelSpec:
    return spec(
        "a",
        slots,
        path=path,
        load_ms=LOAD_S * 1000,
        run_ms=RUN_S * 1000,
        unload_ms=UNLOAD_S * 1000,
    )


def _b(slots: int) -> ModelSpec:
    return spec("b", slots, load_ms=1000, run_ms=2000)


async def _warm(stage: Stage, *models: str) -> None:
    for model in models:
        await stage.ask(f"warm {model}", model, run_ms=0)
    await stage.done()


async def _full(stage: Stage, model: str, slots: int, extra: int = 0) -> None:
    for index in range(slots + extra):
        await stage.ask(f"older {model}{index}", model)


async def _a_unloaded_b_ready(stage: Stage, slots: int) -> None:
    await _warm(stage, "b")


async def _a_loading_b_ready(stage: Stage, slots: int) -> None:
    await _warm(stage, "b")
    await stage.ask("older a0", "a")
    assert stage.model("a").state == "loading"


async def _a_running_spare_b_ready(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await stage.ask("older a0", "a")


async def _a_full_queued_b_ready(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await _full(stage, "a", slots, extra=1)
    assert stage.model("a").queued_requests == 1


async def _a_reconfiguring_b_running(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await stage.register("older a0", _a(slots, "/middle"))
    await stage.ask("older b0", "b")
    assert stage.model("a").state == "reconfiguring"


async def _a_unloading_slowly_b_ready(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await stage.unload("older a0", "a")
    assert stage.model("a").state == "unloading"


async def _both_loading_or_running(stage: Stage, slots: int) -> None:
    await _full(stage, "a", 1)
    await _full(stage, "b", 1)


async def _both_running(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await _both_loading_or_running(stage, slots)


async def _other_bulk_on_a_and_b(stage: Stage, slots: int) -> None:
    await _warm(stage, "a", "b")
    await stage.ask("older a0", "a")
    await stage.ask("older b0", "b")
    await stage.unload_many("older a1", ["b", "a"])


Situation = Callable[[Stage, int], Awaitable[None]]

SITUATIONS: dict[str, Situation] = {
    function.__name__.removeprefix("_"): function
    for function in (
        _a_unloaded_b_ready,
        _a_loading_b_ready,
        _a_running_spare_b_ready,
        _a_full_queued_b_ready,
        _a_reconfiguring_b_running,
        _a_unloading_slowly_b_ready,
        _both_loading_or_running,
        _both_running,
        _other_bulk_on_a_and_b,
    )
}


@asynccontextmanager
async def _in_situation(
    situation: str, slots: int, *, guarded: bool = False
) -> AsyncIterator[Stage]:
    """A stage with both models in a situation; cold loads are guarded, or not."""
    async with open_stage(_a(slots), _b(slots), min_free_memory_mb=int(guarded)) as stage:
        await SITUATIONS[situation](stage, slots)
        yield stage


CELLS = {"both_running": "both_loading_or_running"}
"""The contract's names of situations that have another one there."""


def _cells(operation: str) -> list[object]:
    """Each situation at 1, 2 and 4 slots; at one slot there are no spare ones."""
    return [
        pytest.param(
            situation,
            slots,
            id=f"{situation}-{slots}",
            marks=pytest.mark.contract(f"two/{CELLS.get(situation, situation)}/{operation}"),
        )
        for situation in SITUATIONS
        for slots in (1, 2, 4)
        if slots > 1 or "spare" not in situation
    ]


def _older_ended(stage: Stage, model: str) -> float:
    """When the last of the work ended that a model had before the operation; all of it well."""
    ends = [end for name, end in stage.ends().items() if name.startswith(f"older {model}")]
    assert all(what in {"done", "reconfigured", "unloaded"} for what, _ in ends)
    return max((at for _, at in ends), default=0)


def _b_drained(stage: Stage) -> float:
    """When the last request ended that model B had before a bulk unload of both."""
    return max(
        [at for name, (_, at) in stage.ends().items() if name.startswith("older b")], default=0
    )


def _gone(situation: str) -> bool:
    """Whether the older work of the situation leaves model A unloaded."""
    return "unload" in situation or "bulk" in situation


@pytest.mark.parametrize(("situation", "slots"), _cells("request_a"))
async def test_a_request_to_a(autojump_clock: MockClock, situation: str, slots: int) -> None:
    async with _in_situation(situation, slots) as stage:
        began = stage.now
        await stage.ask("op", "a")
        await stage.done()
        older = _older_ended(stage, "a")
        if _gone(situation):
            expected = max(began, older) + LOAD_S + RUN_S
        elif situation in {"a_loading_b_ready", "both_loading_or_running"}:
            expected = older if slots > 1 else older + RUN_S
        elif situation == "a_running_spare_b_ready" or (situation == "both_running" and slots > 1):
            expected = began + RUN_S
        elif situation == "a_full_queued_b_ready":
            expected = began + (2 if slots > 1 else 3) * RUN_S
        else:
            expected = older + RUN_S
        assert stage.ends()["op"] == ("done", expected)
        path = "/middle" if situation == "a_reconfiguring_b_running" else "/a"
        assert stage.made_by("op")[0] == path
        assert stage.model("a").state == "ready"
        assert stage.model("b").state == ("unloaded" if "bulk" in situation else "ready")
        stage.assert_quiet()


@pytest.mark.parametrize(("situation", "slots"), _cells("request_b"))
async def test_a_request_to_b(autojump_clock: MockClock, situation: str, slots: int) -> None:
    async with _in_situation(situation, slots) as stage:
        began = stage.now
        await stage.ask("op", "b")
        expected = began + 2
        if situation == "both_loading_or_running":
            expected = began + (3 if slots > 1 else 5)
        elif situation in {"a_reconfiguring_b_running", "both_running"} and slots == 1:
            expected = began + 4
        elif "bulk" in situation:
            expected = began + 2 + 1 + 2
        await stage.pass_time(expected - began)
        assert stage.ends()["op"] == ("done", expected), "whatever A does, B does not wait for it"
        loads = situation == "both_loading_or_running" and slots > 1
        assert stage.model("a").state == (
            "loading" if loads else A_MEANWHILE.get(situation, "ready")
        )
        assert stage.model("b").state == "ready"
        await stage.done()
        _older_ended(stage, "a")
        stage.assert_quiet()


A_MEANWHILE = {
    "a_unloaded_b_ready": "unloaded",
    "a_loading_b_ready": "loading",
    "a_reconfiguring_b_running": "reconfiguring",
    "a_unloading_slowly_b_ready": "unloading",
    "other_bulk_on_a_and_b": "unloading",
}
"""What A does when a request to B is answered; it is ready in the other situations."""


@pytest.mark.parametrize(("situation", "slots"), _cells("reconfigure_a"))
async def test_a_change_of_a(autojump_clock: MockClock, situation: str, slots: int) -> None:
    async with _in_situation(situation, slots) as stage:
        began = stage.now
        await stage.register("op", _a(slots, "/new"))
        await stage.ask("younger", "a", run_ms=0)
        await stage.done()
        older = max(began, _older_ended(stage, "a"))
        probe = 0 if slots == 1 else LOAD_S + UNLOAD_S
        retire = 0 if _gone(situation) else UNLOAD_S
        assert stage.ends()["op"] == ("reconfigured", older + probe + retire + LOAD_S)
        assert stage.made_by("younger")[0] == "/new"
        older_requests = [name for name in stage.results if name.startswith("older a")]
        assert {stage.made_by(name)[0] for name in older_requests} <= {"/a"}
        assert (stage.model("a").state, stage.model("a").spec.path) == ("ready", "/new")
        assert stage.model("b").state == ("unloaded" if "bulk" in situation else "ready")
        stage.assert_quiet()


@pytest.mark.parametrize(("situation", "slots"), _cells("unload_a"))
async def test_an_unload_of_a(autojump_clock: MockClock, situation: str, slots: int) -> None:
    async with _in_situation(situation, slots) as stage:
        began = stage.now
        await stage.unload("op", "a")
        await stage.done()
        older = max(began, _older_ended(stage, "a"))
        assert stage.ends()["op"] == ("unloaded", older + (0 if _gone(situation) else UNLOAD_S))
        assert stage.model("a").state == "unloaded"
        assert stage.model("b").state == ("unloaded" if "bulk" in situation else "ready")
        stage.assert_quiet()


@pytest.mark.parametrize(("situation", "slots"), _cells("unload_a_and_b"))
async def test_a_bulk_unload_of_both(autojump_clock: MockClock, situation: str, slots: int) -> None:
    async with _in_situation(situation, slots) as stage:
        began = stage.now
        idle_b = situation.endswith("b_ready")
        await stage.unload_many("op", ["a", "b"])
        assert stage.model("b").loaded == (not idle_b and situation != "both_loading_or_running"), (
            "an idle B is freed before anybody waits for A"
        )
        await stage.done()
        older = max(began, _older_ended(stage, "a"), _older_ended(stage, "b"))
        [*_, freed] = stage.kinds(Kind.RETIRED, model="b")
        assert freed.at - stage.began == max(began, _b_drained(stage)), "B waits for B alone"
        takes = 0 if _gone(situation) else UNLOAD_S
        assert stage.ends()["op"] == ("unloaded", older + takes)
        assert stage.answers["op"] == Unloaded(("a", "b"), ())
        assert {model.state for model in stage.runtime.snapshot().models} == {"unloaded"}
        stage.assert_quiet()


@pytest.mark.contract("two/a_full_queued_b_ready/request_a")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_request_to_a_full_model_leaves_at_its_bound(
    autojump_clock: MockClock, slots: int
) -> None:
    async with _in_situation("a_full_queued_b_ready", slots) as stage:
        began = stage.now
        await stage.ask("op", "a", bound_ms=2000)
        await stage.done()
        assert stage.ends()["op"] == ("server_busy", began + 2)
        assert _older_ended(stage, "a") == began + 2 * RUN_S, "who was there before is served"
        assert (stage.model("a").state, stage.model("b").state) == ("ready", "ready")
        stage.assert_quiet()


@pytest.mark.contract("two/a_running_spare_b_ready/request_a")
@pytest.mark.parametrize("slots", [2, 4])
async def test_a_request_to_a_takes_no_spare_slot_before_a_manager_that_came_first(
    autojump_clock: MockClock, slots: int
) -> None:
    async with _in_situation("a_running_spare_b_ready", slots) as stage:
        began = stage.now
        await stage.unload("manager", "a")
        await stage.ask("op", "a")
        assert stage.model("a").active_slots == 1
        await stage.done()
        unloaded = began + RUN_S + UNLOAD_S
        assert stage.ends()["manager"] == ("unloaded", unloaded)
        assert stage.ends()["op"] == ("done", unloaded + LOAD_S + RUN_S)
        stage.assert_quiet()


@pytest.mark.contract("two/a_loading_b_ready/request_b")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_warm_b_passes_the_guard_that_a_load_holds(
    autojump_clock: MockClock, slots: int
) -> None:
    async with _in_situation("a_loading_b_ready", slots, guarded=True) as stage:
        began = stage.now
        await stage.ask("op", "b")
        await stage.pass_time(2)
        assert stage.ends()["op"] == ("done", began + 2)
        assert stage.model("a").state == "loading"
        await stage.done()
        stage.assert_quiet()


@pytest.mark.contract(
    "two/both_loading_or_running/request_a", "two/both_loading_or_running/request_b"
)
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_where_cold_loads_are_guarded_b_loads_after_a_and_everybody_is_served(
    autojump_clock: MockClock, slots: int
) -> None:
    async with _in_situation("both_loading_or_running", slots, guarded=True) as stage:
        await stage.ask("op a", "a")
        await stage.ask("op b", "b")
        await stage.done()
        runs = 2 if slots == 1 else 1
        assert stage.ends()["op a"] == ("done", LOAD_S + runs * RUN_S)
        assert stage.ends()["op b"] == ("done", LOAD_S + 1 + runs * 2), "A's load, then B's own"
        assert (stage.model("a").state, stage.model("b").state) == ("ready", "ready")
        stage.assert_quiet()
