"""Realtime sessions over real sockets: clients of all kinds, and clients that leave."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import openai
import pytest
import trio
import websockets
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.family import ScriptedFamily
from tests.http.realtime_sessions import MANUAL, VAD
from tests.http.realtimekit import RATE, Wire, connect, dial
from tests.http.test_sockets import Served, serve
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, RejectData

from paraudio.engines import Result
from paraudio.journal import Kind
from paraudio.spec import ModelSpec

TARGET = "/v1/realtime?model=ears"


def pieces(*parts: tuple[float, bool]) -> list[str]:
    """Loud and silent sound, in pieces of 100 ms."""
    frames = np.concatenate(
        [np.full(round(seconds * RATE), 8000 * loud, dtype="<i2") for seconds, loud in parts]
    ).tobytes()
    step = 2 * RATE // 10
    return [base64.b64encode(frames[at : at + step]).decode() for at in range(0, len(frames), step)]


SENTENCE = pieces((0.5, False), (2.2, True), (1, False))


@asynccontextmanager
async def serving(open_world: OpenWorld, *models: ModelSpec, **more: Any) -> AsyncIterator[Served]:
    async with serve(open_world, *(models or (EARS, VAD)), **more) as served:
        yield served
        await served.wait_idle()


async def dialled(served: Served, target: str = TARGET, **headers: str) -> Wire:
    """Open a websocket that is closed with the server."""
    wire = await dial(served.port, target, **headers)
    served.stack.push_async_callback(wire.stream.aclose)
    return wire


async def opened(served: Served) -> Wire:
    """Open a session."""
    wire = await dialled(served)
    assert isinstance(await wire.next(), AcceptConnection)
    await wire.saw("session.created")
    return wire


# The OpenAI client.


def talk(url: str) -> None:
    """Find speech, then commit by hand, then do something wrong, with the synchronous client."""
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="a-key", max_retries=0) as client,
        client.realtime.connect(model="ears") as connection,
    ):
        assert connection.recv().type == "session.created"
        for piece in SENTENCE:
            connection.input_audio_buffer.append(audio=piece)
        kinds = []
        for event in connection:
            kinds.append(event.type)
            if event.type == "conversation.item.input_audio_transcription.completed":
                assert event.usage.type == "duration"
                # How much of the silence behind it belongs to it depends on what came together.
                assert 2.5 <= event.usage.seconds <= 3.7
                break
        assert kinds[0] == "input_audio_buffer.speech_started"
        assert "input_audio_buffer.committed" in kinds
        connection.session.update(session=MANUAL)
        assert connection.recv().type == "session.updated"
        connection.input_audio_buffer.commit(event_id="too-soon")
        error = connection.recv()
        assert error.type == "error"
        assert error.error.event_id == "too-soon"
        connection.input_audio_buffer.append(audio=SENTENCE[0])
        connection.input_audio_buffer.commit()
        assert connection.recv().type == "input_audio_buffer.committed"
        added = connection.recv()
        assert added.type == "conversation.item.added"
        assert added.item.type == "message"
        connection.input_audio_buffer.clear()
        while (event := connection.recv()).type != "input_audio_buffer.cleared":
            assert event.type != "error"


async def _talk_async(url: str) -> None:
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="a-key", max_retries=0) as client,
        client.realtime.connect(model="ears") as connection,
    ):
        for piece in SENTENCE:
            await connection.input_audio_buffer.append(audio=piece)
        said = ""
        async for event in connection:
            if event.type == "conversation.item.input_audio_transcription.delta":
                said += event.delta or ""
            if event.type == "conversation.item.input_audio_transcription.completed":
                assert event.transcript == said
                break
        assert said


def talk_async(url: str) -> None:
    asyncio.run(_talk_async(url))


async def _be_refused(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="other", max_retries=0) as client:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await client.realtime.connect(model="ears").enter()
    assert refused.value.response.status_code == 401
    body = json.loads(cast("bytes", refused.value.response.body))
    assert body["error"]["code"] == "unauthorized"


def be_refused(url: str) -> None:
    asyncio.run(_be_refused(url))


# The client's own use of its websocket library.
@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")
@pytest.mark.parametrize("use", [talk, talk_async, be_refused])
async def test_the_openai_client_can(open_world: OpenWorld, use: Any) -> None:
    async with serving(open_world, settings={"api_keys": ("a-key",)}) as served:
        await trio.to_thread.run_sync(use, served.url)


# Coming in.


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [("/nowhere", 404, "not_found"), ("/health", 400, "invalid_request_error")],
)
async def test_a_refusal_is_json_and_the_server_goes_on(
    open_world: OpenWorld, target: str, status: int, code: str
) -> None:
    async with serving(open_world) as served:
        wire = await dialled(served, target, x_request_id="mine")
        refused = await wire.next()
        assert isinstance(refused, RejectConnection)
        assert refused.status_code == status
        headers = dict(refused.headers)
        assert headers[b"content-type"] == b"application/json"
        assert headers[b"x-request-id"] == b"mine"
        data = b""
        while not isinstance(part := await wire.next(), RejectData) or not part.body_finished:
            data += cast("RejectData", part).data
        assert json.loads(data + part.data)["error"]["code"] == code
        wire.leave("fin")
        await (await opened(served)).send(CloseConnection(code=1000))


async def test_an_append_of_many_megabytes_is_taken(open_world: OpenWorld) -> None:
    async with serving(open_world) as served:
        wire = await opened(served)
        await wire.say("session.update", session=MANUAL)
        await wire.sound(160)
        await wire.say("input_audio_buffer.commit")
        done = await wire.saw(".completed")
        assert done["usage"]["seconds"] == 160
        await wire.send(CloseConnection(code=1000))
        assert (await wire.closed()).code == 1000


async def test_a_message_that_is_too_large_closes_with_1009(open_world: OpenWorld) -> None:
    async with serving(open_world) as served:
        wire = await opened(served)
        await wire.sound(270)
        assert (await wire.closed()).code == 1009
        wire.leave("rst")


async def test_a_reader_that_takes_nothing_is_cut_off(open_world: OpenWorld) -> None:
    settings = {"live_ingest": {"send_timeout_ms": 300}}
    async with serving(open_world, settings=settings) as served:
        wire = await opened(served)
        wordy = {"input_audio_transcription": {"prompt": "x" * 50_000}}

        async def flood() -> None:
            while True:
                await wire.say("session.update", session=wordy)

        with pytest.raises(trio.BrokenResourceError):
            await flood()


# Leaving.


@pytest.mark.parametrize("how", ["close", "fin", "rst"])
@pytest.mark.parametrize("stage", ["idle", "speaking", "queued", "running"])
async def test_leaving_frees_the_slot(open_world: OpenWorld, stage: str, how: str) -> None:
    ears = spec(EARS, session_options={"run_ms": 60_000 if stage == "running" else 0})
    async with serve(open_world, ears, VAD) as served, trio.open_nursery() as nursery:
        go = trio.Event()
        if stage == "queued":
            await nursery.start(_hold, served, go)
        wire = await opened(served)
        if stage != "idle":
            await wire.sound(1)
            await wire.saw("speech_started")
        if stage == "queued":
            await served.world.wait_until(lambda: served.world.model("ears").queued_requests == 1)
        if stage == "running":
            await served.world.wait_until(lambda: _ears_run(served))
        if how == "close":
            await wire.send(CloseConnection(code=1000))
        else:
            wire.leave(how)
        await served.server.wait_idle()
        assert served.world.model("ears").queued_requests == 0
        go.set()
        await served.wait_idle()
        assert served.world.kinds(Kind.DISCONNECTED)


async def _hold(
    served: Served, go: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with served.world.runtime.use("ears", request="other"):
        task_status.started()
        await go.wait()


def _ears_run(served: Served) -> bool:
    return any(event.model == "ears" for event in served.world.kinds(Kind.RUN_STARTED))


# Models that need the whole.


async def test_a_commit_is_written_down_by_a_model_that_needs_the_whole(
    open_scripted: OpenWorld,
) -> None:
    family = ScriptedFamily(
        lambda job: Result(text=f"{job.language} {job.audio.seconds if job.audio else None}")
    )
    async with open_scripted(family, EARS) as world, trio.open_nursery() as nursery:
        socket = await connect(world.client.app, nursery)
        created = await socket.saw("session.created")
        assert created["session"]["audio"]["input"]["turn_detection"] is None
        socket.say("session.update", session={"input_audio_transcription": {"language": "en"}})
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        done = await socket.saw(".completed")
        assert done["transcript"] == "en 0.5"
        assert [one["delta"] for one in socket.of(".delta")] == ["en 0.5"]
        [job] = family.jobs
        assert job.audio is not None
        assert job.audio.rate == RATE
        socket.leave()


async def test_a_detector_that_cannot_listen_is_told_of(open_scripted: OpenWorld) -> None:
    family = ScriptedFamily(lambda _: Result(text="x"))
    async with open_scripted(family, EARS, VAD) as world, trio.open_nursery() as nursery:
        socket = await connect(world.client.app, nursery)
        socket.sound(1)
        error = (await socket.saw("error"))["error"]
        assert error["param"] == "session.audio.input.turn_detection.model"
        socket.leave()
