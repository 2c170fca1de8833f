"""The end: draining lets work finish, stopping ends it, and both always come to an end."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import Stage, job, open_stage, spec
from trio.testing import MockClock

from paraudio.errors import ShuttingDownError
from paraudio.journal import Kind


async def _stopped(stage: Stage) -> float:
    """Stop, wait for the end, and tell how long that took."""
    began = stage.now
    stage.runtime.stop()
    while stage.runtime.snapshot().phase != "stopped":
        await stage.runtime.wait_change(stage.runtime.snapshot().revision)
    return stage.now - began


@pytest.mark.contract("time/shutdown_queued_request", "state/shutting_down")
@pytest.mark.contract("ops/shutting_down/shutdown", "ops/shutting_down/status")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_drain_refuses_who_waits_and_lets_finish_what_runs(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=3000)) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.ask("queued", "a")
        await stage.unload("manager", "a")
        drained = trio.Event()

        async def drain() -> None:
            await stage.runtime.wait_drained()
            stage.tell("drain", "over")
            drained.set()

        stage.nursery.start_soon(drain)
        await trio.testing.wait_all_tasks_blocked()
        stage.runtime.drain()
        stage.runtime.drain()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.ends()["queued"] == ("shutting_down", 0)
        assert stage.ends()["manager"] == ("shutting_down", 0)
        assert stage.errors["queued"].retry_after_s == 5
        assert stage.runtime.snapshot().phase == "draining"
        await drained.wait()
        assert stage.when("drain", "over") == 3
        assert all(stage.ends()[f"r{index}"] == ("done", 3) for index in range(slots))
        assert await _stopped(stage) == 0
        assert stage.runtime.cuts() == []
        phases = [event.facts["phase"] for event in stage.kinds(Kind.PHASE)]
        assert phases == ["running", "draining", "stopping", "stopped"]
        assert stage.retirements() == [("a", "shutdown")]


Operation = Callable[[Stage], Awaitable[None]]

LATE: dict[str, Operation] = {
    "inference": lambda stage: stage.ask("late", "a"),
    "register": lambda stage: stage.register("late", spec("a", path="/new")),
    "register new": lambda stage: stage.register("late", spec("new")),
    "unload": lambda stage: stage.unload("late", "a"),
    "bulk_unload": lambda stage: stage.unload_many("late", ["a"]),
}


@pytest.mark.parametrize("phase", ["draining", "stopping", "stopped"])
@pytest.mark.parametrize(
    "late",
    [
        pytest.param("inference", marks=pytest.mark.contract("ops/shutting_down/inference")),
        pytest.param("register", marks=pytest.mark.contract("ops/shutting_down/register")),
        pytest.param("register new", marks=pytest.mark.contract("ops/shutting_down/register")),
        pytest.param("unload", marks=pytest.mark.contract("ops/shutting_down/unload")),
        pytest.param("bulk_unload", marks=pytest.mark.contract("ops/shutting_down/bulk_unload")),
    ],
)
async def test_late_work_is_refused(autojump_clock: MockClock, late: str, phase: str) -> None:
    async with open_stage(spec("a")) as stage:
        await stage.ask("first", "a")
        if phase == "draining":
            stage.runtime.drain()
        else:
            stage.runtime.stop()
        if phase == "stopped":
            await _stopped(stage)
        await LATE[late](stage)
        assert isinstance(stage.errors["late"], ShuttingDownError)
        assert len(stage.runtime.snapshot().models) == 1
        assert stage.model("a").spec.path == "/a"


@pytest.mark.contract("time/shutdown_cold_load", "ops/loading/shutdown")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_load_goes_on_through_the_drain_and_serves_who_was_admitted(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, load_ms=2000, run_ms=1000)) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        stage.runtime.drain()
        await stage.done()
        assert all(stage.ends()[f"r{index}"] == ("done", 3) for index in range(slots))


@pytest.mark.contract("time/shutdown_cold_load", "ops/loading/shutdown")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_load_is_cancelled_by_the_stop_and_everybody_told(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, load_ms=60_000)) as stage:
        for index in range(slots + 1):
            await stage.ask(f"r{index}", "a")
        await stage.pass_time(1)
        assert await _stopped(stage) == 0
        assert {what for what, _ in stage.ends().values()} == {"shutting_down"}
        assert stage.runtime.cuts() == ["model 'a': its load was cancelled"]
        assert stage.model("a").state == "unloaded"
        assert stage.gates.count("session") == 0


@pytest.mark.contract("ops/ready/shutdown", "time/shutdown_active_finite_handler")
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("kind", ["run", "stream", "batch"])
async def test_what_runs_is_told_to_stop_and_its_pool_retired_after_it(
    autojump_clock: MockClock, slots: int, kind: str
) -> None:
    async with open_stage(spec("a", slots, run_ms=60_000)) as stage:
        for index in range(slots):
            match kind:
                case "run":
                    await stage.ask(f"r{index}", "a")
                case "stream":
                    await stage.stream(f"r{index}", "a")
                case _:
                    await stage.batch(f"r{index}", "a", [60_000])
        await stage.pass_time(1)
        assert await _stopped(stage) == 0
        for index in range(slots):
            assert stage.ends()[f"r{index}"] == ("shutting_down", 1)
        assert sorted(stage.runtime.cuts()) == [
            f"request r{index}: its run on model 'a' was cancelled" for index in range(slots)
        ]
        assert stage.gates.count("close_session") == slots
        assert stage.gates.count("close_model") == 1


async def test_a_request_that_the_server_cancels_during_the_stop_is_a_cut_too(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=60_000)) as stage:
        await stage.ask("r", "a")
        stage.runtime.stop()
        stage.scopes["r"].cancel()
        assert await _stopped(stage) == 0
        assert stage.runtime.cuts() == ["request r: its run on model 'a' was cancelled"]


@pytest.mark.contract("time/shutdown_hung_backend", "beyond/g05_bounded_shutdown")
@pytest.mark.contract("beyond/g04_hung_backend_contained")
@pytest.mark.parametrize("can_kill", [False, True])
@pytest.mark.parametrize("stuck_before", [False, True])
async def test_a_backend_that_never_stops_does_not_keep_the_runtime(
    autojump_clock: MockClock, can_kill: bool, stuck_before: bool
) -> None:
    model = spec("a", 2, ignore_cancel=True)
    async with open_stage(model, hang_timeout_s=3, can_kill=can_kill) as stage:
        await stage.ask("hangs", "a", run_ms=10**7)
        if stuck_before:
            await stage.cancel("hangs")
            await stage.pass_time(5)
            assert stage.model("a").stuck_slots == (0 if can_kill else 1)
        assert await _stopped(stage) == (0 if stuck_before else 3)
        assert stage.model("a").stuck_slots == (0 if can_kill else 1)
        assert stage.model("a").state == "unloaded"
        abandoned = "model 'a': the call in slot 0 ignored its stop and was abandoned"
        assert (abandoned in stage.runtime.cuts()) == (not can_kill)
        cancelled = "request hangs: its run on model 'a' was cancelled"
        assert (cancelled in stage.runtime.cuts()) == (not stuck_before)
        assert bool(stage.isolation.abandoned()) == (not can_kill)


@pytest.mark.contract("beyond/g05_bounded_shutdown", "ops/unloading/shutdown")
@pytest.mark.parametrize("slots", [1, 2, 16])
async def test_a_teardown_that_does_not_end_does_not_keep_the_runtime(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots), hang_timeout_s=3) as stage:
        await stage.ask("r", "a")
        gate = stage.gates.hold("close_session")
        await stage.unload("u", "a")
        await stage.pass_time(1)
        assert await _stopped(stage) <= 6
        cut = ["model 'a': its teardown did not end in time"]
        assert stage.runtime.cuts() == (cut if slots > 1 else []), "the isolation tells of one"
        assert stage.model("a").state == "unloaded"
        gate.open()
        await stage.done()


@pytest.mark.contract("time/shutdown_manager", "ops/reconfiguring/shutdown")
@pytest.mark.parametrize("at", ["probe", "teardown", "load"])
async def test_a_change_that_the_stop_interrupts_ends_complete_or_not_at_all(
    autojump_clock: MockClock, at: str
) -> None:
    async with open_stage(spec("a", 2, path="/old", unload_ms=2000)) as stage:
        await stage.ask("r", "a")
        await stage.register("change", spec("a", 2, path="/new", load_ms=2000))
        await stage.pass_time({"probe": 1, "teardown": 3, "load": 5}[at])
        took = await _stopped(stage)
        assert isinstance(stage.errors["change"], ShuttingDownError)
        seen = stage.model("a")
        assert (seen.state, seen.loaded) == ("unloaded", False)
        assert seen.spec.path == ("/old" if at == "probe" else "/new")
        assert took == (0 if at == "load" else 2 if at == "probe" else 1)


@pytest.mark.contract("time/shutdown_manager", "ops/reconfiguring/shutdown")
async def test_a_change_goes_on_through_the_drain(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", path="/old", unload_ms=2000)) as stage:
        await stage.ask("r", "a")
        await stage.register("change", spec("a", path="/new", load_ms=2000))
        stage.runtime.drain()
        await stage.done()
        assert stage.ends()["change"] == ("reconfigured", 4)
        assert stage.now == 4


@pytest.mark.contract("ops/unloading/shutdown", "fail/slow_teardown")
async def test_an_unload_goes_on_through_drain_and_stop(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", unload_ms=4000)) as stage:
        await stage.ask("r", "a")
        await stage.unload("u", "a")
        stage.runtime.drain()
        await stage.pass_time(1)
        assert await _stopped(stage) == 3
        assert stage.ends()["u"] == ("unloaded", 4)
        assert stage.runtime.cuts() == []


@pytest.mark.parametrize("phase", ["drain", "stop"])
@pytest.mark.parametrize("waits_for", ["room", "line"])
async def test_who_waits_to_load_is_refused_by_drain_and_stop(
    autojump_clock: MockClock, phase: str, waits_for: str
) -> None:
    load_ms, run_ms = (0, 5000) if waits_for == "room" else (5000, 0)
    specs = [spec("a", load_ms=load_ms, run_ms=run_ms), spec("b", 2), spec("c")]
    async with open_stage(*specs, max_loaded_models=1) as stage:
        await stage.ask("a", "a")
        await stage.ask("driver", "b")
        await stage.ask("follower", "b")
        await stage.register("change", spec("c", path="/new"))
        if phase == "drain":
            stage.runtime.drain()
        else:
            stage.runtime.stop()
        await trio.testing.wait_all_tasks_blocked()
        for name in ("driver", "follower", "change"):
            assert stage.ends()[name] == ("shutting_down", 0)
        assert stage.model("c").state == "unloaded"
        assert not stage.kinds(Kind.LOAD_STARTED, model="b")
        await stage.done()
        assert stage.ends()["a"] == (("done", 5) if phase == "drain" else ("shutting_down", 0))


async def test_who_waits_for_a_broken_pool_is_refused_by_the_stop(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", 2, run_ms=5000, fail_clone=3)
    async with open_stage(model, can_kill=True) as stage:
        await stage.ask("r0", "a")
        await stage.ask("r1", "a")
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await stage.ask("waits", "a")
        assert stage.ends()["waits"] == ("granted", 1)
        assert await _stopped(stage) == 0
        assert stage.ends()["waits"] == ("shutting_down", 1)
        assert stage.ends()["r1"] == ("shutting_down", 1)


async def test_a_recovery_is_interrupted_by_the_stop(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, run_ms=1000), hang_timeout_s=2) as stage:
        gate = stage.gates.hold("restore")
        await stage.stream("slow", "a")
        await stage.pass_time(4)
        assert stage.ends()["slow"][0] == "done"
        await stage.stream("other", "a")
        await stage.pass_time(2)
        assert await _stopped(stage) <= 6
        assert stage.model("a").state == "unloaded"
        gate.open()
        await stage.done()


async def test_a_user_that_does_not_leave_is_cut_and_finds_nothing_any_more(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), hang_timeout_s=3) as stage:
        async with stage.runtime.use("a", request="r") as use:
            await use.ready()
            assert await _stopped(stage) == 3
            assert stage.runtime.cuts() == ["model 'a': 1 of its slots were still held"]
            with pytest.raises(ShuttingDownError):
                await use.run(job("x"))
        await stage.hold("late", "a", seconds=0)


async def test_a_waiter_that_comes_after_the_stop_is_refused_at_once(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a"), hang_timeout_s=3) as stage:
        async with stage.runtime.use("a", request="r") as use:
            stage.runtime.stop()
            with pytest.raises(ShuttingDownError):
                await use.ready()
        assert await _stopped(stage) == 0


async def test_a_drain_waits_for_one_model_where_another_is_idle(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=3000), spec("b")) as stage:
        await stage.ask("r", "a")
        stage.runtime.drain()
        await stage.runtime.wait_drained()
        assert stage.now == 3
        await _stopped(stage)


async def test_a_drain_does_not_wait_for_a_stuck_slot(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, ignore_cancel=True), hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=10**6)
        await stage.ask("runs", "a", run_ms=5000)
        await stage.cancel("hangs")
        await stage.pass_time(3)
        stage.runtime.drain()
        await stage.runtime.wait_drained()
        assert stage.now == 5
        assert stage.model("a").stuck_slots == 1
        await _stopped(stage)


async def test_cuts_name_what_is_still_being_stopped(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", unload_ms=2000), spec("b")) as stage:
        await stage.ask("r", "a")
        stage.runtime.stop()
        assert stage.runtime.cuts() == ["model 'a': still being stopped"]
        await _stopped(stage)
        assert stage.runtime.cuts() == []


async def test_an_operation_that_is_granted_in_the_step_of_the_stop_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        await stage.ask("first", "a")
        async with stage.runtime.use("a", request="r"):
            await stage.unload("u", "a")
        assert stage.kinds(Kind.GRANTED)[-1].facts["slots"] == [0]
        stage.runtime.stop()
        await stage.done()
        assert stage.ends()["u"] == ("shutting_down", 0)
        await _stopped(stage)
        assert stage.retirements() == [("a", "shutdown")]


async def test_cancelling_the_runtime_is_stopping_it(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=60_000)) as stage:
        await stage.ask("r", "a")
        async with trio.open_nursery() as nursery:
            other = type(stage.runtime)(stage.runtime._context.settings, families={}, isolations={})
            await nursery.start(other.run)
            nursery.cancel_scope.cancel()
        assert other.snapshot().phase == "stopped"
        assert other.snapshot().revision > 0
