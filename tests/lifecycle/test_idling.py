"""Idle retirement: after a time without a load or a run, and never against a request."""

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.journal import Kind


@pytest.mark.contract("ops/ready/evict", "ops/unloaded/evict")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_model_that_nobody_uses_is_retired_after_its_time(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots), spec("b", slots), idle_unload_ms=5000) as stage:
        await stage.pass_time(2)
        await stage.ask("a", "a")
        await stage.pass_time(1)
        await stage.ask("b", "b", run_ms=1000)
        await stage.pass_time(3.9)
        assert stage.model("a").loaded
        await stage.pass_time(0.1)
        assert not stage.model("a").loaded
        assert stage.model("b").loaded
        await stage.pass_time(2)
        assert not stage.model("b").loaded
        assert stage.retirements() == [("a", "idle"), ("b", "idle")]
        await stage.pass_time(60)
        await stage.ask("again", "a")
        await stage.done()
        assert stage.made_by("again") == ("/a", 2)


@pytest.mark.contract("ops/loading/evict")
async def test_a_model_in_use_is_not_idle_however_long_that_takes(
    autojump_clock: MockClock,
) -> None:
    specs = [spec("a", run_ms=23_000), spec("b", load_ms=23_000)]
    async with open_stage(*specs, idle_unload_ms=5000) as stage:
        await stage.ask("a", "a")
        await stage.ask("b", "b")
        await stage.done()
        assert stage.ends() == {"a": ("done", 23), "b": ("done", 23)}
        await stage.pass_time(4.9)
        assert stage.model("a").loaded
        await stage.pass_time(5.1)
        assert not stage.model("a").loaded
        assert not stage.model("b").loaded


@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("first", ["request", "reaper"])
async def test_a_request_in_the_very_moment_of_the_retirement_wins_or_reloads(
    autojump_clock: MockClock, slots: int, first: str
) -> None:
    model = spec("a", slots, unload_ms=500, load_ms=500)
    async with open_stage(model, idle_unload_ms=5000) as stage:
        await stage.ask("first", "a")
        await stage.done()
        assert stage.now == 0.5
        if first == "request":
            await stage.pass_time(4.999999)
        else:
            await stage.pass_time(5)
            assert stage.model("a").state == "unloading"
        await stage.ask("second", "a")
        await stage.done()
        assert stage.ends()["second"] == (
            ("done", 5.499999) if first == "request" else ("done", 6.5)
        )
        assert not stage.errors


async def test_a_request_and_the_reaper_that_wake_in_one_step_never_fail(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, unload_ms=500, load_ms=500), idle_unload_ms=5000) as stage:
        await stage.ask("r0", "a")
        await stage.done()
        for index in range(1, 21):
            used = stage.ends()[f"r{index - 1}"][1]
            # Both the reaper and this task wake at this very time, in an order of Trio's choice.
            await trio.sleep_until(stage.began + used + 5)
            await stage.ask(f"r{index}", "a")
            await stage.done()
        assert not stage.errors
        stage.assert_quiet()


async def test_idle_retirement_ends_with_the_drain(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a"), idle_unload_ms=5000) as stage:
        await stage.ask("a", "a")
        stage.runtime.drain()
        await stage.pass_time(20)
        assert stage.model("a").loaded


async def test_a_model_that_was_loaded_and_never_run_has_its_time_from_then_on(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(idle_unload_ms=5000) as stage:
        await stage.register("new", spec("a", load_ms=500))
        await stage.pass_time(5.4)
        assert stage.model("a").loaded
        await stage.pass_time(0.1)
        assert stage.retirements() == [("a", "idle")]


async def test_a_stop_does_not_wait_for_the_next_look_at_what_is_idle(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), idle_unload_ms=3_600_000) as stage:
        await stage.ask("a", "a")
        stage.runtime.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.runtime.snapshot().phase == "stopped"
        assert stage.now == 0


async def test_a_model_that_is_not_loaded_is_left_alone(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a"), idle_unload_ms=5000) as stage:
        await stage.pass_time(60)
        assert stage.kinds(Kind.QUEUED, Kind.GRANTED) == []
