"""Replacing a configuration: refused without a trace, or committed whole."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from tests.lifecycle.stage import having, open_stage, spec
from trio.testing import MockClock

from paraudio.engines import Load
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InvalidRequestError, LoadError, ServerBusyError
from paraudio.journal import Kind
from paraudio.spec import IsolationName, Json, ModelSpec, VoicePreset


async def test_the_same_configuration_only_makes_sure_that_it_is_loaded(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 2, load_ms=1000)) as stage:
        await stage.register("first", spec("a", 2, load_ms=1000))
        await stage.done()
        await stage.register("second", spec("a", 2, load_ms=1000))
        await stage.done()
        assert stage.ends() == {"first": ("loaded", 1), "second": ("loaded", 1)}
        assert stage.answers == {"first": False, "second": False}
        assert stage.model("a").config == 1
        assert stage.model("a").generation == 1


@pytest.mark.contract("ops/ready/register", "state/reconfiguring", "ops/reconfiguring/status")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_change_drains_older_work_then_retires_commits_and_loads(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, path="/old", run_ms=3000, unload_ms=2000)) as stage:
        await stage.ask("older", "a")
        await stage.register("change", spec("a", slots, path="/new", load_ms=2000))
        await stage.ask("younger", "a")
        assert stage.model("a").queued_managers == 1
        probe_s = 0 if slots == 1 else 2
        if probe_s:
            await stage.pass_time(4)
            seen = stage.model("a")
            assert (seen.state, seen.loaded, seen.spec.path) == ("reconfiguring", True, "/old")
        await stage.pass_time(4 + probe_s - stage.now)
        seen = stage.model("a")
        assert (seen.state, seen.loaded, seen.spec.path) == ("reconfiguring", False, "/old")
        assert seen.max_parallel_slots is None
        assert seen.active_slots == 0
        await stage.pass_time(2)
        seen = stage.model("a")
        assert (seen.state, seen.loaded, seen.spec.path) == ("reconfiguring", False, "/new")
        await stage.done()
        assert stage.when("change", "reconfigured") == 7 + probe_s
        assert stage.made_by("older")[0] == "/old"
        assert stage.made_by("younger")[0] == "/new"
        assert stage.states("a")[-2:] == ["reconfiguring", "ready"]
        stage.assert_quiet()


def _wrong(**changes: Any) -> ModelSpec:
    return dataclasses.replace(spec("a", 2, path="/new"), **changes)


@pytest.mark.contract("fail/invalid_before_live_change", "startup/slots_schema_rejected")
@pytest.mark.parametrize(
    ("candidate", "param"),
    [
        (_wrong(family="nonsense"), "family"),
        (_wrong(task="midi"), "task"),
        (_wrong(mode="sideways"), "mode"),
        (_wrong(slots=0), "slots"),
        (_wrong(slots=17), "slots"),
        (_wrong(slots=True), "slots"),
        (_wrong(slots=1.5), "slots"),
        (_wrong(slots="2"), "slots"),
        (_wrong(slots=None), "slots"),
        (_wrong(isolation="process"), "isolation"),
        (_wrong(isolation="ray"), "isolation"),
        (_wrong(load_options={"load_ms": -1}), "load_options.load_ms"),
        (_wrong(load_options={"nonsense": 1}), "load_options.nonsense"),
        (_wrong(session_options={"run_ms": "x"}), "session_options.run_ms"),
        (_wrong(default_request_options={"fail": 1}), "default_request_options.fail"),
        (_wrong(default_voice_preset="absent"), "default_voice_preset"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("loaded", [True, False])
async def test_a_wrong_candidate_changes_nothing(
    autojump_clock: MockClock, candidate: ModelSpec, param: str, loaded: bool
) -> None:
    async with open_stage(spec("a", 2)) as stage:
        if loaded:
            await stage.ask("first", "a")
        before, history = stage.model("a"), len(stage.journal)
        await stage.register("wrong", candidate)
        error = stage.errors["wrong"]
        assert isinstance(error, InvalidRequestError)
        assert error.param == param
        assert stage.model("a") == before
        assert len(stage.journal) == history, "nothing even queued"


async def test_a_preset_by_name_is_found_and_one_of_its_own_needs_no_name(
    autojump_clock: MockClock,
) -> None:
    presets = {"calm": VoicePreset(voice_id="x")}
    async with open_stage() as stage:
        for index, default in enumerate(["calm", VoicePreset(voice_id="y"), None]):
            await stage.register(
                f"r{index}", _wrong(voice_presets=presets, default_voice_preset=default)
            )
            await stage.done()
        assert not stage.errors


@pytest.mark.contract("fail/unsupported_capacity_on_existing")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_too_many_slots_for_the_same_sessions_leave_the_pool_as_it_was(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage(spec("a", slots, capacity=4, load_ms=1000)) as stage:
        await stage.ask("first", "a")
        await stage.done()
        before = stage.model("a")
        await stage.register("five", spec("a", 5, capacity=4, load_ms=1000))
        await stage.done()
        error = stage.errors["five"]
        assert isinstance(error, InvalidRequestError)
        assert error.param == "slots"
        assert "1 to 4" in error.message
        assert stage.model("a") == before
        assert stage.gates.count("load") == 1, "the capacity is known"
        assert not stage.kinds(Kind.RETIRED)
        await stage.ask("second", "a")
        assert stage.made_by("second") == ("/a", 1)
        stage.assert_quiet()


@pytest.mark.contract("fail/unsupported_capacity_on_existing")
async def test_capacity_goes_up_and_down_with_nonsense_refused_in_between(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 1, capacity=4, run_ms=1000)) as stage:
        for generation, slots in enumerate((1, 2, 1, 4, 1), start=1):
            await stage.register(f"to {slots}", spec("a", slots, capacity=4, run_ms=1000))
            await stage.done()
            started = stage.now
            for index in range(slots + 1):
                await stage.ask(f"{generation}/{index}", "a")
            await stage.done()
            ends = [stage.when(f"{generation}/{index}", "done") for index in range(slots + 1)]
            assert ends == [started + 1] * slots + [started + 2]
            for nonsense in (0, 5, 17):
                await stage.register("nonsense", spec("a", nonsense, capacity=4, run_ms=1000))
                await stage.done()
                assert stage.errors.pop("nonsense").param == "slots"
            assert stage.model("a").slots == slots
            assert stage.model("a").generation == generation
        stage.assert_quiet()


@pytest.mark.contract("fail/capacity_probe_of_changed_replacement")
@pytest.mark.parametrize("loaded", [True, False])
async def test_changed_sessions_are_probed_privately_before_anything_changes(
    autojump_clock: MockClock, loaded: bool
) -> None:
    async with open_stage(spec("a", 2, path="/old")) as stage:
        if loaded:
            await stage.ask("first", "a")
        before = stage.model("a")
        await stage.register("too many", spec("a", 4, path="/new", capacity=2, load_ms=1000))
        seen = stage.model("a")
        assert seen.state == ("reconfiguring" if loaded else "unloaded")
        assert seen.loaded == loaded
        assert seen.spec == before.spec
        await stage.done()
        assert stage.errors["too many"].param == "slots"
        assert stage.model("a") == before
        loads = 2 if loaded else 1
        assert stage.gates.count("load") == loads
        assert stage.gates.count("close_model") == 1, "nothing is left of the probe"
        await stage.register("fits", spec("a", 2, path="/new", capacity=2, load_ms=1000))
        await stage.ask("second", "a")
        await stage.done()
        assert stage.made_by("second") == ("/new", 2 if loaded else 1)
        assert stage.answers["fits"] is True


@pytest.mark.contract("fail/capacity_probe_of_changed_replacement")
@pytest.mark.parametrize("failure", ["fail_loads", "null_sessions", "fail_clone"])
async def test_a_probe_that_fails_keeps_the_old_configuration_working(
    autojump_clock: MockClock, failure: str
) -> None:
    async with open_stage(spec("a", 2, path="/old")) as stage:
        await stage.ask("first", "a")
        before = stage.model("a")
        await stage.register("bad", having(spec("a", 2, path="/new"), **{failure: 1}))
        assert isinstance(stage.errors["bad"], LoadError)
        assert stage.model("a") == before
        await stage.ask("second", "a")
        assert stage.made_by("second") == ("/old", 1)


async def test_a_change_to_one_slot_needs_no_probe(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", 2, path="/old")) as stage:
        await stage.ask("first", "a")
        await stage.register("one", spec("a", 1, path="/new"))
        await stage.done()
        assert stage.gates.count("load") == 2
        assert stage.model("a").slots == 1


async def test_the_capacity_is_not_carried_over_to_other_weights(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", 1, capacity=2)) as stage:
        await stage.ask("first", "a")
        await stage.register("other", spec("a", 1, capacity=4, fail_loads=1))
        assert isinstance(stage.errors.pop("other"), LoadError)
        await stage.register("three", spec("a", 3, capacity=4, fail_loads=1))
        await stage.done()
        assert stage.model("a").slots == 3
        assert stage.model("a").max_parallel_slots == 4
        assert not stage.errors


@pytest.mark.contract("fail/load_failure_after_commit")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_load_that_fails_after_the_commit_leaves_the_new_configuration_for_a_retry(
    autojump_clock: MockClock, slots: int
) -> None:
    fails: dict[str, Json] = {"fail_loads": 1} if slots == 1 else {"fail_clone": 1 + slots}
    async with open_stage(spec("a", slots, path="/old")) as stage:
        await stage.ask("first", "a")
        await stage.register("bad", having(spec("a", slots, path="/new"), **fails))
        assert isinstance(stage.errors["bad"], LoadError)
        seen = stage.model("a")
        assert (seen.state, seen.loaded, seen.config) == ("unloaded", False, 2)
        assert seen.spec.path == "/new"
        assert stage.states("a")[-2:] == ["reconfiguring", "unloaded"]
        await stage.ask("second", "a")
        await stage.done()
        assert stage.made_by("second") == ("/new", 3)
        stage.assert_quiet()


@pytest.mark.contract("ops/unloaded/register")
async def test_an_unloaded_model_is_changed_and_loaded(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a", path="/old")) as stage:
        await stage.register("change", spec("a", path="/new"))
        await stage.done()
        assert stage.ends()["change"][0] == "reconfigured"
        assert stage.states("a") == ["loading", "ready"]
        assert stage.model("a").config == 2


async def test_a_failed_change_of_an_unloaded_model_ends_unloaded(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", path="/old")) as stage:
        await stage.register("change", spec("a", path="/new", fail_loads=1))
        assert stage.states("a") == ["loading", "unloaded"]
        assert stage.model("a").spec.path == "/new"


async def test_a_registration_whose_caller_leaves_once_granted_runs_to_its_end(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", path="/old")) as stage:
        await stage.ask("first", "a")
        await stage.register("change", spec("a", path="/new", load_ms=2000))
        await stage.cancel("change")
        await stage.ask("second", "a")
        await stage.done()
        assert stage.made_by("second") == ("/new", 2)
        assert stage.when("second", "granted") == 2


async def test_a_queued_registration_whose_caller_leaves_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(spec("a", path="/old", run_ms=2000)) as stage:
        await stage.ask("first", "a")
        await stage.register("change", spec("a", path="/new"))
        await stage.ask("second", "a")
        await stage.cancel("change")
        await stage.done()
        assert stage.made_by("second") == ("/old", 1)
        assert stage.when("second", "granted") == 2


@pytest.mark.contract("time/admission_timeout_manager")
@pytest.mark.parametrize("operation", ["register", "unload"])
async def test_a_manager_that_waited_to_its_bound_leaves_and_nobody_behind_it_is_stranded(
    autojump_clock: MockClock, operation: str
) -> None:
    async with open_stage(spec("a", 2, run_ms=5000)) as stage:
        await stage.ask("first", "a")
        if operation == "register":
            await stage.register("manager", spec("a", 1, path="/new"), bound_ms=1000)
        else:
            await stage.unload("manager", "a", bound_ms=1000)
        await stage.ask("second", "a")
        await stage.done()
        assert isinstance(stage.errors["manager"], ServerBusyError)
        assert stage.when("second", "granted") == 1
        assert stage.made_by("second") == ("/a", 1)


class _Bug(SimulatedFamily):
    """Breaks down in ways that no isolation is told of."""

    def inspect(self, load: Load) -> Mapping[str, Json]:
        raise ZeroDivisionError(f"a bug at {load.path}")


async def test_an_inspection_that_breaks_down_is_a_failure_of_the_backend(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(family=_Bug()) as stage:
        await stage.register("r", spec("a"))
        assert stage.errors["r"].status == 500
        assert stage.runtime.snapshot().models == ()


class _Particular(SimulatedFamily):
    """Runs in threads only."""

    isolation: IsolationName | None = "thread"


async def test_an_isolation_that_the_family_cannot_have_is_refused(
    autojump_clock: MockClock,
) -> None:
    async with open_stage(family=_Particular()) as stage:
        await stage.register("wrong", dataclasses.replace(spec("a"), isolation="process"))
        assert stage.errors["wrong"].param == "isolation"
        assert "must be 'thread'" in stage.errors["wrong"].message
        await stage.register("right", dataclasses.replace(spec("a"), isolation="thread"))
        await stage.register("none", spec("b"))
        await stage.done()
        assert stage.model("a").loaded
        assert stage.model("b").loaded


async def test_an_operation_that_breaks_down_ends_and_is_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> int:
        raise ZeroDivisionError("a bug of ours")

    async with open_stage(min_free_memory_mb=1, free_memory=broken) as stage:
        with pytest.raises(ZeroDivisionError):
            await stage.runtime.register(spec("a"))
        assert "failed unexpectedly" in caplog.text
        stage.assert_quiet()
