"""What only a broken lifecycle showed to be untested."""

from dataclasses import replace
from typing import Any

import pytest
import trio
from tests.contract.house import House, Rules, model

from paraudio.engines import Job
from paraudio.errors import ConfigError
from paraudio.journal import Kind
from paraudio.spec import ModelSpec, VoicePreset
from paraudio.testing import Stepper

MEBIBYTE = 2**20
NAMED = VoicePreset(voice_id="one")


@pytest.mark.parametrize("steps", range(24))
def test_a_registration_in_any_step_around_the_end_of_a_fence_is_served(steps: int) -> None:
    for seed in range(4):
        with Stepper(seed=seed) as stepper:
            house = House(Rules(hang_s=60), stepper)
            house.open([model("m", unload_ms=1000)])
            house.use("warm", "m")

            async def late(house: House = house) -> str:
                await trio.sleep(1)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                await house.runtime.register(model("m", path="/new"), request="late")
                return "done"

            house._enter("late", late)
            house.unload_many("bulk", None, fence=True)
            house.settle(step_s=5, steps=5)
            assert (house.ends["late"], house.ends["bulk"]) == ("done", "done")
            house.end()


def test_a_change_is_judged_by_what_its_own_files_need() -> None:
    with Stepper() as stepper:
        house = House(Rules(hang_s=60, free_mb=100), stepper)
        house.open([model("m", memory_mb=10)])
        house.use("warm", "m")
        house.free_memory = 200 * MEBIBYTE
        house.register("grows", model("m", memory_mb=150))
        assert house.ends["grows"] == "insufficient_memory"
        house.register("shrinks", model("m", memory_mb=90))
        assert house.ends["shrinks"] == "done"
        house.end()


def test_a_use_that_is_left_during_a_call_waits_for_its_end_and_no_longer() -> None:
    told: list[tuple[str, float]] = []
    with Stepper() as stepper:
        house = House(Rules(hang_s=60), stepper)
        house.open([model("m")])

        async def visit() -> str:
            async with trio.open_nursery() as nursery:
                async with house.runtime.use("m", request="r") as use:
                    await use.ready()

                    async def call() -> None:
                        with pytest.raises(RuntimeError, match="ended during its call"):
                            await use.run(Job(task="tts", text="x", options={"run_ms": 9000}))
                        told.append(("call", house.now))

                    nursery.start_soon(call)
                    await trio.sleep(1)
                told.append(("left", house.now))
            return "done"

        house._enter("r", visit)
        house.advance(1)
        assert sorted(told) == [("call", 1), ("left", 1)]
        assert house.counters("m") == (0, 0, 0, 0)
        house.end()


def test_startup_refuses_what_the_family_does_not_do_without_looking_at_a_file() -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([])
        with pytest.raises(ConfigError, match="does not do task 'midi'") as refused:
            house.runtime.add(replace(model("m"), task="midi"))
        assert refused.value.param == "task"
        house.end()


def test_an_isolation_that_is_not_there_is_refused_by_the_names_of_those_that_are() -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([])
        house.register("m", replace(model("m"), isolation="process"))
        assert house.errors["m"].param == "isolation"
        assert house.errors["m"].message.endswith("available: thread")
        house.register("n", replace(model("n"), family="other"))
        assert house.errors["n"].message.endswith("known families: simulated")
        house.end()


def _with(**wrong: Any) -> ModelSpec:
    """A model with values that the types of its fields do not have."""
    return replace(model("m"), **wrong)


def test_a_mode_and_a_voice_preset_that_cannot_be_are_named() -> None:
    recorded = VoicePreset(voice_ref="/voice.wav")
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([])
        for param, wrong, end in (
            ("mode", _with(mode="sometimes"), "it can in: offline, streaming"),
            (
                "default_voice_preset",
                replace(model("m"), default_voice_preset="deep"),
                "known presets: none",
            ),
            (
                "default_voice_preset",
                replace(model("m"), default_voice_preset="deep", voice_presets={"high": NAMED}),
                "known presets: high",
            ),
        ):
            house.register(end, wrong)
            assert house.errors[end].param == param
            assert house.errors[end].message.endswith(end)
        house.family.imitates = False
        for param, wrong in (
            ("voice_presets.mine.voice_ref", replace(model("m"), voice_presets={"mine": recorded})),
            ("default_voice_preset.voice_ref", replace(model("m"), default_voice_preset=recorded)),
        ):
            house.register(param, wrong)
            assert house.errors[param].param == param
            assert house.errors[param].message.startswith(param.removesuffix(".voice_ref"))
        house.end()


def test_a_live_job_that_came_to_its_end_went_well() -> None:
    with Stepper() as stepper:
        house = House(Rules(hang_s=60), stepper)
        house.open([model("m", 2)])
        house.use("whole", "m", "live", run_ms=1000)
        house.use("leaves", "m", "live", run_ms=1000)
        house.advance(0.2)
        house.leave("leaves")
        house.settle(step_s=10, steps=3)
        ended = house.kinds(Kind.RUN_ENDED)
        assert [(each.facts["request"], each.facts["outcome"]) for each in ended] == [
            ("leaves", "stopped"),
            ("whole", "ok"),
        ]
        assert house.counters("m") == (0, 0, 0, 0)
        house.end()


def test_leaving_a_use_waits_for_a_call_of_another_task_also_when_it_is_cancelled() -> None:
    with Stepper() as stepper:
        house = House(Rules(hang_s=60), stepper)
        house.open([model("m", ignore_cancel=True)])
        told: list[tuple[str, float]] = []

        async def visit() -> str:
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    with trio.CancelScope(shield=True):
                        with pytest.raises(RuntimeError, match="ended during its call"):
                            await use.run(Job(task="tts", text="x", options={"run_ms": 3000}))
                        told.append(("call", house.now))

                async with house.runtime.use("m", request="r") as use:
                    await use.ready()
                    nursery.start_soon(call)
                    await trio.sleep(60)
            return "done"

        house._enter("r", visit)
        house.advance(1)
        house.leave("r")
        assert house.ends == {}
        house.advance(3)
        assert house.ends == {"r": "cancelled"}
        assert told == [("call", 3)]
        assert house.counters("m") == (0, 0, 0, 0)
        house.end()


def test_who_waits_for_room_is_told_how_long_he_waited() -> None:
    with Stepper() as stepper:
        house = House(Rules(limit=1, hang_s=60), stepper)
        house.open([model("a"), model("b")])
        house.use("runs", "a", run_ms=5000)
        house.use("waits", "b", bound_ms=1500)
        house.advance(2)
        assert house.errors["waits"].message.endswith("none became idle within 1500 ms")
        house.settle(step_s=10, steps=3)
        house.end()


@pytest.mark.parametrize(
    ("capacity", "would_do"), [(1, "must be 1 for"), (3, "must be 1 to 3 for")]
)
def test_too_many_slots_are_told_how_many_would_do(capacity: int, would_do: str) -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([])
        house.register("new", model("m", 4, capacity=capacity))
        assert would_do in house.errors["new"].message
        assert house.errors["new"].param == "slots"
        house.end()


def test_startup_refuses_an_id_that_is_taken() -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([model("m")])
        with pytest.raises(ConfigError, match="'m'") as refused:
            house.runtime.add(model("m"))
        assert refused.value.param == "id"
        house.end()


def test_whoever_waits_for_the_drain_goes_on_when_it_begins_and_not_before() -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([])

        async def visit() -> str:
            await house.runtime.wait_draining()
            return "draining"

        house._enter("waits", visit)
        house.advance(5)
        assert house.ends == {}
        house.drain()
        assert house.ends == {"waits": "draining"}
        house.end()


def test_a_model_that_leaves_three_teardowns_behind_is_not_loaded_until_one_returns() -> None:
    with Stepper() as stepper:
        house = House(Rules(), stepper)
        house.open([model("m", 2, capacity=1)])
        house.jam("close_model", "m")
        for name in ("first", "second", "third", "fourth"):
            house.use(name, "m")
            house.advance(1.5)
        assert list(house.ends.values()) == [*["invalid_request_error"] * 3, "slot_stuck"]
        house.unjam()
        house.advance(1)
        house.use("later", "m")
        house.advance(1)
        assert house.ends["later"] == "invalid_request_error"
        house.end()
