"""Using a model: what a request owns, from its grant to the end of its scope."""

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import Stage, having, job, open_stage, spec
from trio.testing import MockClock

from paraudio.errors import (
    BackendError,
    InvalidRequestError,
    ModelNotFoundError,
    QueueFullError,
    ServerBusyError,
)
from paraudio.journal import Kind


@pytest.mark.contract("ops/ready/inference", "phase/executing")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_requests_fill_the_slots_and_the_rest_queues_in_order(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=1000)) as stage:
        for index in range(8):
            await stage.ask(f"r{index}", "a")
        assert stage.model("a").active_slots == slots
        await stage.done()
        assert [stage.when(f"r{index}", "done") for index in range(8)] == [
            1 + index // slots for index in range(8)
        ]
        assert [stage.results[f"r{index}"].text for index in range(8)] == [
            f"r{index}" for index in range(8)
        ]


@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_each_slot_has_a_session_of_its_own(autojump_clock: MockClock, slots: int) -> None:
    async with open_stage(spec("a", slots, run_ms=1000)) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.done()
        sessions = {stage.results[f"r{index}"].artifacts["session"] for index in range(slots)}
        assert sessions == set(range(1, slots + 1))


async def test_a_use_tells_what_it_is_bound_to(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, run_ms=1000)) as stage:
        await stage.ask("first", "a")
        await stage.ask("second", "a")
        async with stage.runtime.use("a", request="third") as use:
            assert use.request == "third"
            assert use.spec is stage.model("a").spec
            assert use.slot in {0, 1}
            assert use.queued_s == 1
            with pytest.raises(RuntimeError, match="not ready"):
                _ = use.can_stream
            with pytest.raises(RuntimeError, match="not ready"):
                _ = use.voices
            await use.ready()
            assert use.voices == ()
            assert use.can_stream
            assert use.can_batch


async def test_a_use_that_was_not_entered_or_was_left_is_of_no_use(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        use = stage.runtime.use("a", request="r")
        with pytest.raises(RuntimeError, match="not in use"):
            await use.ready()
        async with use:
            await use.ready()
        with pytest.raises(RuntimeError, match="has ended"):
            await use.run(job("x"))


async def test_a_use_has_the_configuration_of_its_grant_and_knows_its_wait(
    autojump_clock: MockClock,
) -> None:
    old, new = spec("a"), spec("a", path="/new")
    async with open_stage(old) as stage:
        await stage.pass_time(5)
        await stage.hold("holder", "a", seconds=2, ready=False)
        await stage.register("change", new)
        use = stage.runtime.use("a", request="late")
        assert use.spec == old
        async with use:
            assert use.spec == new
            assert use.queued_s == stage.now - 5


async def test_an_unknown_model_is_named(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        with pytest.raises(ModelNotFoundError, match="'b'") as refused:
            stage.runtime.use("b", request="r")
        assert refused.value.param == "model"
        with pytest.raises(ModelNotFoundError):
            await stage.runtime.unload("b")


@pytest.mark.contract("fail/preparation_failure", "fail/execution_failure")
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("failing", ["fail_prepares", "fail_runs"])
async def test_a_failed_preparation_or_run_frees_its_slot_and_the_next_works(
    autojump_clock: MockClock, slots: int, failing: str
) -> None:
    async with open_stage(having(spec("a", slots), **{failing: slots})) as stage:
        for index in range(slots):
            await stage.ask(f"bad{index}", "a")
            assert isinstance(stage.errors[f"bad{index}"], BackendError)
        stage.assert_quiet()
        for index in range(slots):
            await stage.ask(f"good{index}", "a")
            assert stage.ends()[f"good{index}"][0] == "done"
        assert stage.gates.count("load") == 1, "the pool survives"
        outcomes = [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)]
        assert outcomes == ["error"] * slots + ["ok"] * slots


async def test_a_rejected_job_frees_its_slot_and_may_be_mended_in_the_same_use(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        async with stage.runtime.use("a", request="r") as use:
            await use.ready()
            with pytest.raises(InvalidRequestError):
                await use.run(job(""))
            assert (await use.run(job("better"))).text == "better"
        stage.assert_quiet()


async def test_after_a_failed_run_the_same_use_goes_on_with_a_session_that_works(
    autojump_clock: MockClock,
) -> None:
    async with (
        open_stage(spec("a", fail_runs=1)) as stage,
        stage.runtime.use("a", request="r") as use,
    ):
        await use.ready()
        with pytest.raises(BackendError):
            await use.run(job("x"))
        assert stage.gates.count("restore") == 0
        await use.run(job("x"))
        assert stage.gates.count("restore") == 1


@pytest.mark.contract("phase/active_stream_or_batch", "order/request_then_manager")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_stream_owns_its_slot_to_its_end_and_is_reset_before_the_next(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=4000, chunks=4)) as stage:
        await stage.stream("s", "a")
        await stage.unload("u", "a")
        await stage.done()
        assert [at for name, what, at in stage.told if what == "piece"] == [1, 2, 3, 4]
        assert stage.when("u", "unloaded") == 4
        points = [arrival.point for arrival in stage.gates.arrivals]
        assert points.index("restore") < points.index("close_session")
        assert [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)] == ["ok"]


@pytest.mark.contract("phase/active_stream_or_batch", "order/request_then_manager")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_batch_owns_its_slot_to_its_end(autojump_clock: MockClock, slots: int) -> None:
    async with open_stage(spec("a", slots)) as stage:
        await stage.batch("b", "a", [3000, 1000, 2000])
        await stage.unload("u", "a")
        await stage.done()
        assert [what for name, what, _ in stage.told if what.startswith("result")] == [
            "result 1",
            "result 2",
            "result 0",
        ]
        assert stage.when("u", "unloaded") == 3
        stage.assert_quiet()


@pytest.mark.contract("time/disconnect_executing_offline", "beyond/g03_running_inference_cancelled")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_client_that_leaves_a_run_stops_it_and_its_session_is_reset_first(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=5000)) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.ask("next", "a")
        await stage.pass_time(1)
        await stage.cancel("r0")
        assert stage.when("next", "granted") == 1
        points = [(each.point, each.text) for each in stage.gates.arrivals]
        assert points.index(("restore", "")) < points.index(("run", "next"))
        await stage.done()
        ended = stage.kinds(Kind.RUN_ENDED)[0]
        assert (ended.facts["request"], ended.facts["outcome"]) == ("r0", "stopped")
        stage.assert_quiet()


@pytest.mark.contract("time/disconnect_active_stream")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_stream_that_is_abandoned_stops_and_the_next_on_its_slot_is_clean(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=4000, chunks=4)) as stage:
        await stage.stream("gone", "a")
        for index in range(slots):
            await stage.ask(f"next{index}", "a", run_ms=1000)
        await stage.pass_time(1.5)
        await stage.cancel("gone")
        await stage.done()
        assert [what for name, what, _ in stage.told if name == "gone"][-1] == "cancelled"
        for index in range(slots):
            assert stage.results[f"next{index}"].text == f"next{index}"
        outcome = {
            event.facts["request"]: event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)
        }
        assert outcome["gone"] == "stopped"
        stage.assert_quiet()


async def test_leaving_a_stream_early_without_an_error_stops_it(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=4000, chunks=4)) as stage:
        async with stage.runtime.use("a", request="r") as use:
            await use.ready()
            async with use.stream(job("x")) as events:
                async for _ in events:
                    break
        assert stage.now == 1
        assert [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)] == ["stopped"]


async def test_an_error_after_the_last_piece_does_not_make_the_run_a_failure(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", chunks=1)) as stage:
        await stage.start("r", lambda: _fail_after_the_stream(stage))
        assert [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)] == ["ok"]
        stage.assert_quiet()


async def _fail_after_the_stream(stage: Stage) -> None:
    async with stage.runtime.use("a", request="r") as use:
        await use.ready()
        async with use.stream(job("x")) as events:
            _ = [event async for event in events]
            raise InvalidRequestError("the sound cannot be encoded")


@pytest.mark.contract("time/abandon_unstarted_response")
@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_response_that_is_never_started_holds_nothing_after_its_scope(
    autojump_clock: MockClock, slots: int, ready: bool
) -> None:
    async with open_stage(spec("a", slots)) as stage:
        for index in range(slots):
            await stage.hold(f"idle{index}", "a", seconds=1, ready=ready)
        await stage.unload("u", "a")
        await stage.ask("next", "a")
        await stage.done()
        assert stage.when("u", "unloaded") == 1
        assert stage.when("next", "done") == 1
        assert stage.gates.count("run") == 1
        stage.assert_quiet()


@pytest.mark.contract("time/abandon_unstarted_response")
async def test_a_stream_that_is_made_and_never_entered_holds_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a")) as stage:
        async with stage.runtime.use("a", request="r") as use:
            await use.ready()
            use.stream(job("x"))
            use.run_batch([job("x")])
        stage.assert_quiet()
        assert stage.gates.count("run") == 0


async def test_a_use_makes_one_call_at_a_time(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        async with stage.runtime.use("a", request="r") as use:
            await use.ready()
            async with use.stream(job("x")):
                with pytest.raises(RuntimeError, match="one call at a time"):
                    await use.run(job("y"))
        stage.assert_quiet()


async def test_leaving_a_use_stops_a_call_that_another_task_makes(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=5000)) as stage:
        async with trio.open_nursery() as nursery:
            async with stage.runtime.use("a", request="r") as use:
                await use.ready()

                async def run() -> None:
                    with pytest.raises(RuntimeError, match="ended during its call"):
                        await use.run(job("x"))
                    stage.tell("run", "stopped")

                nursery.start_soon(run)
                await trio.testing.wait_all_tasks_blocked()
            stage.assert_quiet()
        assert stage.when("run", "stopped") == 0


@pytest.mark.contract("time/admission_timeout_request", "time/healthy_and_overdue_blockers")
async def test_the_bound_of_a_request_is_its_own_under_the_models_under_the_servers(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=20_000), busy_timeout_ms=5000) as stage:
        await stage.ask("runs", "a")
        await stage.ask("short", "a", bound_ms=2000)
        await stage.ask("long", "a", bound_ms=60_000)
        await stage.ask("none", "a", bound_ms=0)
        await stage.pass_time(5.5)
        ends = stage.ends()
        assert [ends[name] for name in ("short", "long", "none")] == [
            ("server_busy", 2),
            ("server_busy", 5),
            ("server_busy", 5),
        ]
        await stage.ask("hopeless", "a")
        assert stage.ends()["hopeless"] == ("server_busy", 5.5)
        assert isinstance(stage.errors["hopeless"], ServerBusyError)
        await stage.done()


@pytest.mark.contract("time/timeout_zero_and_bulk")
async def test_without_a_ceiling_a_request_without_a_bound_waits_as_long_as_it_takes(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=10**7), busy_timeout_ms=0) as stage:
        await stage.ask("runs", "a")
        await stage.ask("waits", "a", bound_ms=0, run_ms=0)
        await stage.done()
        assert stage.when("waits", "done") == 10**4


async def test_the_bound_covers_neither_the_load_nor_the_run(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", load_ms=3000, run_ms=3000)) as stage:
        await stage.ask("r", "a", bound_ms=1000)
        await stage.done()
        assert stage.when("r", "done") == 6


@pytest.mark.contract("beyond/g07_queue_bound")
async def test_the_models_bound_of_the_queue_stands_above_the_servers(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=1000), max_queued_requests=1) as stage:
        await stage.ask("runs", "a")
        await stage.ask("queued", "a")
        await stage.ask("refused", "a")
        assert isinstance(stage.errors["refused"], QueueFullError)
        await stage.unload("manager", "a")
        await stage.done()
        assert stage.when("manager", "unloaded") == 2, "managers are not counted out"


@pytest.mark.contract("time/disconnect_queued", "beyond/g01_waiter_leaves_on_disconnect")
@pytest.mark.contract("phase/queued")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_queued_client_that_leaves_uses_no_slot_and_starts_no_load(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=1000)) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.unload("u", "a")
        await stage.ask("leaves", "a")
        assert stage.model("a").queued_requests == 1
        await stage.cancel("leaves")
        assert stage.model("a").queued_requests == 0
        await stage.done()
        assert stage.gates.count("load") == 1
        assert not stage.model("a").loaded


async def test_of_three_queued_clients_only_the_one_that_hangs_up_disappears(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=1000)) as stage:
        for name in ("runs", "first", "second", "third"):
            await stage.ask(name, "a")
        await stage.cancel("second")
        await stage.done()
        assert stage.when("first", "done") == 2
        assert stage.when("third", "done") == 3
        assert "second" not in stage.results


async def test_a_request_is_bound_to_the_configuration_at_its_grant(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", path="/old", run_ms=1000)) as stage:
        await stage.ask("old", "a")
        await stage.register("change", spec("a", path="/new", run_ms=1000))
        await stage.ask("new", "a")
        await stage.done()
        assert stage.made_by("old") == ("/old", 1)
        assert stage.made_by("new") == ("/new", 2)
        configs = {e.facts["request"]: e.facts["config"] for e in stage.kinds(Kind.BOUND)}
        assert configs == {"old": 1, "new": 2}
