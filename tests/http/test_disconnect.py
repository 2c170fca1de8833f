"""A client that leaves takes everything with it that it held, at each stage of its request."""

from typing import Any

import pytest
import trio
from tests.http.client import Call, form
from tests.http.conftest import OpenWorld, World, spec
from tests.http.sounds import sound_file
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.journal import Kind

SPEECH = "/v1/audio/speech"


def start(world: World, text: str = "hello", **fields: Any) -> Call:
    return world.client.start("POST", SPEECH, {"model": "voice", "input": text, **fields})


async def gone(call: Call) -> None:
    call.hang_up()
    await call.ended.wait()
    assert call.reply.status == 0


@pytest.mark.contract("time/disconnect_queued", "beyond/g01_waiter_leaves_on_disconnect")
async def test_of_three_that_wait_only_the_one_that_leaves_disappears(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 1000})) as world:
        running = start(world)
        waiting = []
        for count in range(3):
            await world.wait_until(lambda: world.model().active_slots == 1)
            waiting.append(start(world, f"text {count}"))
            await world.wait_until(lambda: world.model().queued_requests == len(waiting))
        at = trio.current_time()
        await gone(waiting[1])
        assert trio.current_time() - at < 0.1
        assert world.model().queued_requests == 2
        for call in (running, waiting[0], waiting[2]):
            await call.ended.wait()
            assert call.reply.status == 200
        assert waiting[0].reply.body != waiting[2].reply.body
        assert world.gates.count("run") == 3
        assert [event.facts["why"] for event in world.kinds(Kind.LEFT)] == ["cancelled"]
        assert world.idle()


async def test_one_that_waits_and_leaves_starts_no_load(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec()) as world:
        unload = world.gates.hold("close_model")
        await world.client.post(SPEECH, {"model": "voice", "input": "a"})
        manager = world.client.start("POST", "/v1/tasks/unload_models", {"model_ids": ["voice"]})
        await unload.wait_held()
        call = start(world)
        await world.wait_until(lambda: world.model().queued_requests == 1)
        await gone(call)
        unload.open()
        await manager.ended.wait()
        assert world.idle()
        assert world.model().generation == 1


@pytest.mark.contract(
    "time/disconnect_waiting_initialization", "beyond/g02_initializer_disconnect_keeps_load"
)
async def test_the_one_that_waits_for_a_load_gives_its_slot_up_and_the_driver_does_not(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(slots=2)) as world:
        load = world.gates.hold("load")
        driver = start(world)
        await load.wait_held()
        waiter = start(world)
        await world.wait_until(lambda: world.model().active_slots == 2)
        await gone(waiter)
        await world.wait_until(lambda: world.model().active_slots == 1)
        await gone(driver)
        await wait_all_tasks_blocked()
        assert world.model().active_slots == 1
        load.open()
        await world.wait_until(world.free)
        assert world.idle()
        assert world.model().loaded
        assert world.gates.count("run") == 0


@pytest.mark.contract("time/disconnect_executing_offline", "beyond/g03_running_inference_cancelled")
async def test_a_run_is_stopped_when_its_client_leaves(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 3_600_000})) as world:
        call = start(world)
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        follower = start(world, options={"run_ms": 0})
        await world.wait_until(lambda: world.model().queued_requests == 1)
        at = trio.current_time()
        await gone(call)
        await follower.ended.wait()
        assert trio.current_time() - at < 0.1
        assert follower.reply.status == 200
        assert [event.facts["outcome"] for event in world.kinds(Kind.RUN_ENDED)] == [
            "stopped",
            "ok",
        ]
        assert world.idle()


async def test_a_manager_that_waits_and_leaves_changes_nothing(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 1000})) as world:
        running = start(world)
        await world.wait_until(lambda: world.model().loaded)
        unload = world.client.start("POST", "/v1/tasks/unload_models", {"model_ids": ["voice"]})
        await world.wait_until(lambda: world.model().queued_managers == 1)
        await gone(unload)
        assert world.model().queued_managers == 0
        await running.ended.wait()
        assert world.model().loaded


async def test_a_half_sent_form_is_forgotten(world: World, autojump_clock: MockClock) -> None:
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", sound_file()))
    call = world.client.start(
        "POST", "/v1/audio/transcriptions", body, headers, chunk=len(body) // 3
    )
    call.stall_after(1)
    await wait_all_tasks_blocked()
    await gone(call)
    assert world.idle()
    assert world.model("ears").generation == 0


async def test_an_error_on_its_way_is_logged_when_the_client_has_left(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world() as world:
        failing = trio.Event()

        async def fail_late(exchange: object, **_: str) -> Any:
            try:
                failing.set()
                await trio.sleep_forever()
            finally:
                raise RuntimeError("the handler's own trouble")

        app = world.client.app
        for endpoint, route in app._table.items():
            if route.path == "/health":
                app._table[endpoint] = type(route)("GET", "/health", fail_late, route.gate)
        call = world.client.start("GET", "/health", headers={"x-request-id": "req-7"})
        await failing.wait()
        call.hang_up()
        await call.ended.wait()
    assert "the handler's own trouble" in caplog.text
    assert "req-7" in caplog.text
