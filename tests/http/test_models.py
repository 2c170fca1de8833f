"""``/v1/models``: the picture, registration, unload."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.http.client import Reply
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from trio.testing import MockClock

from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.store import Shelf, Store

MANAGED = {"ui_management": True}
LOAD, UNLOAD = "/v1/models/load", "/v1/models/unload"


def described(**changes: Any) -> dict[str, Any]:
    return {
        "id": "voice",
        "family": "simulated",
        "path": "/models/voice",
        "task": "tts",
        **changes,
    }


async def models(world: World, query: str = "") -> dict[str, Any]:
    reply: Reply = await world.client.get(f"/v1/models{query}")
    return {model["id"]: model for model in reply.json()["data"]}


@pytest.mark.contract("state/models_counters", "state/unloaded", "state/ready")
async def test_the_list_says_what_is_registered_and_how_it_fares(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(slots=2), EARS) as world:
        listed = (await world.client.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == ["voice", "ears"]
        [cold, _] = listed["data"]
        expected = {
            "object": "model",
            "family": "simulated",
            "path": "/models/voice",
            "task": "tts",
            "mode": "offline",
            "state": "unloaded",
            "loaded": False,
            "slots": 2,
            "active_slots": 0,
            "queued_requests": 0,
            "queued_managers": 0,
            "max_parallel_slots": None,
            "owned_by": "paraudio",
        }
        assert expected.items() <= cold.items()
        assert isinstance(cold["created"], int)
        await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        warm = (await world.client.get("/v1/models")).json()
        assert warm["revision"] > listed["revision"]
        assert {
            "state": "ready",
            "loaded": True,
            "max_parallel_slots": 16,
            "sample_rate": 22_050,
            "active_slots": 0,
        }.items() <= warm["data"][0].items()


@pytest.mark.contract("beyond/g06_atomic_status", "phase/queued", "phase/executing")
async def test_counters_follow_the_queue(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with open_world(spec(session_options={"run_ms": 1000}), EARS) as world:
        body = {"model": "voice", "input": "a"}
        calls = [world.client.start("POST", "/v1/audio/speech", body) for _ in range(3)]
        await world.wait_until(lambda: world.model().queued_requests == 2)
        calls.append(
            world.client.start("POST", "/v1/tasks/unload_models", {"model_ids": ["voice"]})
        )
        await world.wait_until(lambda: world.model().queued_managers == 1)
        shown = (await models(world))["voice"]
        assert (shown["active_slots"], shown["queued_requests"], shown["queued_managers"]) == (
            1,
            2,
            1,
        )
        for call in calls:
            await call.ended.wait()
        assert world.idle()


async def test_one_model_is_shown_alone_and_an_unknown_one_is_404(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, spec(id="org/nested name")) as world:
        assert (await world.client.get("/v1/models/voice")).json()["id"] == "voice"
        nested = await world.client.get("/v1/models/org/nested name")
        assert nested.json()["id"] == "org/nested name"
        reply = await world.client.get("/v1/models/nobody")
        assert (reply.status, reply.error()["code"]) == (404, "model_not_found")


async def test_options_and_parameters_are_shown_when_asked_for(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    model = spec(session_options={"run_ms": 5}, default_request_options={"chunks": 7})
    async with open_world(model) as world:
        plain = (await models(world))["voice"]
        assert "session_options" not in plain
        assert "params" not in plain
        shown = (await models(world, "?include_session_options=true&include_params=true"))["voice"]
        assert shown["session_options"]["run_ms"] == 5
        options = {option["name"]: option for option in shown["params"]["options"]}
        assert options["chunks"]["default"] == 7
        assert options["chunks"]["type"] == "int"
        assert options["fail"]["default"] is False
        reply = await world.client.get("/v1/models?include_params=perhaps")
        assert (reply.status, reply.error()["param"]) == (400, "include_params")


@pytest.mark.contract("register_new/publishes_one_entry_under_lease", "ops/unloaded/register")
async def test_a_model_is_registered_and_loaded(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS, settings=MANAGED) as world:
        reply = await world.client.post(LOAD, described())
        assert reply.json() == {"id": "voice", "loaded": True, "reconfigured": False}
        assert world.model().loaded
        again = await world.client.post(LOAD, described())
        assert again.json() == {"id": "voice", "loaded": True, "reconfigured": False}
        changed = await world.client.post(LOAD, described(slots=3))
        assert changed.json() == {"id": "voice", "loaded": True, "reconfigured": True}
        assert world.model().slots == 3
        gone = await world.client.post(UNLOAD, {"id": "voice"})
        assert gone.json() == {"id": "voice", "loaded": False}
        assert not world.model().loaded
        assert (await world.client.post(UNLOAD, {"id": "voice"})).status == 200
        assert world.idle()


@pytest.mark.parametrize(
    ("data", "param"),
    [
        (described(slots=0), "slots"),
        (described(slots=17), "slots"),
        (described(slots=None), "slots"),
        (described(slots=True), "slots"),
        (described(slots="2"), "slots"),
        (described(slots=1.5), "slots"),
        (described(colour="red"), "colour"),
        (described(task="sing"), "task"),
        (described(family="nobody"), "family"),
        (described(path="relative"), "path"),
        (described(load_options={"speed": 1}), "load_options.speed"),
        (described(id=""), "id"),
        ({}, "id"),
    ],
)
@pytest.mark.contract("fail/invalid_before_live_change", "startup/slots_schema_rejected")
async def test_a_registration_that_is_wrong_names_the_key_and_changes_nothing(
    open_world: OpenWorld, autojump_clock: MockClock, data: dict[str, Any], param: str
) -> None:
    async with open_world(VOICE, settings=MANAGED) as world:
        await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        before = world.model()
        reply = await world.client.post(LOAD, data)
        assert (reply.status, reply.error()["param"]) == (400, param)
        assert world.model() == before


async def test_a_registered_model_is_loaded_by_its_id_alone(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    chosen = spec(slots=2, session_options={"run_ms": 5})
    async with open_world(chosen, settings=MANAGED) as world:
        reply = await world.client.post(LOAD, {"id": "voice"})
        expected = {"id": "voice", "loaded": True, "reconfigured": False}
        assert (reply.status, reply.json()) == (200, expected)
        assert (world.model().loaded, world.model().spec) == (True, chosen)
        again = await world.client.post(LOAD, {"id": "voice"})
        assert (again.json(), world.model().generation) == (expected, 1)
        assert world.idle()


async def test_a_model_that_is_loaded_by_its_id_is_the_one_that_it_is_when_its_turn_comes(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 1000}), settings=MANAGED) as world:
        running = world.client.start("POST", "/v1/audio/speech", {"model": "voice", "input": "a"})
        await world.wait_until(lambda: world.model().loaded)
        changing = world.client.start("POST", LOAD, described(session_options={"run_ms": 7}))
        await world.wait_until(lambda: world.model().queued_managers == 1)
        reply = await world.client.post(LOAD, {"id": "voice"})
        assert reply.json() == {"id": "voice", "loaded": True, "reconfigured": False}
        await changing.ended.wait()
        await running.ended.wait()
        assert changing.reply.json()["reconfigured"] is True
        assert world.model().spec.session_options["run_ms"] == 7


async def test_a_load_by_id_that_fails_is_a_500_and_the_next_try_is_taken(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(load_options={"fail_loads": 1}), settings=MANAGED) as world:
        reply = await world.client.post(LOAD, {"id": "voice"})
        assert (reply.status, reply.error()["code"]) == (500, "load_failed")
        assert world.idle()
        assert (await world.client.post(LOAD, {"id": "voice"})).status == 200


async def test_a_model_of_the_store_is_registered_by_its_name_alone(
    open_world: OpenWorld, autojump_clock: MockClock, tmp_path: Path
) -> None:
    family = SimulatedFamily()
    family.name = "silero_vad"
    families = {"silero_vad": family}
    shelf = Shelf(Store(tmp_path))
    async with open_world(VOICE, settings=MANAGED, families=families, shelf=shelf) as world:
        reply = await world.client.post(LOAD, {"id": "silero-vad"})
        assert (reply.status, reply.json()["reconfigured"]) == (200, False)
        known = world.model("silero-vad").spec
        assert (known.path, known.task) == ("store:silero-vad", "vad")
        assert world.model("silero-vad").loaded


async def test_an_id_that_nothing_knows_is_a_404_that_says_what_a_new_model_needs(
    open_world: OpenWorld, autojump_clock: MockClock, tmp_path: Path
) -> None:
    for shelf in (None, Shelf(Store(tmp_path))):
        async with open_world(VOICE, settings=MANAGED, shelf=shelf) as world:
            reply = await world.client.post(LOAD, {"id": "voise"})
            error = reply.error()
            assert (reply.status, error["code"], error["param"]) == (404, "model_not_found", "id")
            assert "'voice'" in error["message"]
            assert "family and path" in error["message"]
            assert [model.spec.id for model in world.runtime.snapshot().models] == ["voice"]


async def test_a_family_that_does_one_thing_needs_no_task(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    one, several = SimulatedFamily(), described()
    one.name = "one"
    one.tasks = {"tts": frozenset({"offline"})}
    async with open_world(VOICE, settings=MANAGED, families={"one": one}) as world:
        body = {"id": "new", "family": "one", "path": "/models/new"}
        assert (await world.client.post(LOAD, body)).status == 200
        assert world.model("new").spec.task == "tts"
        del several["task"]
        reply = await world.client.post(LOAD, several)
        assert (reply.status, reply.error()["param"]) == (400, "task")


async def test_a_number_that_is_none_is_refused_and_the_list_goes_on(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE, settings=MANAGED) as world:
        body = json.dumps(described(session_options={"run_ms": 1})).replace("1}", "1e999}")
        headers = {"content-type": "application/json"}
        reply = await world.client.post(LOAD, body.encode(), headers)
        assert (reply.status, "too large" in reply.error()["message"]) == (400, True)
        listed = await world.client.get("/v1/models?include_session_options=true")
        assert listed.status == 200


async def test_slots_need_the_parallel_policy(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={**MANAGED, "parallel_jobs": False}) as world:
        reply = await world.client.post(LOAD, described(slots=1))
        assert (reply.status, reply.error()["param"]) == (400, "slots")
        assert "parallel-jobs" in reply.error()["message"]


@pytest.mark.contract("register_new/first_load_failure_stays_registered")
async def test_a_failed_first_load_is_a_500_and_stays_registered(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(EARS, settings=MANAGED) as world:
        reply = await world.client.post(LOAD, described(load_options={"fail_loads": 1}))
        assert (reply.status, reply.error()["type"]) == (500, "server_error")
        assert (await models(world))["voice"]["state"] == "unloaded"
        reply = await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        assert reply.status == 200


@pytest.mark.contract("fail/unsupported_capacity_on_existing")
async def test_too_many_slots_keep_the_old_pool(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    limited = {"capacity": 2}
    async with open_world(spec(load_options=limited), settings=MANAGED) as world:
        await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        reply = await world.client.post(LOAD, described(slots=5, load_options=limited))
        assert (reply.status, reply.error()["param"]) == (400, "slots")
        assert (world.model().slots, world.model().loaded, world.model().generation) == (1, True, 1)


@pytest.mark.parametrize(
    ("data", "status", "param"),
    [
        ({}, 400, "id"),
        ({"id": 5}, 400, "id"),
        ({"id": "voice", "force": True}, 400, "force"),
        ({"id": "voice", "busy_timeout_ms": -1}, 400, "busy_timeout_ms"),
        ({"id": "nobody"}, 404, "id"),
    ],
)
async def test_an_unload_that_is_wrong_names_the_field(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    data: dict[str, Any],
    status: int,
    param: str,
) -> None:
    async with open_world(settings=MANAGED) as world:
        reply = await world.client.post(UNLOAD, data)
        assert (reply.status, reply.error()["param"]) == (status, param)


@pytest.mark.contract("time/admission_timeout_manager")
async def test_an_unload_waits_no_longer_than_it_says(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 60_000}), settings=MANAGED) as world:
        running = world.client.start("POST", "/v1/audio/speech", {"model": "voice", "input": "a"})
        await world.wait_until(lambda: world.model().loaded)
        began = trio.current_time()
        reply = await world.client.post(UNLOAD, {"id": "voice", "busy_timeout_ms": 250})
        assert (reply.status, reply.error()["code"]) == (503, "server_busy")
        assert "retry-after" in reply.headers
        assert trio.current_time() - began == pytest.approx(0.25)
        await running.ended.wait()
        assert running.reply.status == 200


@pytest.mark.parametrize(("path", "data"), [(LOAD, described()), (UNLOAD, {"id": "voice"})])
async def test_management_is_off_unless_it_is_switched_on(
    world: World, autojump_clock: MockClock, path: str, data: dict[str, Any]
) -> None:
    reply = await world.client.post(path, data)
    assert (reply.status, reply.error()["type"]) == (403, "forbidden")
    assert "ui_management" in reply.error()["message"]
    bulk = await world.client.post("/v1/tasks/unload_all_models")
    assert bulk.status == 200
