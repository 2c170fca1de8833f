"""``/v1/events``: a picture first, then every change, for as long as the client keeps up."""

import json
from typing import Any

import pytest
import trio
from tests.http.client import Call
from tests.http.conftest import OpenWorld, World, spec
from tests.http.test_sockets import serve
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.config import Settings
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.http import create_app

SPEECH = "/v1/audio/speech"
CELL = pytest.mark.contract("beyond/g06_atomic_status")


def told(call: Call) -> list[Any]:
    """The events that have come whole; comments are none."""
    parts = call.reply.body.decode().split("\n\n")[:-1]
    words = [part.removeprefix("data: ") for part in parts if part != ": keep-alive"]
    return [word if word == "[DONE]" else json.loads(word) for word in words]


async def watch(world: World, query: str = "") -> Call:
    call = world.client.start("GET", f"/v1/events{query}")
    await wait_all_tasks_blocked()
    assert call.reply.status == 200
    assert call.reply.headers["content-type"].startswith("text/event-stream")
    assert call.reply.headers["cache-control"] == "no-cache"
    return call


async def speak(world: World) -> None:
    reply = await world.client.post(SPEECH, {"model": "voice", "input": "a"})
    assert reply.status == 200
    await wait_all_tasks_blocked()


def shown(picture: Any) -> Any:
    return {model["id"]: (model["state"], model["loaded"]) for model in picture["models"]}


@CELL
async def test_a_picture_comes_first_and_then_each_change(
    world: World, autojump_clock: MockClock
) -> None:
    call = await watch(world)
    (first,) = told(call)
    assert first["type"] == "snapshot"
    assert first["phase"] == "running"
    assert shown(first) == {"voice": ("unloaded", False), "ears": ("unloaded", False)}
    listed = (await world.client.get("/v1/models")).json()
    assert (first["revision"], first["models"]) == (listed["revision"], listed["data"])
    await speak(world)
    changes = told(call)[1:]
    assert [one["revision"] for one in changes] == list(
        range(first["revision"] + 1, world.journal.revision + 1)
    )
    assert {one["type"] for one in changes} == {"change"}
    recorded = world.journal.since(first["revision"])
    assert [(one["kind"], one["model"], one["facts"]) for one in changes] == [
        (event.kind, event.model, event.facts) for event in recorded
    ]
    assert "published" in {one["kind"] for one in changes}


@CELL
async def test_each_model_state_is_that_of_the_changes_so_far(
    world: World, autojump_clock: MockClock
) -> None:
    call = await watch(world)
    await speak(world)
    await world.client.post("/v1/tasks/unload_all_models")
    await wait_all_tasks_blocked()
    first, *changes = told(call)
    states = {model["id"]: model["state"] for model in first["models"]}
    for one in changes:
        if one["kind"] == "state":
            assert states[one["model"]] == one["facts"]["from"]
            states[one["model"]] = one["facts"]["to"]
    listed = (await world.client.get("/v1/models")).json()
    assert changes[-1]["revision"] == listed["revision"]
    assert {model["id"]: model["state"] for model in listed["data"]} == states


async def test_a_client_that_knows_a_revision_gets_what_came_after_it(
    world: World, autojump_clock: MockClock
) -> None:
    revision = world.journal.revision
    await speak(world)
    call = await watch(world, f"?since={revision}")
    first, *changes = told(call)
    assert first == {"type": "resumed", "revision": revision}
    assert [one["revision"] for one in changes] == list(
        range(revision + 1, world.journal.revision + 1)
    )


@pytest.mark.parametrize("since", ["x", "-1", "1.5"])
async def test_since_must_be_a_revision(
    world: World, autojump_clock: MockClock, since: str
) -> None:
    reply = await world.client.get(f"/v1/events?since={since}")
    assert reply.status == 400
    assert reply.error()["param"] == "since"


async def test_a_revision_that_is_forgotten_or_unknown_is_a_gap(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(ring=5) as world:
        await speak(world)
        assert world.journal.revision > 7
        for since in (1, 10**6):
            (first,) = told(await watch(world, f"?since={since}"))
            assert first["type"] == "gap"
            assert first["revision"] == world.journal.revision
            assert shown(first)["voice"] == ("ready", True)


@CELL
async def test_a_slow_client_gets_a_gap_and_a_new_picture_and_nothing_is_kept_for_it(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(ring=50) as world:
        call = world.client.start("GET", "/v1/events")
        call.taken = 1
        await wait_all_tasks_blocked()
        assert len(told(call)) == 1
        for _ in range(30):
            await speak(world)
        assert len(told(call)) <= 2
        call.take()
        await wait_all_tasks_blocked()
        kinds = [one["type"] for one in told(call)]
        assert kinds.count("gap") == 1
        gap = told(call)[kinds.index("gap")]
        assert gap["revision"] == world.journal.revision
        assert shown(gap)["voice"] == ("ready", True)
        await speak(world)
        after = told(call)[kinds.index("gap") + 1 :]
        assert [one["revision"] for one in after] == list(
            range(gap["revision"] + 1, world.journal.revision + 1)
        )


@CELL
async def test_it_ends_when_the_server_drains(world: World, autojump_clock: MockClock) -> None:
    call = await watch(world)
    world.runtime.drain()
    await call.ended.wait()
    assert call.error is None
    assert call.reply.complete
    *_, last, end = told(call)
    assert end == "[DONE]"
    assert (last["kind"], last["facts"]) == ("phase", {"phase": "draining"})
    late = await world.client.get("/v1/events")
    assert late.complete
    assert late.body.endswith(b"data: [DONE]\n\n")


async def test_a_client_that_leaves_frees_it(world: World, autojump_clock: MockClock) -> None:
    calls = [await watch(world) for _ in range(3)]
    assert len(world.client.app.core.in_flight) == 3
    for call in calls:
        call.hang_up()
        await call.ended.wait()
    assert world.idle()


@pytest.mark.parametrize(("every_ms", "count"), [(15_000, 3), (30_000, 1), (0, 0)])
async def test_silence_is_broken_by_comments(
    open_world: OpenWorld, autojump_clock: MockClock, every_ms: int, count: int
) -> None:
    async with open_world(settings={"sse_heartbeat_ms": every_ms}) as world:
        call = await watch(world)
        before = len(call.reply.body)
        await trio.sleep(52.5)
        assert call.reply.body[before:] == b": keep-alive\n\n" * count


async def test_a_request_for_the_head_alone_is_answered(
    world: World, autojump_clock: MockClock
) -> None:
    reply = await world.client.call("HEAD", "/v1/events")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")


async def test_without_a_journal_there_are_no_events(
    world: World, autojump_clock: MockClock
) -> None:
    known = {"simulated": SimulatedFamily()}
    world.client.app = create_app(world.runtime, Settings(), families=known)
    assert (await world.client.get("/v1/events")).status == 404
    assert (await world.client.get("/metrics")).status == 200


@CELL
@pytest.mark.parametrize("version", [{}, {"http1": False, "http2": True}], ids=["1", "2"])
async def test_changes_come_over_sockets_as_they_happen(
    open_world: OpenWorld, version: dict[str, bool]
) -> None:
    async with (
        serve(open_world, spec()) as served,
        served.http(**version) as watcher,
        served.http() as client,
    ):
        kinds, word = [], ""
        async with watcher.stream("GET", "/v1/events") as reply:
            async for line in reply.aiter_lines():
                word = line.removeprefix("data: ") or word
                if not line or word == "[DONE]":
                    continue
                event = json.loads(word)
                kinds.append(event.get("kind", event["type"]))
                if kinds[-1] == "snapshot":
                    await client.post(SPEECH, json={"model": "voice", "input": "a"})
                if kinds[-1] == "released":
                    served.world.runtime.drain()
        assert word == "[DONE]"
        assert kinds[0] == "snapshot"
        assert kinds[-4:] == ["run_started", "run_ended", "released", "phase"]
        await served.wait_idle()
