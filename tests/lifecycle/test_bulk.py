"""Bulk unloads: every barrier at once, then each as it drains; and fences."""

import pytest
import trio
from tests.lifecycle.stage import Stage, open_stage, spec
from trio.testing import MockClock

from paraudio.journal import Kind
from paraudio.lifecycle import Unloaded


@pytest.mark.contract(
    "ops/ready/bulk_unload", "ops/loading/bulk_unload", "ops/unloaded/bulk_unload"
)
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_idle_models_are_freed_before_one_that_still_loads(
    autojump_clock: MockClock, slots: int
) -> None:
    specs = [spec("a", slots, load_ms=3000, run_ms=1000), spec("b", slots), spec("c", slots)]
    async with open_stage(*specs) as stage:
        await stage.ask("b", "b")
        await stage.ask("a", "a")
        await stage.unload_many("bulk", ["a", "b", "a", "c", "nobody", "b", "nobody"])
        assert stage.model("a").queued_managers == 1
        assert not stage.model("b").loaded
        await stage.done()
        assert stage.answers["bulk"] == Unloaded(("a", "b", "c"), ("nobody",))
        assert stage.ends()["bulk"] == ("unloaded", 4)
        assert stage.retirements() == [("b", "unload"), ("a", "unload")]
        assert stage.results["a"].text == "a"
        stage.assert_quiet()


async def test_all_means_every_model_in_the_order_of_registration(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(*map(spec, "bca")) as stage:
        for name in "abc":
            await stage.ask(name, name)
        await stage.unload_many("bulk", None)
        await stage.unload_many("named", ["a", "b", "c"])
        await stage.done()
        assert stage.answers["bulk"] == Unloaded(("b", "c", "a"), ())
        assert stage.answers["named"] == Unloaded(("a", "b", "c"), ())
        barriers = [each.model for each in stage.kinds(Kind.QUEUED) if each.facts["manager"]]
        assert barriers == ["b", "c", "a"] * 2, "the order is one for all, whatever is asked for"
        assert not any(each.loaded for each in stage.runtime.snapshot().models)


async def test_unknown_models_alone_are_only_named(autojump_clock: MockClock) -> None:
    async with open_stage() as stage:
        for name, ids in (("some", ["x", "y", "x"]), ("none", [])):
            await stage.unload_many(name, ids, fence=True)
        await stage.done()
        assert stage.answers == {"some": Unloaded((), ("x", "y")), "none": Unloaded((), ())}


@pytest.mark.contract("order/bulk_then_overlapping_bulk")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_overlapping_and_reversed_bulks_with_duplicates_never_wait_in_a_circle(
    autojump_clock: MockClock, slots: int
) -> None:
    specs = [spec(name, slots, run_ms=2000, unload_ms=1000) for name in "abcd"]
    async with open_stage(*specs) as stage:
        for name in "abcd":
            await stage.ask(name, name)
        await stage.unload_many("first", ["a", "b", "c", "a"])
        await stage.unload_many("second", ["d", "c", "b", "a", "d"])
        await stage.unload_many("third", ["b", "a", "d"])
        for name in "abcd":
            await stage.ask(f"{name} after", name)
        await stage.done()
        granted = {
            name: [
                event.facts["request"]
                for event in stage.kinds(Kind.QUEUED, model=name)
                if event.facts["manager"]
            ]
            for name in "abcd"
        }
        assert granted == {
            "a": ["first", "second", "third"],
            "b": ["first", "second", "third"],
            "c": ["first", "second"],
            "d": ["second", "third"],
        }
        assert stage.ends()["first"] == ("unloaded", 3)
        assert stage.ends()["second"] == ("unloaded", 3)
        assert stage.ends()["third"] == ("unloaded", 3)
        for name in "abcd":
            assert stage.ends()[f"{name} after"] == ("done", 5)
        stage.assert_quiet()


@pytest.mark.contract("order/bulk_with_single")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_bulk_and_single_operations_keep_the_order_of_each_queue(
    autojump_clock: MockClock, slots: int
) -> None:
    specs = [spec("a", slots, path="/old", run_ms=2000), spec("b", slots, run_ms=1000)]
    async with open_stage(*specs) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.register("before", spec("a", slots, path="/middle"))
        await stage.unload_many("bulk", ["b", "a"])
        await stage.register("after", spec("a", slots, path="/new"))
        await stage.ask("b after", "b")
        await stage.done()
        assert stage.ends()["b after"][1] == 2
        assert stage.ends()["before"] == ("reconfigured", 2)
        assert stage.ends()["bulk"] == ("unloaded", 2)
        assert stage.ends()["after"] == ("reconfigured", 2)
        assert stage.retirements() == [("b", "unload"), ("a", "reconfigure"), ("a", "unload")]
        assert stage.model("a").spec.path == "/new"
        assert stage.model("a").loaded


@pytest.mark.contract("order/bulk_cancelled_or_partly_published", "time/timeout_zero_and_bulk")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_bulk_whose_caller_leaves_finishes_what_was_granted_and_forgets_the_rest(
    autojump_clock: MockClock, slots: int
) -> None:
    specs = [spec("a", slots, run_ms=10_000), spec("b", slots, unload_ms=2000)]
    async with open_stage(*specs, busy_timeout_ms=1000) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.unload_many("bulk", ["a", "b"])
        await stage.pass_time(1.5)
        assert stage.model("a").queued_managers == 1, "a bulk waits without a bound"
        await stage.cancel("bulk")
        assert stage.model("a").queued_managers == 0
        assert stage.model("b").state == "unloading"
        await stage.done()
        await stage.pass_time(1)
        assert stage.model("a").loaded
        assert not stage.model("b").loaded
        stage.assert_quiet()


@pytest.mark.contract("order/bulk_cancelled_or_partly_published", "ops/shutting_down/bulk_unload")
async def test_a_drain_ends_the_waiting_of_a_bulk_and_not_what_was_granted(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=5000), spec("b", unload_ms=2000)) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.unload_many("bulk", ["a", "b"])
        stage.runtime.drain()
        await stage.unload_many("late", ["a"])
        assert stage.ends()["late"] == ("shutting_down", 0)
        await stage.done()
        assert stage.ends()["bulk"] == ("shutting_down", 2)
        assert stage.ends()["a"] == ("done", 5)
        assert not stage.model("b").loaded


@pytest.mark.contract("order/bulk_cancelled_or_partly_published")
async def test_a_bulk_that_cannot_stand_in_every_queue_stands_in_none(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(*map(spec, "abc")) as stage:
        for name in "ab":
            await stage.ask(name, name)
        await stage.ask("a again", "a", run_ms=1000)
        stage.runtime._registry.get("c").entry.queue.close(stage.runtime._phases.refusal)
        await stage.unload_many("bulk", ["a", "b", "c"])
        assert stage.ends()["bulk"] == ("shutting_down", 0)
        assert stage.model("a").queued_managers == 0
        await stage.done()
        assert stage.model("a").loaded
        assert stage.model("b").loaded


async def _loaded(stage: Stage) -> list[str]:
    await stage.done()
    return [each.spec.id for each in stage.runtime.snapshot().models if each.loaded]


@pytest.mark.contract("beyond/g12_fenced_bulk_unload")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_fence_also_retires_what_is_registered_while_it_drains(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=5000), spec("b", slots)) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.unload_many("fence", None, fence=True)
        await stage.register("new", spec("c", slots, load_ms=2000))
        await stage.register("again", spec("b", slots))
        assert stage.model("c").queued_managers == 1
        await stage.pass_time(1)
        assert not stage.model("b").loaded
        await stage.ask("c", "c")
        await stage.done()
        assert stage.answers["fence"] == Unloaded(("a", "b", "c"), ())
        assert stage.ends()["fence"] == ("unloaded", 5)
        assert stage.ends()["new"] == ("loaded", 2)
        assert stage.ends()["c"] == ("done", 4), "a request behind the fence loads it again"
        assert await _loaded(stage) == ["c"]
        await stage.register("after", spec("d", slots))
        assert await _loaded(stage) == ["c", "d"]


@pytest.mark.contract("beyond/g12_fenced_bulk_unload")
async def test_a_fence_around_named_models_watches_those_only(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=5000)) as stage:
        await stage.ask("a", "a")
        await stage.unload_many("fence", ["late", "a", "never"], fence=True)
        await stage.register("late", spec("late"))
        await stage.register("other", spec("other"))
        await stage.done()
        assert stage.answers["fence"] == Unloaded(("a", "late"), ("never",))
        assert await _loaded(stage) == ["other"]


@pytest.mark.contract("beyond/g12_fenced_bulk_unload")
async def test_without_a_fence_later_registrations_stay(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=5000)) as stage:
        await stage.ask("a", "a")
        await stage.unload_many("bulk", None)
        await stage.register("new", spec("b"))
        assert await _loaded(stage) == ["b"]


async def test_a_fence_outlasts_the_registration_that_it_waits_for(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        await stage.ask("a", "a")
        await stage.unload_many("fence", None, fence=True)
        await stage.register("slow", spec("b", load_ms=5000))
        await stage.pass_time(2)
        await stage.register("later", spec("c"))
        await stage.done()
        assert stage.ends()["fence"] == ("unloaded", 5)
        assert await _loaded(stage) == []


@pytest.mark.contract("beyond/g04_hung_backend_contained", "time/timeout_zero_and_bulk")
@pytest.mark.parametrize("first", ["hang", "bulk"])
async def test_a_bulk_goes_round_a_model_whose_slot_is_stuck_and_names_it(
    autojump_clock: MockClock, first: str
) -> None:
    specs = [spec("a", 2, ignore_cancel=True), spec("b")]
    async with open_stage(*specs, hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=60_000)
        await stage.ask("warm", "b")
        await stage.pass_time(1)
        if first == "bulk":
            await stage.unload_many("bulk", None)
        await stage.cancel("hangs")
        await stage.ask("behind", "a", run_ms=1000)
        if first == "bulk":
            assert "behind" not in stage.results, "it waits behind the barrier"
        await stage.pass_time(3)
        if first == "hang":
            await stage.unload_many("bulk", ["b", "a", "nobody"])
        await stage.pass_time(0)
        bulk = stage.answers["bulk"]
        assert isinstance(bulk, Unloaded)
        assert bulk.unloaded == ("b",)
        assert bulk.not_found == (("nobody",) if first == "hang" else ())
        assert list(bulk.stuck) == ["a"]
        assert bulk.stuck["a"].code == "slot_stuck"
        assert not stage.model("b").loaded
        await stage.pass_time(1)
        assert stage.results["behind"].text == "behind"
        assert stage.model("a").loaded
        await stage.pass_time(60)
        await stage.unload_many("later", ["a"])
        await stage.done()
        assert stage.answers["later"] == Unloaded(("a",), ())
        stage.assert_quiet()


async def test_a_bulk_waits_for_a_worker_that_is_being_killed(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", ignore_cancel=True), hang_timeout_s=2, can_kill=True) as stage:
        await stage.ask("hangs", "a", run_ms=60_000)
        await stage.pass_time(1)
        await stage.unload_many("bulk", None)
        await stage.cancel("hangs")
        await stage.done()
        assert stage.answers["bulk"] == Unloaded(("a",), ())
        stage.assert_quiet()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_fence_is_taken_down_with_its_bulk(
    autojump_clock: MockClock, cancelled: bool
) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        await stage.ask("a", "a")
        await stage.unload_many("fence", None, fence=True)
        assert len(stage.runtime._management._fences) == 1
        if cancelled:
            await stage.cancel("fence")
        await stage.done()
        assert stage.runtime._management._fences == set()


async def test_a_bulk_whose_client_is_gone_takes_no_place(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        await stage.ask("a", "a")
        with trio.CancelScope() as scope:
            scope.cancel()
            await stage.runtime.unload_many(["a"], fence=False)
        assert scope.cancelled_caught
        assert [each for each in stage.kinds(Kind.QUEUED) if each.facts["manager"]] == []


async def test_a_bulk_that_comes_after_the_drain_is_refused_also_where_it_finds_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage() as stage:
        stage.runtime.drain()
        await stage.unload_many("bulk", ["nobody"])
        assert stage.errors["bulk"].code == "shutting_down"
