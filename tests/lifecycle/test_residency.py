"""Who makes room for whom: the decision, and the guard that carries it out."""

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.errors import InsufficientMemoryError, ServerBusyError
from paraudio.journal import Kind
from paraudio.lifecycle._residency import Resident, choose_victims

MIB = 2**20


@pytest.mark.parametrize(
    ("idle", "limit", "victims"),
    [
        ("", 0, ()),
        ("ii", 0, ()),
        ("ii", 4, ()),
        ("", 1, ()),
        ("i", 1, ("m0",)),
        ("b", 1, None),
        ("i", 2, ()),
        ("bi", 2, ("m1",)),
        ("ii", 2, ("m0",)),
        ("bb", 2, None),
        ("iii", 2, ("m0", "m1")),
        ("bbi", 2, None),
        ("bii", 2, ("m1", "m2")),
    ],
)
def test_the_least_recently_used_idle_models_make_room(
    idle: str, limit: int, victims: tuple[str, ...] | None
) -> None:
    residents = [Resident(f"m{at}", at, each == "i") for at, each in enumerate(idle)]
    assert choose_victims(residents, limit) == victims
    assert choose_victims(residents[::-1], limit) == victims


@pytest.mark.contract("ops/ready/evict")
async def test_the_least_recently_used_model_is_evicted(autojump_clock: MockClock) -> None:
    async with open_stage(*map(spec, "abc"), max_loaded_models=2) as stage:
        for name in ("a", "b", "a2", "c"):
            await stage.ask(name, name[0])
            await stage.pass_time(1)
        assert stage.retirements() == [("b", "evict")]
        assert [each.loaded for each in stage.runtime.snapshot().models] == [True, False, True]


@pytest.mark.contract("ops/unloaded/evict", "ops/loading/evict")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_request_waits_for_the_model_that_loads_and_evicts_it_after_its_use(
    autojump_clock: MockClock, slots: int
) -> None:
    specs = [spec(name, slots, load_ms=1000, run_ms=1000) for name in "ab"]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.pass_time(0.1)
        await stage.ask("b", "b")
        await stage.done()
        assert stage.ends() == {"a": ("done", 2), "b": ("done", 4)}
        assert stage.retirements() == [("a", "evict")]
        assert stage.states("b") == ["loading", "ready"]
        stage.assert_quiet()


@pytest.mark.contract("fail/residency_refusal", "ops/ready/evict")
@pytest.mark.parametrize("limit", [1, 2])
async def test_where_nothing_becomes_idle_within_the_bound_the_driver_is_told_so(
    autojump_clock: MockClock, limit: int
) -> None:
    specs = [spec(name, run_ms=10_000) for name in "abc"]
    async with open_stage(*specs, max_loaded_models=limit) as stage:
        for name in "ab"[:limit]:
            await stage.ask(name, name)
        await stage.ask("late", "c", bound_ms=3000)
        await stage.ask("patient", "c", bound_ms=0, run_ms=0)
        await stage.done()
        assert stage.ends()["late"] == ("server_busy", 3)
        assert "max_loaded_models" in stage.errors["late"].message
        assert stage.ends()["patient"] == ("done", 10)
        assert len(stage.kinds(Kind.LOAD_STARTED, model="c")) == 1, "a refusal starts no load"
        stage.assert_quiet()


@pytest.mark.contract("fail/residency_refusal")
@pytest.mark.parametrize("operation", ["new", "change", "same"])
async def test_management_waits_for_room_the_same_way(
    autojump_clock: MockClock, operation: str
) -> None:
    async with open_stage(spec("a", run_ms=5000), spec("b"), max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        new = {
            "new": spec("c"),
            "change": spec("b", path="/new"),
            "same": spec("b"),
        }[operation]
        await stage.register("late", new, bound_ms=2000)
        await stage.register("patient", new, bound_ms=0)
        await stage.done()
        assert stage.ends()["late"] == ("server_busy", 2)
        assert stage.ends()["patient"][1] == 5
        assert stage.retirements() == [("a", "evict")]
        stage.assert_quiet()


async def test_a_change_of_the_only_resident_does_not_wait_for_itself(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, path="/old"), spec("b"), max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.register("change", spec("a", 2, path="/new", load_ms=1000))
        await stage.done()
        assert stage.ends()["change"] == ("reconfigured", 2)
        assert stage.retirements() == [("a", "reconfigure")]


async def test_a_change_gives_room_to_who_waits_and_then_waits_for_room(
    autojump_clock: MockClock,
) -> None:
    specs = [spec("a", path="/old", run_ms=2000, unload_ms=500), spec("b", run_ms=2000)]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.register("change", spec("a", path="/new"))
        await stage.ask("b", "b")
        await stage.done()
        assert stage.ends()["b"] == ("done", 4)
        assert stage.ends()["change"] == ("reconfigured", 4)
        assert stage.retirements() == [("a", "reconfigure"), ("b", "evict")]


async def test_a_change_that_finds_no_room_any_more_ends_committed_and_unloaded(
    autojump_clock: MockClock,
) -> None:
    specs = [spec("a", path="/old", unload_ms=500), spec("b", run_ms=10_000)]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.register("change", spec("a", path="/new"), bound_ms=2000)
        await stage.ask("b", "b")
        await stage.pass_time(3)
        assert stage.ends()["change"] == ("server_busy", 2.5)
        seen = stage.model("a")
        assert (seen.state, seen.loaded, seen.spec.path) == ("unloaded", False, "/new")
        await stage.done()
        await stage.ask("again", "a")
        assert stage.made_by("again")[0] == "/new"


async def test_a_probe_evicts_nobody(autojump_clock: MockClock) -> None:
    specs = [spec("a", 2), spec("b", run_ms=5000)]
    async with open_stage(*specs, max_loaded_models=2) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.register("too many", spec("a", 4, path="/new", capacity=2, load_ms=1000))
        await stage.pass_time(1)
        assert stage.errors["too many"].param == "slots"
        assert not stage.retirements()
        assert stage.model("a").loaded


async def test_a_queued_request_keeps_its_model_from_being_evicted(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(
        spec("a", run_ms=2000), spec("b", run_ms=2000), max_loaded_models=1
    ) as stage:
        await stage.ask("a1", "a")
        await stage.ask("a2", "a")
        await stage.ask("b", "b")
        await stage.ask("a3", "a")
        await stage.done()
        assert [stage.when(name, "done") for name in ("a1", "a2", "a3", "b")] == [2, 4, 6, 8]


@pytest.mark.contract("ops/unloading/evict")
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_retiring_model_does_not_block_an_incoming_one(
    autojump_clock: MockClock, limit: int, slots: int
) -> None:
    specs = [spec(name, slots, unload_ms=8000) for name in "abc"]
    async with open_stage(*specs, max_loaded_models=limit) as stage:
        for name in "ab"[:limit]:
            await stage.ask(name, name)
        await stage.unload("u", "a")
        assert stage.model("a").state == "unloading"
        await stage.ask("c", "c")
        assert stage.ends()["c"] == ("done", 0)
        assert stage.retirements() == [("a", "unload")], "the room was there already"
        await stage.done()
        assert stage.when("u", "unloaded") == 8


async def test_the_teardown_of_a_victim_is_not_waited_for(autojump_clock: MockClock) -> None:
    specs = [spec("a", unload_ms=8000), spec("b")]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        assert stage.ends()["b"] == ("done", 0)
        await stage.ask("a again", "a")
        assert stage.model("a").queued_requests == 1
        await stage.done()
        assert stage.ends()["a again"] == ("done", 8)


@pytest.mark.contract("ops/reconfiguring/evict")
async def test_a_model_that_is_being_changed_is_no_victim(autojump_clock: MockClock) -> None:
    specs = [spec("a", 2, path="/old"), spec("b")]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.register("change", spec("a", 2, path="/new", load_ms=1000))
        assert (stage.model("a").state, stage.model("a").loaded) == ("reconfiguring", True)
        await stage.ask("b", "b", bound_ms=500)
        await stage.done()
        assert stage.ends()["b"] == ("server_busy", 0.5)
        assert stage.ends()["change"] == ("reconfigured", 2)
        assert stage.retirements() == [("a", "reconfigure")]


async def test_cold_loads_go_one_at_a_time_in_order_and_warm_models_never_wait(
    autojump_clock: MockClock,
) -> None:
    specs = [spec(name, load_ms=1000, run_ms=100) for name in "abcd"]
    async with open_stage(*specs, max_loaded_models=4) as stage:
        await stage.ask("d", "d")
        await stage.done()
        for name in "abc":
            await stage.ask(name, name)
        await stage.ask("warm", "d")
        await stage.done()
        assert stage.when("warm", "done") == 1.2
        assert [stage.when(name, "done") for name in "abc"] == [2.2, 3.2, 4.2]


async def test_without_limits_models_load_side_by_side(autojump_clock: MockClock) -> None:
    async with open_stage(*(spec(name, load_ms=1000) for name in "abc")) as stage:
        for name in "abc":
            await stage.ask(name, name)
        await stage.done()
        assert {at for what, at in stage.ends().values()} == {1}


async def test_a_driver_that_waits_for_another_load_leaves_at_its_bound(
    autojump_clock: MockClock,
) -> None:
    specs = [spec("a", load_ms=10_000), spec("b")]
    async with open_stage(*specs, max_loaded_models=2) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b", bound_ms=2000)
        await stage.pass_time(2)
        assert isinstance(stage.errors["b"], ServerBusyError)
        assert "'b'" in stage.errors["b"].message
        assert stage.errors["b"].message.endswith("another load was not over within 2000 ms")
        await stage.pass_time(1)
        await stage.ask("hopeless", "b", bound_ms=2000)
        assert stage.ends()["hopeless"] == ("server_busy", 3)
        await stage.done()


@pytest.mark.parametrize("waits_for", ["room", "line"])
async def test_a_driver_that_leaves_before_its_load_has_begun_starts_none(
    autojump_clock: MockClock, waits_for: str
) -> None:
    load_ms, run_ms = (0, 5000) if waits_for == "room" else (5000, 0)
    specs = [spec("a", load_ms=load_ms, run_ms=run_ms), spec("b", 2)]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.ask("driver", "b")
        await stage.cancel("driver")
        assert stage.model("b").active_slots == 0
        await stage.done()
        assert stage.model("a").loaded
        assert not stage.kinds(Kind.LOAD_STARTED, model="b")


async def test_when_such_a_driver_leaves_its_follower_drives(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=5000), spec("b", 2), max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.ask("driver", "b", bound_ms=0)
        await stage.ask("follower", "b", bound_ms=7000)
        await stage.pass_time(1)
        await stage.cancel("driver")
        await stage.done()
        assert stage.ends()["follower"] == ("done", 5)
        assert stage.model("b").generation == 1


async def test_a_driver_that_leaves_while_a_broken_pool_is_torn_down_starts_no_load(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", run_ms=2000, fail_clone=2, unload_ms=1000)
    async with open_stage(model, can_kill=True) as stage:
        await stage.ask("r", "a")
        await stage.ask("driver", "a")
        await stage.pass_time(1)
        stage.isolation.crash("a")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.model("a").state == "unloading"
        await stage.cancel("driver")
        assert stage.model("a").active_slots == 1, "the teardown runs under its lease"
        await stage.pass_time(1)
        assert stage.model("a").state == "unloaded"
        assert stage.model("a").generation == 1
        stage.assert_quiet()


@pytest.mark.contract("fail/memory_refusal")
async def test_a_load_that_would_leave_too_little_memory_is_refused_and_retried_later(
    autojump_clock: MockClock,
) -> None:
    free = 600 * MIB
    async with open_stage(
        spec("a", memory_mb=200), min_free_memory_mb=500, free_memory=lambda: free
    ) as stage:
        await stage.ask("first", "a")
        error = stage.errors["first"]
        assert isinstance(error, InsufficientMemoryError)
        assert (error.status, error.retry_after_s) == (503, 5)
        assert all(part in error.message for part in ("'a'", "200 MiB", "500 MiB", "600 MiB"))
        assert stage.gates.count("load") == 0
        free = 700 * MIB
        await stage.ask("second", "a")
        assert stage.ends()["second"][0] == "done"


@pytest.mark.contract("fail/memory_refusal")
async def test_an_eviction_is_not_undone_by_a_refusal_for_memory(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(
        spec("a"),
        spec("b", memory_mb=200),
        max_loaded_models=1,
        min_free_memory_mb=500,
        free_memory=lambda: 600 * MIB,
    ) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        assert isinstance(stage.errors["b"], InsufficientMemoryError)
        assert stage.retirements() == [("a", "evict")]
        assert not stage.model("a").loaded
        await stage.ask("a again", "a")
        await stage.done()
        assert stage.made_by("a again") == ("/a", 2)


@pytest.mark.contract("fail/slow_teardown")
async def test_a_load_that_is_short_of_memory_waits_for_a_teardown_under_way(
    autojump_clock: MockClock,
) -> None:
    def free() -> int:
        freed = stage.kinds(Kind.DESTROYED, model="a")
        return (900 if freed else 600) * MIB

    async with open_stage(
        spec("a", unload_ms=3000),
        spec("b", memory_mb=200),
        max_loaded_models=1,
        min_free_memory_mb=500,
        free_memory=free,
    ) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b", bound_ms=2000)
        await stage.ask("patient", "b")
        await stage.done()
        assert stage.ends()["b"] == ("insufficient_memory", 2)
        assert stage.ends()["patient"] == ("done", 3)


async def test_memory_alone_serialises_loads_and_evicts_nobody(autojump_clock: MockClock) -> None:
    specs = [spec(name, load_ms=1000, memory_mb=1) for name in "abc"]
    async with open_stage(*specs, min_free_memory_mb=1) as stage:
        for name in "abc":
            await stage.ask(name, name)
        await stage.done()
        assert [stage.when(name, "done") for name in "abc"] == [1, 2, 3]
        assert not stage.retirements()
