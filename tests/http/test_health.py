"""Probes answer at once, whatever the models do."""

import pytest
import trio
from tests.http.conftest import VOICE, OpenWorld, World, spec
from trio.testing import MockClock

from paraudio.config import Settings
from paraudio.journal import Kind


async def test_health_says_what_the_server_is(world: World, autojump_clock: MockClock) -> None:
    reply = await world.client.get("/health")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "status": "ok",
        "backend": Settings().backend,
        "models": 2,
        "ui": False,
        "ui_management": False,
    }
    assert (await world.client.get("/health/live")).json() == {"status": "ok"}


@pytest.mark.contract("ops/loading/status")
async def test_probes_answer_while_every_model_loads_or_hangs(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    stuck = spec(VOICE, id="stuck", session_options={"run_ms": 10**9, "ignore_cancel": True})
    async with open_world(VOICE, stuck) as world:
        gate = world.gates.hold("load", model="voice")
        world.client.start("POST", "/v1/audio/speech", {"model": "voice", "input": "a"})
        hung = world.client.start("POST", "/v1/audio/speech", {"model": "stuck", "input": "a"})
        await gate.wait_held()
        began = trio.current_time()
        for path in ("/health", "/health/live", "/health/ready", "/v1/models"):
            assert (await world.client.get(path)).status == 200
        assert trio.current_time() == began
        hung.hang_up()
        await hung.ended.wait()
        await world.wait_until(lambda: world.model("stuck").stuck_slots == 1)
        began = trio.current_time()
        assert (await world.client.get("/health")).status == 200
        ready = await world.client.get("/health/ready")
        assert ready.status == 503
        assert ready.json()["unusable_models"] == ["stuck"]
        assert ready.json()["stuck_slots"] == {"stuck": 1}
        assert trio.current_time() == began
        gate.open()


async def test_a_model_with_one_of_two_slots_stuck_is_still_ready(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    half = spec(slots=2, session_options={"run_ms": 10**9, "ignore_cancel": True})
    async with open_world(half) as world:
        hung = world.client.start("POST", "/v1/audio/speech", {"model": "voice", "input": "a"})
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        hung.hang_up()
        await world.wait_until(lambda: world.model().stuck_slots == 1)
        ready = await world.client.get("/health/ready")
        assert ready.status == 200
        assert ready.json()["stuck_slots"] == {"voice": 1}


async def test_readiness_ends_when_the_server_drains(
    world: World, autojump_clock: MockClock
) -> None:
    assert (await world.client.get("/health/ready")).json()["status"] == "ready"
    world.runtime.drain()
    reply = await world.client.get("/health/ready")
    assert reply.status == 503
    assert reply.json()["phase"] == "draining"
    assert (await world.client.get("/health")).status == 200
    assert (await world.client.get("/health/live")).status == 200
