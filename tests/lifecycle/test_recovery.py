"""How sessions come back: after a stop that is ignored, after a crash, and when they cannot."""

import pytest
import trio
import trio.testing
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.errors import BackendCrashedError, SlotStuckError
from paraudio.journal import Kind


@pytest.mark.contract("beyond/g04_hung_backend_contained")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_call_that_ignores_its_stop_keeps_only_its_own_slot(
    autojump_clock: MockClock, slots: int
) -> None:
    model = spec("a", slots, ignore_cancel=True)
    async with open_stage(model, hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=60_000)
        await stage.pass_time(1)
        await stage.cancel("hangs")
        await stage.pass_time(2)
        assert stage.ends()["hangs"] == ("cancelled", 3), "its client is let go"
        assert stage.model("a").stuck_slots == 1
        for index in range(slots - 1):
            await stage.ask(f"other{index}", "a", run_ms=1000)
        assert stage.model("a").active_slots == slots
        await stage.ask("queued", "a", bound_ms=0)
        await stage.unload("manager", "a", bound_ms=10_000)
        await stage.done()
        assert isinstance(stage.errors["manager"], SlotStuckError)
        assert stage.when("queued", "done") == (60 if slots == 1 else 4)
        await stage.pass_time(max(0, 61 - stage.now))
        assert stage.model("a").stuck_slots == 0
        await stage.unload("later", "a")
        await stage.done()
        stage.assert_quiet()
        outcomes = [event.facts["outcome"] for event in stage.kinds(Kind.RUN_ENDED)]
        assert outcomes.count("stuck") == 1
        assert not stage.runtime.cuts()


@pytest.mark.contract("beyond/g04_hung_backend_contained")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_where_calls_can_be_killed_the_slot_comes_back_at_once(
    autojump_clock: MockClock, slots: int
) -> None:
    model = spec("a", slots, ignore_cancel=True)
    async with open_stage(model, hang_timeout_s=2, can_kill=True) as stage:
        await stage.ask("hangs", "a", run_ms=60_000)
        await stage.cancel("hangs")
        await stage.pass_time(2)
        stage.assert_quiet()
        for index in range(slots):
            await stage.ask(f"next{index}", "a")
            assert stage.results[f"next{index}"].text == f"next{index}"
        await stage.done()
        assert stage.gates.count("load") == 1


@pytest.mark.contract("beyond/g08_backend_crash_isolated")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_worker_that_dies_fails_its_own_request_only(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, run_ms=2000), can_kill=True) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.ask("queued", "a")
        await stage.pass_time(1)
        assert stage.isolation.crash("a", session=1) == 1
        await stage.done()
        assert isinstance(stage.errors["r0"], BackendCrashedError)
        assert stage.when("queued", "granted") == 1
        assert [stage.when(f"r{index}", "done") for index in range(1, slots)] == [2] * (slots - 1)
        points = [(each.point, each.text) for each in stage.gates.arrivals]
        assert points.index(("restore", "")) < points.index(("run", "queued"))
        stage.assert_quiet()


@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_session_that_cannot_be_replaced_has_the_model_loaded_anew(
    autojump_clock: MockClock, slots: int
) -> None:
    model = spec("a", slots, run_ms=2000, fail_clone=slots + 1)
    async with open_stage(model, can_kill=True) as stage:
        for index in range(slots):
            await stage.ask(f"r{index}", "a")
        await stage.ask("queued", "a")
        await stage.ask("behind", "a")
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.when("queued", "granted") == 1, "the slot is free, only its session is not"
        await stage.done()
        for index in range(1, slots):
            assert stage.made_by(f"r{index}") == ("/a", 1)
            assert stage.when(f"r{index}", "done") == 2
        assert stage.made_by("queued") == ("/a", 2)
        assert stage.made_by("behind") == ("/a", 2)
        assert stage.retirements() == [("a", "broken")]
        stage.assert_quiet()


async def test_the_last_user_of_a_broken_pool_makes_way_for_who_waits(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, run_ms=2000, fail_clone=3), can_kill=True) as stage:
        await stage.ask("r0", "a")
        await stage.ask("r1", "a", run_ms=5000)
        await stage.ask("waits", "a")
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await stage.done()
        assert stage.when("waits", "granted") == 1
        assert stage.ends()["waits"] == ("done", 7)
        assert stage.made_by("waits") == ("/a", 2)


async def test_a_broken_pool_that_nobody_wants_is_retired(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, run_ms=2000, fail_clone=3), can_kill=True) as stage:
        await stage.ask("r0", "a")
        await stage.ask("r1", "a", run_ms=5000)
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.model("a").loaded
        await stage.done()
        assert stage.model("a").state == "unloaded"
        assert stage.retirements() == [("a", "broken")]
        assert stage.kinds(Kind.RETIRED)[0].at - stage.began == 5
        await stage.ask("next", "a")
        await stage.done()
        assert stage.made_by("next") == ("/a", 2)


@pytest.mark.parametrize(
    ("operation", "why"),
    [("unload", "unload"), ("same", "broken"), ("change", "reconfigure"), ("bulk", "unload")],
)
async def test_a_manager_finds_a_broken_pool_not_loaded(
    autojump_clock: MockClock, operation: str, why: str
) -> None:
    model = spec("a", 2, run_ms=2000, fail_clone=3)
    async with open_stage(model, can_kill=True) as stage:
        await stage.ask("r0", "a")
        await stage.ask("r1", "a", run_ms=5000)
        match operation:
            case "unload":
                await stage.unload("m", "a")
            case "same":
                await stage.register("m", model)
            case "change":
                await stage.register("m", spec("a", 1, path="/new"))
            case _:
                await stage.unload_many("m", ["a"])
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await stage.done()
        assert stage.ends()["m"][1] == 5
        assert stage.retirements() == [("a", why)]
        assert stage.model("a").loaded == (operation in {"same", "change"})
        await stage.ask("next", "a")
        await stage.done()
        assert stage.made_by("next") == ("/new" if operation == "change" else "/a", 2)


async def test_a_request_that_was_granted_but_never_asks_leaves_a_broken_pool_behind(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, run_ms=2000, fail_clone=3), can_kill=True) as stage:
        await stage.ask("r0", "a")
        await stage.hold("idle", "a", seconds=4, ready=False)
        await stage.pass_time(1)
        stage.isolation.crash("a", session=1)
        await stage.done()
        assert stage.retirements() == [("a", "broken")]
        assert stage.kinds(Kind.RETIRED)[0].at - stage.began == 4
        stage.assert_quiet()


async def test_a_stuck_slot_does_not_keep_the_others_from_a_new_pool(
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = spec("a", 2, ignore_cancel=True, fail_clone=3)
    async with open_stage(model, hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=60_000)
        await stage.cancel("hangs")
        await stage.pass_time(2)
        assert stage.model("a").stuck_slots == 1
        monkeypatch.setattr(stage.isolation._ports[1]._session, "reset", _fail)
        await stage.stream("breaks", "a")
        await stage.ask("next", "a")
        await stage.done()
        assert stage.made_by("next") == ("/a", 2)
        assert stage.model("a").stuck_slots == 1
        await stage.pass_time(60)
        stage.assert_quiet()
        assert caplog.text.count("could not be restored") == 1, "only what is in use is restored"
        await stage.ask("again", "a")
        await stage.ask("more", "a")
        await stage.done()
        assert stage.made_by("more") == ("/a", 2)


def _fail() -> None:
    raise OSError("the session is broken")


async def test_a_reset_that_takes_longer_than_the_hang_timeout_goes_on_without_the_client(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", run_ms=1000, chunks=1), hang_timeout_s=2) as stage:
        gate = stage.gates.hold("restore")
        await stage.stream("slow", "a")
        await stage.ask("next", "a")
        await stage.pass_time(6)
        assert stage.ends()["slow"][0] == "done"
        assert stage.model("a").active_slots == 1
        gate.open()
        await stage.done()
        assert stage.results["next"].text == "next"
        stage.assert_quiet()


async def test_after_a_crash_the_client_is_told_at_once_and_its_slot_comes_back_later(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", load_ms=5000, run_ms=1000)
    async with open_stage(model, hang_timeout_s=2, can_kill=True) as stage:
        await stage.ask("r", "a")
        await stage.pass_time(5.5)
        stage.isolation.crash("a")
        await stage.ask("next", "a")
        await stage.done()
        assert isinstance(stage.errors["r"], BackendCrashedError)
        assert stage.ends()["r"][1] == 5.5
        assert stage.ends()["next"] == ("done", 5.5 + 5 + 1), "one load, and the run"
        assert stage.made_by("next") == ("/a", 1)
        stage.assert_quiet()


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_slow_revival_that_fails_breaks_the_pool_all_the_same(
    autojump_clock: MockClock, slots: int
) -> None:
    model = spec("a", slots, load_ms=5000, run_ms=1000, fail_clone=slots + 1)
    async with open_stage(model, hang_timeout_s=2, can_kill=True) as stage:
        await stage.ask("r", "a")
        await stage.pass_time(5.5)
        stage.isolation.crash("a", session=1)
        await stage.pass_time(3)
        await stage.ask("next", "a", run_ms=5000)
        await stage.done()
        assert stage.made_by("next")[1] == (2 if slots == 1 else 1)
        await stage.pass_time(10)
        assert stage.retirements() == [("a", "broken")]
        stage.assert_quiet()


async def test_a_slow_revival_that_fails_retires_a_pool_that_nobody_wants(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", load_ms=5000, run_ms=1000, fail_clone=2)
    async with open_stage(model, hang_timeout_s=2, can_kill=True) as stage:
        await stage.ask("r", "a")
        await stage.pass_time(5.5)
        stage.isolation.crash("a", session=1)
        await stage.pass_time(60)
        assert stage.retirements() == [("a", "broken")]
        assert stage.model("a").state == "unloaded"
        stage.assert_quiet()


async def test_a_slot_that_came_back_is_forgotten(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", ignore_cancel=True), hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=10_000)
        await stage.cancel("hangs")
        recovery = stage.runtime._registry.get("a").recovery
        await stage.pass_time(5)
        assert len(recovery._stuck) == 1
        await stage.pass_time(10)
        assert len(recovery._stuck) == 0
        stage.assert_quiet()


async def test_a_slot_that_comes_back_while_the_rest_is_torn_down_is_free_at_the_end(
    autojump_clock: MockClock,
) -> None:
    model = spec("a", 2, ignore_cancel=True)
    async with open_stage(model, hang_timeout_s=2) as stage:
        await stage.ask("hangs", "a", run_ms=6000)
        await stage.cancel("hangs")
        await stage.pass_time(5)
        gate = stage.gates.hold("close_session", session=2)
        stage.runtime.stop()
        await stage.pass_time(1.5)
        gate.open()
        await stage.pass_time(1)
        assert stage.runtime.snapshot().phase == "stopped"
        assert stage.model("a").stuck_slots == 0
        assert stage.model("a").active_slots == 0
