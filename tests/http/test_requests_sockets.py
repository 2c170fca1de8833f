"""Cancelling by ID over real sockets, and the moment at which a client is seen to have left."""

import json

import httpx
import pytest
import trio
from tests.http.conftest import OpenWorld, spec
from tests.http.test_sockets import SPEECH, Served, post, serve

from paraudio.journal import Kind, check

CELL = pytest.mark.contract("beyond/g10_request_listing_and_cancel")
VERSIONS = pytest.mark.parametrize("version", [{}, {"http1": False, "http2": True}], ids=["1", "2"])
ENDLESS = spec(session_options={"run_ms": 600_000, "chunks": 10_000, "chunk_ms": 20})


async def phase_of(client: httpx.AsyncClient, name: str) -> str | None:
    data = (await client.get("/v1/requests")).json()["data"]
    return next((one["phase"] for one in data if one["id"] == name), None)


async def until(client: httpx.AsyncClient, name: str, phase: str) -> None:
    with trio.fail_after(5):
        while await phase_of(client, name) != phase:
            pass  # each look is a request of its own


async def cancel(client: httpx.AsyncClient, name: str) -> None:
    reply = await client.delete(f"/v1/requests/{name}")
    assert reply.json() == {"id": name, "cancelled": True, "ended": True}


@CELL
@VERSIONS
async def test_running_and_queued_requests_are_cancelled(
    open_world: OpenWorld, version: dict[str, bool]
) -> None:
    async with (
        serve(open_world, ENDLESS) as served,
        served.http(**version) as client,
        served.http() as operator,
    ):
        replies: dict[str, httpx.Response] = {}

        async def ask(name: str) -> None:
            body = {"model": "voice", "input": "hello"}
            replies[name] = await client.post(SPEECH, json=body, headers={"x-request-id": name})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "running")
            await until(operator, "running", "running")
            nursery.start_soon(ask, "waiting")
            await until(operator, "waiting", "queued")
            await cancel(operator, "waiting")
            await cancel(operator, "running")
        for name, reply in replies.items():
            assert reply.status_code == 499
            assert reply.headers["x-request-id"] == name
            assert reply.json()["error"]["code"] == "request_cancelled"
        await served.wait_idle()
        # The connection is as good as before.
        assert (await client.get("/v1/requests")).json()["data"] == []


@CELL
@VERSIONS
async def test_a_stream_of_events_ends_with_the_error(
    open_world: OpenWorld, version: dict[str, bool]
) -> None:
    async with (
        serve(open_world, ENDLESS) as served,
        served.http(**version) as client,
        served.http() as operator,
    ):
        body = {"model": "voice", "input": "hello", "stream_format": "sse"}
        request = client.stream("POST", SPEECH, json=body, headers={"x-request-id": "s"})
        lines: list[str] = []
        async with request as reply:
            async for line in reply.aiter_lines():
                if not lines:
                    await cancel(operator, "s")
                lines.append(line)
        last = json.loads([line for line in lines if line][-1].removeprefix("data: "))
        assert last["type"] == "error"
        assert last["error"]["code"] == "request_cancelled"
        await served.wait_idle()


@CELL
@VERSIONS
async def test_a_stream_of_sound_is_cut_off(
    open_world: OpenWorld, version: dict[str, bool]
) -> None:
    async with (
        serve(open_world, ENDLESS) as served,
        served.http(**version) as client,
        served.http() as operator,
    ):
        body = {"model": "voice", "input": "hello", "stream_format": "audio"}
        request = client.stream("POST", SPEECH, json=body, headers={"x-request-id": "s"})

        async def listen() -> None:
            async with request as reply:
                async for _ in reply.aiter_bytes():
                    if await phase_of(operator, "s") == "streaming":
                        await cancel(operator, "s")

        with pytest.raises(httpx.RemoteProtocolError):
            await listen()
        await served.wait_idle()


@CELL
@pytest.mark.parametrize("kind", ["sse", "audio"])
async def test_a_client_that_does_not_read_cannot_keep_its_slot(
    open_world: OpenWorld, kind: str
) -> None:
    flood = spec(session_options={"chunks": 1000})
    async with serve(open_world, flood) as served, served.http() as client:
        body = json.dumps({"model": "voice", "input": "x" * 10_000, "stream_format": kind}).encode()
        await served.raw(post(SPEECH, body, "X-Request-Id: deaf"))
        await until(client, "deaf", "streaming")
        await stall(served, client)
        began = trio.current_time()
        await cancel(client, "deaf")
        assert trio.current_time() - began < 1
        await served.wait_idle()


async def stall(served: Served, client: httpx.AsyncClient) -> None:
    """Wait until a connection waits for its client to take something."""
    with trio.fail_after(10):
        while not any(one._raw.sending_since for one in served.server._population):
            await client.get("/health")


@CELL
async def test_half_an_upload_is_cancelled_and_answered(open_world: OpenWorld) -> None:
    async with serve(open_world) as served, served.http() as client:
        whole = post(
            "/v1/audio/transcriptions",
            b"x" * 10_000,
            "X-Request-Id: half",
            content_type="multipart/form-data; boundary=x",
        )
        stream = await served.raw(whole[:-5000])
        await until(client, "half", "reading")
        await cancel(client, "half")
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 499 ")
        await served.wait_idle()


@pytest.mark.contract("beyond/g01_waiter_leaves_on_disconnect")
@VERSIONS
async def test_the_journal_has_the_moment_at_which_a_client_was_seen_to_have_left(
    open_world: OpenWorld, version: dict[str, bool]
) -> None:
    async with serve(open_world, ENDLESS) as served, trio.open_nursery() as nursery:
        world = served.world

        async def ask(scope: trio.CancelScope) -> None:
            with scope:
                async with served.http(**version) as client:
                    await client.post(SPEECH, json={"model": "voice", "input": "hello"})

        running, waiting = trio.CancelScope(), trio.CancelScope()
        nursery.start_soon(ask, running)
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        nursery.start_soon(ask, waiting)
        await world.wait_until(lambda: world.model().queued_requests == 1)
        waiting.cancel()
        await world.wait_until(lambda: world.model().queued_requests == 0)
        running.cancel()
        await served.wait_idle()
        told = [event.kind for event in world.events]
        assert told[told.index(Kind.DISCONNECTED) :] == [
            *(Kind.DISCONNECTED, Kind.LEFT, Kind.DISCONNECTED, Kind.RUN_ENDED, Kind.RELEASED)
        ]
        assert check(world.events) == []
