"""New registrations: one entry, held before anybody can see it."""

import dataclasses
from typing import Any

import pytest
from tests.lifecycle.stage import having, open_stage, spec
from trio.testing import MockClock

from paraudio.errors import ConfigError, LoadError
from paraudio.journal import Kind
from paraudio.spec import ModelSpec


@pytest.mark.contract("register_new/publishes_one_entry_under_lease")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_new_model_is_published_held_and_loads(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage() as stage:
        await stage.register("new", spec("a", slots, load_ms=2000))
        await stage.ask("early", "a")
        assert stage.model("a").state == "loading"
        assert stage.model("a").queued_requests == 1
        await stage.done()
        assert stage.when("early", "granted") == 2
        assert stage.answers["new"] is False
        kinds = [event.kind for event in stage.journal if event.model == "a"][:4]
        assert kinds == [Kind.QUEUED, Kind.GRANTED, Kind.REGISTERED, Kind.STATE]


@pytest.mark.contract("register_new/concurrent_same_id_queues")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_two_registrations_of_one_id_make_one_entry_and_one_load(
    autojump_clock: MockClock, slots: int
) -> None:
    async with open_stage() as stage:
        await stage.register("first", spec("a", slots, load_ms=2000))
        await stage.register("second", spec("a", slots, load_ms=2000))
        await stage.register("third", spec("a", slots, path="/other", load_ms=2000))
        await stage.done()
        assert stage.ends()["first"] == ("loaded", 2)
        assert stage.ends()["second"] == ("loaded", 2)
        assert stage.ends()["third"] == ("reconfigured", 4 if slots == 1 else 6)
        assert len(stage.runtime.snapshot().models) == 1
        assert len(stage.kinds(Kind.REGISTERED)) == 1


@pytest.mark.contract("register_new/different_ids_independent")
async def test_registrations_of_different_ids_run_side_by_side(autojump_clock: MockClock) -> None:
    async with open_stage() as stage:
        for name in "abc":
            await stage.register(name, spec(name, load_ms=2000))
        await stage.done()
        assert set(stage.ends().values()) == {("loaded", 2)}
        assert [model.spec.id for model in stage.runtime.snapshot().models] == ["a", "b", "c"]


@pytest.mark.contract("register_new/first_load_failure_stays_registered")
@pytest.mark.parametrize("failure", ["fail_loads", "null_sessions", "fail_clone"])
async def test_a_first_load_that_fails_leaves_the_model_registered(
    autojump_clock: MockClock, failure: str
) -> None:
    async with open_stage() as stage:
        await stage.register("new", having(spec("a"), **{failure: 1}))
        assert isinstance(stage.errors["new"], LoadError)
        assert (stage.model("a").state, stage.model("a").config) == ("unloaded", 1)
        await stage.ask("retry", "a")
        await stage.done()
        assert stage.made_by("retry") == ("/a", 2)


@pytest.mark.contract("register_new/unsupported_count_stays_registered_unloaded")
async def test_a_new_model_with_too_many_slots_stays_unloaded_until_it_is_corrected(
    autojump_clock: MockClock,
) -> None:
    async with open_stage() as stage:
        await stage.register("new", spec("a", 4, capacity=2))
        assert stage.errors["new"].param == "slots"
        assert not stage.model("a").loaded
        await stage.register("corrected", spec("a", 2, capacity=2))
        await stage.done()
        assert stage.model("a").loaded
        assert stage.model("a").slots == 2


@pytest.mark.contract("fail/publication_failure_before_commit")
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_new_model_that_fails_before_it_is_published_leaves_no_entry_and_no_lease(
    autojump_clock: MockClock, slots: int
) -> None:
    good = spec("a", slots)
    async with open_stage() as stage:
        for field, wrong in (
            ("slots", changed(good, slots=17)),
            ("task", changed(good, task="midi")),
            ("mode", changed(good, mode="sometimes")),
            ("load_options.speed", changed(good, load_options={"speed": 3})),
        ):
            await stage.register(field, wrong)
            assert stage.errors[field].param == field
            assert (stage.runtime.snapshot().models, stage.runtime.places()) == ((), [])
        assert stage.kinds(Kind.REGISTERED, Kind.QUEUED) == []
        await stage.register("good", good)
        await stage.done()
        assert stage.ends()["good"][0] == "loaded"


@pytest.mark.contract("fail/publication_failure_before_commit")
async def test_a_new_model_that_comes_when_the_server_drains_leaves_no_entry(
    autojump_clock: MockClock,
) -> None:
    async with open_stage() as stage:
        stage.runtime.drain()
        await stage.register("late", spec("a"))
        assert stage.ends()["late"][0] == "shutting_down"
        assert (stage.runtime.snapshot().models, stage.kinds(Kind.REGISTERED)) == ((), [])


def changed(base: ModelSpec, **wrong: Any) -> ModelSpec:
    """The same model with values that the types of its fields do not have."""
    return dataclasses.replace(base, **wrong)


async def test_a_registration_is_inspected_without_registering(autojump_clock: MockClock) -> None:
    async with open_stage() as stage:
        inspection = await stage.runtime.inspect(spec("a", memory_mb=3))
        assert inspection.memory == 3 * 2**20
        assert stage.runtime.snapshot().models == ()


@pytest.mark.contract("startup/flag_slots_1_to_16")
async def test_startup_takes_one_to_sixteen_slots(autojump_clock: MockClock) -> None:
    async with open_stage(*(spec(f"m{slots}", slots) for slots in range(1, 17))) as stage:
        for slots in range(1, 17):
            await stage.ask(f"r{slots}", f"m{slots}")
            assert stage.model(f"m{slots}").slots == slots
        await stage.done()
        assert stage.gates.count("session") == sum(range(1, 17))


@pytest.mark.contract("startup/slots_schema_rejected")
@pytest.mark.parametrize("slots", [0, 17, -1, True, None, "2", 2.0])
async def test_startup_refuses_any_other_number(autojump_clock: MockClock, slots: Any) -> None:
    wrong = dataclasses.replace(spec("a"), slots=slots)
    async with open_stage() as stage:
        with pytest.raises(ConfigError, match="'a'") as caught:
            stage.runtime.add(wrong)
        assert caught.value.param == "slots"
        assert stage.runtime.snapshot().models == ()


async def test_startup_refuses_a_second_model_of_the_same_id(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a")) as stage:
        with pytest.raises(ConfigError, match="two models"):
            stage.runtime.add(spec("a", path="/other"))
        assert stage.model("a").spec.path == "/a"


async def test_the_serial_policy_knows_one_slot_only(autojump_clock: MockClock) -> None:
    async with open_stage(spec("a"), parallel_jobs=False) as stage:
        await stage.register("two", spec("a", 2))
        assert stage.errors["two"].param == "slots"
        assert "--parallel-jobs" in stage.errors["two"].message
        await stage.ask("r", "a")
        await stage.done()
        assert stage.model("a").slots == 1


@pytest.mark.parametrize("limit", [0, 1, 2])
async def test_eager_models_load_at_startup_as_far_as_there_is_room(
    autojump_clock: MockClock, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    specs = [
        spec("a", lazy=False, load_ms=1000),
        spec("lazy"),
        spec("b", lazy=False, load_ms=1000),
        spec("c", lazy=False, load_ms=1000),
    ]
    async with open_stage(*specs, max_loaded_models=limit) as stage:
        await stage.runtime.load_eager()
        loaded = [each.spec.id for each in stage.runtime.snapshot().models if each.loaded]
        assert loaded == ["a", "b", "c"][: limit or 3]
        assert stage.now == (limit or 1), "guarded loads run one after the other"
        assert len(caplog.records) == (3 - limit if limit else 0)
        assert not stage.retirements()


async def test_an_eager_model_that_fails_is_logged_and_the_others_load(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    specs = [spec("a", lazy=False, fail_loads=1), spec("b", lazy=False)]
    async with open_stage(*specs) as stage:
        await stage.runtime.load_eager()
        assert [each.loaded for each in stage.runtime.snapshot().models] == [False, True]
        assert "'a' was not loaded" in caplog.text


@pytest.mark.parametrize("operation", ["unload", "change", "request"])
async def test_the_bound_of_the_model_stands_in_place_of_the_longer_or_shorter_one_of_the_server(
    autojump_clock: MockClock, operation: str
) -> None:
    patient = dataclasses.replace(spec("a", run_ms=5000), busy_timeout_ms=60_000)
    hasty = dataclasses.replace(spec("b", run_ms=5000), busy_timeout_ms=500)
    async with open_stage(patient, hasty, busy_timeout_ms=1000) as stage:
        for model in (patient, hasty):
            await stage.ask(f"runs {model.id}", model.id)
            name = f"waits {model.id}"
            match operation:
                case "unload":
                    await stage.unload(name, model.id)
                case "change":
                    await stage.register(name, dataclasses.replace(model, path="/new"))
                case _:
                    await stage.ask(name, model.id, run_ms=0)
        await stage.done()
        assert stage.ends()["waits a"][1] == 5
        assert "waits a" not in stage.errors
        assert stage.ends()["waits b"] == ("server_busy", 0.5)
