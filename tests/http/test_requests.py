"""``/v1/requests``: each request is listed where it stands, and can be ended by its ID."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from tests.http.client import Call, form
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.sounds import sound_file
from tests.http.test_cancellations import REQUESTS, SERVING, VOICE
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.journal import Kind

SPEECH = "/v1/audio/speech"
CELL = pytest.mark.contract("beyond/g10_request_listing_and_cancel")


def start(world: World, name: str, **fields: Any) -> Call:
    body = {"model": "voice", "input": "hello", **fields}
    return world.client.start("POST", SPEECH, body, {"x-request-id": name})


async def listed(world: World) -> dict[str, Any]:
    reply = await world.client.get("/v1/requests")
    assert reply.status == 200
    body = reply.json()
    assert body["object"] == "list"
    return {one["id"]: one for one in body["data"]}


async def cancel(world: World, name: str) -> Any:
    reply = await world.client.call("DELETE", f"/v1/requests/{name}")
    assert reply.status == 200
    assert reply.json() == {"id": name, "cancelled": True, "ended": reply.json()["ended"]}
    return reply.json()


def assert_told(call: Call, name: str) -> None:
    assert call.reply.status == 499
    assert call.reply.headers["x-request-id"] == name
    error = call.reply.error()
    assert (error["type"], error["code"]) == ("request_cancelled", "request_cancelled")
    assert name in error["message"]


@CELL
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_requests_are_listed_with_their_phase_and_their_place(
    open_world: OpenWorld, autojump_clock: MockClock, slots: int
) -> None:
    async with open_world(spec(slots=slots, session_options={"run_ms": 1000})) as world:
        for index in range(slots):
            start(world, f"run-{index}")
            await wait_all_tasks_blocked()
        for index in range(3):
            start(world, f"wait-{index}")
            await wait_all_tasks_blocked()
        world.client.start(
            "POST", "/v1/tasks/unload_models", {"model_ids": ["voice"]}, {"x-request-id": "empty"}
        )
        await trio.sleep(0.25)
        seen = await listed(world)
        assert seen["run-0"] == {
            "id": "run-0",
            "route": "POST /v1/audio/speech",
            "model": "voice",
            "phase": "running",
            "position": None,
            "slot": 0,
            "age_ms": 250.0,
            "client": "127.0.0.1:50000",
            "places": [{"model": "voice", "manager": False, "position": None, "slots": [0]}],
        }
        assert list(seen) == [f"run-{n}" for n in range(slots)] + [
            *("wait-0", "wait-1", "wait-2", "empty")
        ]
        assert [seen[f"run-{n}"]["slot"] for n in range(slots)] == list(range(slots))
        waiting = [seen[name] for name in ("wait-0", "wait-1", "wait-2", "empty")]
        assert [(one["phase"], one["position"], one["slot"]) for one in waiting] == [
            ("queued", position, None) for position in range(4)
        ]
        assert seen["empty"]["model"] == "voice"
        assert seen["empty"]["places"][0]["manager"] is True
        assert world.model().queued_requests == 3
        await cancel(world, "wait-1")
        seen = await listed(world)
        assert [(name, seen[name]["position"]) for name in ("wait-0", "wait-2", "empty")] == [
            ("wait-0", 0),
            ("wait-2", 1),
            ("empty", 2),
        ]


async def test_a_bulk_operation_is_listed_with_each_of_its_places(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    busy = spec(session_options={"run_ms": 1000})
    async with open_world(busy, EARS) as world:
        start(world, "run")
        await world.wait_until(lambda: world.model().loaded)
        world.client.start(
            "POST", "/v1/tasks/unload_all_models", {}, {"x-request-id": "everything"}
        )
        await world.wait_until(lambda: world.model().queued_managers == 1)
        ears = world.gates.hold("close_model", model="ears")
        one = (await listed(world))["everything"]
        assert (one["model"], one["phase"], one["position"]) == (None, "queued", 0)
        assert [place["model"] for place in one["places"]] == ["voice", "ears"]
        ears.open()


async def reading(world: World) -> Call:
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", sound_file()))
    call = world.client.start(
        "POST", "/v1/audio/transcriptions", body, headers | {"x-request-id": "r"}, chunk=1000
    )
    call.stall_after(2)
    await wait_all_tasks_blocked()
    return call


async def queued(world: World) -> Call:
    start(world, "other", options={"run_ms": 1000})
    await world.wait_until(lambda: world.model().active_slots == 1)
    call = start(world, "r")
    await world.wait_until(lambda: world.model().queued_requests == 1)
    return call


async def loading(world: World) -> Call:
    gate = world.gates.hold("load")
    call = start(world, "r")
    await gate.wait_held()
    world.client._nursery.start_soon(open_later, world, gate.open)
    return call


async def open_later(world: World, opens: Callable[[], None]) -> None:
    await trio.sleep(10)
    opens()


async def running(world: World) -> Call:
    call = start(world, "r", options={"run_ms": 3_600_000})
    await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
    return call


async def streaming(world: World) -> Call:
    call = start(world, "r", stream_format="sse")
    await call.wait_bytes(1)
    return call


async def sounding(world: World) -> Call:
    call = start(world, "r", stream_format="audio")
    await call.wait_bytes(1)
    return call


async def stalled(world: World) -> Call:
    call = start(world, "r")
    call.taken = 0
    await wait_all_tasks_blocked()
    return call


async def registering(world: World) -> Call:
    start(world, "other", options={"run_ms": 1000})
    await world.wait_until(lambda: world.model().active_slots == 1)
    new = {"id": "voice", "family": "simulated", "path": "/new", "task": "tts"}
    call = world.client.start("POST", "/v1/models/load", new, {"x-request-id": "r"})
    await world.wait_until(lambda: world.model().queued_managers == 1)
    return call


PHASES = [
    (reading, "reading"),
    (queued, "queued"),
    (loading, "loading"),
    (running, "running"),
    (streaming, "streaming"),
    (sounding, "streaming"),
    (stalled, "answering"),
    (registering, "queued"),
]


@CELL
@pytest.mark.parametrize(("bring", "phase"), PHASES, ids=[bring.__name__ for bring, _ in PHASES])
async def test_a_request_is_cancelled_in_every_phase(
    open_world: OpenWorld, autojump_clock: MockClock, bring: Any, phase: str
) -> None:
    slow = spec(session_options={"chunks": 1000, "chunk_ms": 1000})
    async with open_world(slow, EARS, settings={"ui_management": True}) as world:
        call = await bring(world)
        assert (await listed(world))["r"]["phase"] == phase
        at = trio.current_time()
        # A client that takes nothing is no reason to wait: only the transport can be one.
        assert (await cancel(world, "r"))["ended"]
        assert trio.current_time() - at < 0.1
        call.take()
        await call.ended.wait()
        assert call.error is None
        assert "r" not in await listed(world)
        if bring is streaming:
            assert call.reply.complete
            assert call.reply.events()[-1]["error"]["code"] == "request_cancelled"
        elif bring in (sounding, stalled):
            assert call.reply.status == 200
            assert not call.reply.complete
        else:
            assert_told(call, "r")
        await world.wait_until(world.free)
        await wait_all_tasks_blocked()
        assert await listed(world) == {}
        assert world.model().spec.path == "/models/voice"
        again = await world.client.post(SPEECH, {"model": "voice", "input": "a"})
        assert again.status == 200
        assert world.idle()


@CELL
async def test_a_queued_request_that_is_cancelled_uses_no_slot_and_its_followers_move_up(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 1000})) as world:
        start(world, "run")
        await world.wait_until(lambda: world.model().active_slots == 1)
        calls = [start(world, name) for name in ("first", "second", "third")]
        await world.wait_until(lambda: world.model().queued_requests == 3)
        await cancel(world, "second")
        assert_told(calls[1], "second")
        assert [event.facts["why"] for event in world.kinds(Kind.LEFT)] == ["cancelled"]
        for call in (calls[0], calls[2]):
            await call.ended.wait()
            assert call.reply.status == 200
        assert world.gates.count("run") == 3
        assert world.idle()


@pytest.mark.parametrize("kind", sorted(REQUESTS))
@pytest.mark.parametrize("warm", [True, False])
async def test_cancelling_after_any_step_frees_everything(
    open_world: OpenWorld, autojump_clock: MockClock, kind: str, warm: bool
) -> None:
    path, body = REQUESTS[kind]
    told = completed = 0
    for step in range(1, 200):
        async with open_world(VOICE, EARS, settings={"ui_management": True}) as world:
            if warm:
                await world.client.post(SPEECH, {"model": "voice", "input": "a"})
            cancels = CancelAt(step, world)
            trio.lowlevel.add_instrument(cancels)
            cancels.call = call = world.client.start("POST", path, body, {"x-request-id": "r"})
            await call.ended.wait()
            trio.lowlevel.remove_instrument(cancels)
            assert call.error is None
            await world.wait_until(world.free)
            assert world.idle()
            again = await world.client.post(SPEECH, {"model": "voice", "input": "a"})
            assert again.status == 200
            # Whole and good, whole and cancelled, or broken off in the middle of its body.
            if call.reply.status == 499:
                assert_told(call, "r")
                told += 1
            else:
                assert call.reply.status == 200
        if not cancels.found:
            completed += 1
            break
    assert completed
    assert told > 0


class CancelAt(trio.abc.Instrument):
    """Cancels a request before the n-th step of the task that serves it, while it is known."""

    def __init__(self, step: int, world: World) -> None:
        self.left = step
        self.call: Call | None = None
        self.found = False
        self._world = world

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        exchange = self._world.client.app.core.in_flight.get("r")
        if task.name == SERVING and exchange is not None:
            self.left -= 1
            if self.left == 0:
                self.found = True
                exchange.cancel()


@CELL
async def test_unknown_requests_are_not_found(world: World, autojump_clock: MockClock) -> None:
    for name in ("nobody", "a/b", "%20"):
        reply = await world.client.call("DELETE", f"/v1/requests/{name}")
        assert reply.status == 404
        assert reply.error()["code"] == "not_found"
        assert reply.error()["param"] == "id"
    own = await world.client.call("DELETE", "/v1/requests/me", headers={"x-request-id": "me"})
    assert own.status == 404
    assert (await world.client.call("DELETE", "/v1/requests")).status == 405


async def test_an_id_may_look_like_a_path(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with open_world(spec(session_options={"run_ms": 1000})) as world:
        call = start(world, "trace/7:a=b")
        await world.wait_until(lambda: world.model().active_slots == 1)
        await cancel(world, "trace/7:a=b")
        assert_told(call, "trace/7:a=b")


@CELL
async def test_listing_and_cancelling_need_a_key_where_keys_are_set(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"api_keys": ("secret",)}) as world:
        for method, path in (("GET", "/v1/requests"), ("DELETE", "/v1/requests/x")):
            refused = await world.client.call(method, path)
            assert refused.status == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            allowed = await world.client.call(
                method, path, headers={"authorization": "Bearer secret"}
            )
            assert allowed.status != 401


async def test_a_backend_that_ignores_its_stop_does_not_hold_up_the_cancel(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    stubborn = spec(session_options={"run_ms": 10**7, "ignore_cancel": True})
    async with open_world(stubborn) as world:
        call = start(world, "r")
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        at = trio.current_time()
        assert not (await cancel(world, "r"))["ended"]
        assert trio.current_time() - at < 3
        assert (await listed(world))["r"]["phase"] == "cancelling"
        await call.ended.wait()
        assert_told(call, "r")
        assert world.model().stuck_slots == 1
