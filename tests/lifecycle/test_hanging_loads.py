"""Loads and teardowns that never end: told to stop, given up, counted, and in nobody's way."""

from dataclasses import replace

import pytest
from tests.lifecycle.stage import Stage, having, open_stage, spec
from trio.testing import MockClock

from paraudio.errors import LoadTimeoutError
from paraudio.journal import Kind
from paraudio.lifecycle import MOST_ABANDONED
from paraudio.spec import Json, ModelSpec

FOR_EVER_MS = 10**9
HANG_S = 2.0


def deaf(slots: int = 1, *, timeout_ms: int | None = None, **options: Json) -> ModelSpec:
    """A model whose first load neither ends nor stops."""
    bare = spec("a", slots, load_ms=FOR_EVER_MS, load_ignores_cancel=True)
    return replace(having(bare, **options), load_timeout_ms=timeout_ms)


def whys(stage: Stage) -> list[str]:
    return [str(event.facts["error"]) for event in stage.kinds(Kind.LOAD_FAILED)]


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_a_load_that_takes_too_long_is_given_up_and_all_who_wait_are_told(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(deaf(2, timeout_ms=5000), spec("b"), hang_timeout_s=HANG_S) as stage:
        for name in ("driver", "follower"):
            await stage.ask(name, "a")
        await stage.pass_time(5 + HANG_S / 2)
        assert stage.model("a").state == "loading", "it may still heed its stop"
        await stage.pass_time(HANG_S / 2)
        assert stage.ends() == {
            "driver": ("load_timeout", 5 + HANG_S),
            "follower": ("load_timeout", 5 + HANG_S),
        }
        assert isinstance(stage.errors["driver"], LoadTimeoutError)
        assert stage.errors["driver"].status == 504
        assert "5000 ms" in stage.errors["driver"].message
        model = stage.model("a")
        assert (model.state, model.active_slots, model.abandoned_calls) == ("unloaded", 0, 1)
        (given_up,) = stage.kinds(Kind.ABANDONED)
        assert given_up.facts == {"call": 1, "what": "model 'a': load"}
        await stage.ask("other", "b")
        assert stage.ends()["other"][0] == "done"


async def test_a_load_that_heeds_its_timeout_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    slow = replace(spec("a", load_ms=FOR_EVER_MS), load_timeout_ms=5000)
    async with open_stage(slow) as stage:
        await stage.ask("r", "a")
        await stage.done()
        assert stage.ends()["r"] == ("load_timeout", 5)
        assert stage.model("a").abandoned_calls == 0
        assert stage.kinds(Kind.ABANDONED) == []


async def test_a_load_has_no_bound_where_the_model_says_so(autojump_clock: MockClock) -> None:
    patient = replace(spec("a", load_ms=10_000_000), load_timeout_ms=0)
    async with open_stage(patient, spec("b", load_ms=10_000_000)) as stage:
        await stage.ask("patient", "a")
        await stage.ask("bounded", "b")
        await stage.done()
        assert stage.ends() == {"patient": ("done", 10_000), "bounded": ("load_timeout", 600)}


async def test_sessions_count_as_a_part_of_the_load(autojump_clock: MockClock) -> None:
    async with open_stage(replace(spec("a", 2), load_timeout_ms=5000)) as stage:
        gate = stage.gates.hold("session", session=2)
        await stage.ask("r", "a")
        await stage.done()
        assert stage.ends()["r"] == ("load_timeout", 5)
        assert gate.held == []
        assert stage.gates.count("close_model") == 1


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_an_abandoned_load_that_returns_is_freed_and_no_longer_counted(
    autojump_clock: MockClock,
) -> None:
    late = replace(spec("a", load_ms=60_000, load_ignores_cancel=True), load_timeout_ms=5000)
    async with open_stage(late, hang_timeout_s=HANG_S) as stage:
        await stage.ask("r", "a")
        await stage.pass_time(30)
        assert stage.model("a").abandoned_calls == 1
        revision = stage.runtime.snapshot().revision
        await stage.runtime.wait_change(revision)
        assert stage.now == 60
        assert stage.model("a").abandoned_calls == 0
        (returned,) = stage.kinds(Kind.RETURNED)
        assert returned.facts == {"call": 1}
        await stage.pass_time(1)
        assert stage.gates.count("close_model") == 1, "what it built after all was freed"


async def test_a_model_that_leaves_too_much_behind_is_not_loaded_again(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(deaf(timeout_ms=1000), hang_timeout_s=HANG_S) as stage:
        for number in range(MOST_ABANDONED):
            await stage.ask(f"r{number}", "a")
            await stage.pass_time(10)
            assert stage.ends()[f"r{number}"][0] == "load_timeout"
        await stage.ask("one too many", "a")
        assert stage.errors["one too many"].status == 503
        assert stage.errors["one too many"].code == "slot_stuck"
        assert stage.gates.count("load") == MOST_ABANDONED
        await stage.register("elsewhere", replace(spec("a", 2), path="/other"))
        assert stage.errors["elsewhere"].code == "slot_stuck"
        assert stage.gates.count("load") == MOST_ABANDONED


@pytest.mark.contract("beyond/g04_hung_backend_contained", "ops/loading/unload")
@pytest.mark.parametrize("comes_first", ["the unload", "the departure"])
async def test_a_load_that_nobody_waits_for_stops_for_the_manager_behind_it(
    autojump_clock: MockClock, comes_first: str
) -> None:
    slow = spec("a", 2, load_ms=FOR_EVER_MS)
    async with open_stage(slow, hang_timeout_s=HANG_S) as stage:
        await stage.ask("driver", "a")
        await stage.ask("follower", "a")
        if comes_first == "the unload":
            await stage.unload("u", "a")
        await stage.cancel("driver")
        await stage.pass_time(1)
        assert stage.model("a").state == "loading", "somebody still waits for it"
        await stage.cancel("follower")
        if comes_first == "the departure":
            await stage.pass_time(1)
            assert stage.model("a").state == "loading", "it is in nobody's way"
            await stage.unload("u", "a")
        assert stage.ends()["u"] == ("unloaded", stage.now)
        assert stage.model("a").state == "unloaded"
        assert whys(stage) == ["model 'a' was not loaded: nobody waited for it any more"]
        stage.assert_quiet()


async def test_a_load_that_nobody_waits_for_serves_the_request_that_is_next(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", load_ms=5000)) as stage:
        await stage.ask("driver", "a")
        await stage.ask("next", "a")
        await stage.unload("u", "a")
        await stage.cancel("driver")
        await stage.done()
        assert stage.ends()["next"] == ("done", 5)
        assert stage.ends()["u"] == ("unloaded", 5)
        assert stage.gates.count("load") == 1


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_an_unwanted_load_that_ignores_its_stop_does_not_keep_the_manager(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(deaf(timeout_ms=0), hang_timeout_s=HANG_S) as stage:
        await stage.ask("driver", "a")
        await stage.unload("u", "a")
        await stage.cancel("driver")
        await stage.pass_time(HANG_S)
        assert stage.ends()["u"] == ("unloaded", HANG_S)
        assert stage.model("a").abandoned_calls == 1


async def test_the_guard_counts_on_what_an_abandoned_load_may_still_take(
    autojump_clock: MockClock,
) -> None:
    free_mb = 1000
    slow = deaf(timeout_ms=1000, memory_mb=400)
    small = spec("b", memory_mb=500)
    async with open_stage(
        slow,
        small,
        hang_timeout_s=HANG_S,
        min_free_memory_mb=200,
        free_memory=lambda: free_mb * 2**20,
    ) as stage:
        await stage.ask("before", "b")
        assert stage.ends()["before"] == ("done", 0)
        await stage.unload("u", "b")
        await stage.ask("r", "a")
        await stage.pass_time(10)
        await stage.ask("after", "b")
        error = stage.errors["after"]
        assert error.code == "insufficient_memory"
        assert "abandoned loads may still take 400 MiB" in error.message


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_a_teardown_that_never_ends_is_counted_and_the_model_loads_anew(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", unload_ms=FOR_EVER_MS), hang_timeout_s=HANG_S) as stage:
        await stage.ask("first", "a")
        await stage.unload("u", "a")
        await stage.ask("second", "a")
        await stage.pass_time(HANG_S)
        assert stage.ends()["u"] == ("unloaded", HANG_S)
        assert stage.ends()["second"] == ("done", HANG_S)
        assert stage.made_by("second") == ("/a", 2)
        assert stage.model("a").abandoned_calls == 1
        (given_up,) = stage.kinds(Kind.ABANDONED)
        assert given_up.facts["what"] == "model 'a': unload"


async def test_an_abandoned_teardown_is_not_waited_for_by_a_load_that_is_short_of_memory(
    autojump_clock: MockClock,
) -> None:
    free = [1000]
    async with open_stage(
        spec("a", unload_ms=FOR_EVER_MS, memory_mb=400),
        hang_timeout_s=HANG_S,
        min_free_memory_mb=200,
        free_memory=lambda: free[0] * 2**20,
    ) as stage:
        await stage.ask("first", "a")
        free[0] = 500
        await stage.unload("u", "a")
        await stage.pass_time(HANG_S)
        await stage.ask("second", "a")
        assert stage.ends()["second"] == ("insufficient_memory", HANG_S)


@pytest.mark.contract("beyond/g06_atomic_status")
async def test_a_probe_of_an_unloaded_model_shows_as_managed(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        assert not stage.model("a").managed
        await stage.register("new", spec("a", 2, load_ms=1000))
        model = stage.model("a")
        assert (model.state, model.active_slots, model.managed) == ("unloaded", 0, True)
        await stage.done()
        assert stage.model("a").state == "ready"
        assert not stage.model("a").managed


async def test_a_probe_that_takes_too_long_is_given_up_and_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), hang_timeout_s=HANG_S) as stage:
        await stage.ask("first", "a")
        await stage.register("new", deaf(2, timeout_ms=1000))
        await stage.pass_time(1 + HANG_S)
        assert stage.ends()["new"] == ("load_timeout", 1 + HANG_S)
        model = stage.model("a")
        assert (model.state, model.loaded, model.config, model.slots) == ("ready", True, 1, 1)
        assert model.abandoned_calls == 1
        await stage.ask("second", "a")
        assert stage.made_by("second") == ("/a", 1)


async def test_the_guard_counts_on_what_an_abandoned_probe_may_still_take(
    autojump_clock: MockClock,
) -> None:
    free_mb = [10_000]
    async with open_stage(
        spec("a"),
        spec("b", memory_mb=500),
        hang_timeout_s=HANG_S,
        min_free_memory_mb=200,
        free_memory=lambda: free_mb[0] * 2**20,
    ) as stage:
        await stage.register("new", deaf(2, timeout_ms=1000, memory_mb=400))
        await stage.done()
        assert stage.ends()["new"] == ("load_timeout", 1 + HANG_S)
        free_mb[0] = 1000
        await stage.ask("after", "b")
        assert "abandoned loads may still take 400 MiB" in stage.errors["after"].message
