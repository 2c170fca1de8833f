"""The application over real sockets and threads: clients of all kinds, and clients that leave."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
import trio
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.sounds import heard, sound_file
from trio.testing import wait_all_tasks_blocked

from paraudio.journal import Kind
from paraudio.spec import ModelSpec
from paraudio.transport import Limits, Server, open_tcp

SPEECH = "/v1/audio/speech"


class Served:
    """A world behind a port of this machine."""

    def __init__(self, world: World, server: Server, port: int, stack: AsyncExitStack) -> None:
        self.world = world
        self.server = server
        self.stack = stack
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def http(self, **more: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=10, **more)

    async def wait_idle(self) -> None:
        """Wait until no request runs, and check that nothing is left of any."""
        await self.server.wait_idle()
        await self.world.wait_until(self.world.free)
        assert self.world.idle()

    async def raw(self, data: bytes) -> trio.SocketStream:
        """Connect and send bytes."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        self.stack.push_async_callback(stream.aclose)
        await stream.send_all(data)
        return stream


@asynccontextmanager
async def serve(
    open_world: OpenWorld, *models: ModelSpec, limits: Limits | None = None, **more: Any
) -> AsyncIterator[Served]:
    async with (
        open_world(*models, threads=True, **more) as world,
        trio.open_nursery() as nursery,
    ):
        server = Server(world.client.app, limits)
        [listener] = await open_tcp("127.0.0.1", 0)
        port = listener.socket.getsockname()[1]
        await nursery.start(server.serve, [listener])
        with trio.fail_after(20):
            async with AsyncExitStack() as stack:
                yield Served(world, server, port, stack)
        server.stop()


def post(path: str, body: bytes, *headers: str, content_type: str = "application/json") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def speech(text: str = "hello", more: str = "") -> bytes:
    return post(SPEECH, f'{{"model":"voice","input":"{text}"{more}}}'.encode())


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=10)


def speak_as_openai(url: str) -> None:
    with client_of(url) as client:
        answer = client.audio.speech.create(
            model="voice", voice="alloy", input="hello", response_format="wav"
        )
        samples, rate = heard(answer.content)
        assert (len(samples), rate) == (4410, 22_050)
        with client.audio.speech.with_streaming_response.create(
            model="voice", voice="alloy", input="hello", response_format="pcm"
        ) as streamed:
            assert len(b"".join(streamed.iter_bytes())) == 8820
        with pytest.raises(openai.BadRequestError) as refused:
            client.audio.speech.create(model="voice", voice="alloy", input="")
        assert refused.value.param == "input"
        with pytest.raises(openai.NotFoundError) as missing:
            client.audio.speech.create(model="nobody", voice="alloy", input="a")
        assert missing.value.code == "model_not_found"
        assert [model.id for model in client.models.list()] == ["voice"]
        assert client.models.retrieve("voice").owned_by == "paraudio"


def listen_as_openai(url: str) -> None:
    with client_of(url) as client:

        def ask(**more: Any) -> Any:
            sound = ("speech.wav", sound_file())
            return client.audio.transcriptions.create(model="ears", file=sound, **more)

        assert "heard 8000 samples" in ask().text
        assert "heard 8000 samples" in ask(language="", temperature=0, prompt="").text
        assert ask(response_format="text").startswith("path /models/ears")
        assert ask(response_format="srt").startswith("1\n00:00:00,000 --> 00:00:00,500\n")
        assert ask(response_format="vtt").startswith("WEBVTT\n\n")
        verbose = ask(response_format="verbose_json", timestamp_granularities=["word", "segment"])
        assert verbose.duration == 0.5
        assert verbose.segments[0].end == 0.5
        assert verbose.words == []
        kinds = [event.type for event in ask(stream=True)]
        assert kinds == ["transcript.text.delta"] * 4 + ["transcript.text.done"]


@pytest.mark.parametrize(("model", "talk"), [(VOICE, speak_as_openai), (EARS, listen_as_openai)])
async def test_the_openai_client_is_served(
    open_world: OpenWorld, model: ModelSpec, talk: Callable[[str], None]
) -> None:
    async with serve(open_world, model) as served:
        await trio.to_thread.run_sync(talk, served.url)
        await served.wait_idle()


async def test_a_request_that_answers_early_leaves_the_connection_usable(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, VOICE) as served, served.http() as client:
        for _ in range(3):
            assert (await client.post(SPEECH, content=b"{")).status_code == 400
            assert (await client.get("/health")).status_code == 200
            assert (await client.head("/health")).content == b""
            assert (await client.post("/nowhere", content=b"x" * 100_000)).status_code == 404


async def test_a_declared_body_over_the_bound_is_413_before_it_is_sent(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, VOICE, settings={"max_request_body_bytes": 1000}) as served:
        head = post(SPEECH, b"", "Expect: 100-continue").replace(
            b"Content-Length: 0", b"Content-Length: 5000"
        )
        stream = await served.raw(head)
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 413")


def reset(stream: trio.SocketStream) -> None:
    """Leave as a client does that is killed."""
    linger = b"\1\0\0\0\0\0\0\0"
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    stream.socket.close()


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.contract("time/disconnect_queued", "time/disconnect_executing_offline")
async def test_a_client_that_leaves_is_noticed_while_it_waits_and_while_it_runs(
    open_world: OpenWorld, leave: str
) -> None:
    async with serve(open_world, spec(session_options={"run_ms": 600_000})) as served:
        world = served.world

        async def go(stream: trio.SocketStream) -> None:
            if leave == "reset":
                reset(stream)
            else:
                await stream.aclose()

        running = await served.raw(speech())
        await world.wait_until(lambda: bool(world.kinds(Kind.RUN_STARTED)))
        waiting = await served.raw(speech())
        await world.wait_until(lambda: world.model().queued_requests == 1)
        began = trio.current_time()
        await go(waiting)
        await world.wait_until(lambda: world.model().queued_requests == 0)
        assert trio.current_time() - began < 0.5
        await go(running)
        await served.wait_idle()
        assert trio.current_time() - began < 1
        assert [event.facts["outcome"] for event in world.kinds(Kind.RUN_ENDED)] == ["stopped"]
        assert len(world.kinds(Kind.DISCONNECTED)) == 2


@pytest.mark.contract("time/disconnect_waiting_initialization")
async def test_a_client_that_leaves_during_a_load_is_noticed(open_world: OpenWorld) -> None:
    async with serve(open_world, spec(slots=2, load_options={"load_ms": 600})) as served:
        world = served.world
        driver = await served.raw(speech())
        await world.wait_until(lambda: world.model().state == "loading")
        waiter = await served.raw(speech())
        await world.wait_until(lambda: world.model().active_slots == 2)
        await waiter.aclose()
        await world.wait_until(lambda: world.model().active_slots == 1)
        await driver.aclose()
        await served.wait_idle()
        assert world.model().loaded
        assert not world.kinds(Kind.RUN_STARTED)


@pytest.mark.contract("time/disconnect_active_stream")
async def test_a_client_that_leaves_a_stream_frees_it_for_the_next(open_world: OpenWorld) -> None:
    slow = spec(session_options={"chunks": 1000, "chunk_ms": 20})
    async with serve(open_world, slow) as served:
        stream = await served.raw(speech(more=',"stream_format":"sse"'))
        received = b""
        while b"speech.audio.delta" not in received:
            received += await stream.receive_some()
        await stream.aclose()
        async with served.http() as client:
            reply = await client.post(SPEECH, json={"model": "voice", "input": "next"})
        assert reply.status_code == 200
        assert served.world.idle()


async def test_a_stream_that_fails_in_the_middle_of_sound_breaks_the_connection(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, VOICE) as served, served.http() as client:
        body = {
            "model": "voice",
            "input": "a",
            "stream_format": "audio",
            "options": {"fail": True},
        }
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(SPEECH, json=body)


async def test_a_client_that_leaves_in_the_middle_of_its_upload_is_forgotten(
    open_world: OpenWorld,
) -> None:
    async with serve(open_world, EARS) as served:
        body = sound_file() * 50
        head = post(
            "/v1/audio/transcriptions", body, content_type="multipart/form-data; boundary=x"
        )
        stream = await served.raw(head[: len(head) // 2])
        await wait_all_tasks_blocked(0.05)
        assert len(served.world.client.app.core.in_flight) == 1
        await stream.aclose()
        await served.wait_idle()


async def test_probes_answer_at_once_while_everything_is_busy(open_world: OpenWorld) -> None:
    loading = spec(id="cold", load_options={"load_ms": 1500})
    busy = spec(slots=4, session_options={"run_ms": 1500})
    async with serve(open_world, busy, loading, EARS) as served, served.http() as client:
        sound = sound_file() * 40
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(served.raw, speech())
            nursery.start_soon(served.raw, speech().replace(b'"voice"', b'"cold"'))
            files = {"file": ("a.wav", sound)}
            url = "/v1/audio/transcriptions"
            nursery.start_soon(lambda: client.post(url, data={"model": "ears"}, files=files))
            slowest = 0.0
            for _ in range(10):
                began = trio.current_time()
                assert (await client.get("/health")).status_code == 200
                slowest = max(slowest, trio.current_time() - began)
                await trio.sleep(0.05)
        assert slowest < 1.0  # the loads and runs take longer than that


async def test_http2_serves_the_same(open_world: OpenWorld) -> None:
    async with (
        serve(open_world, VOICE) as served,
        served.http(http1=False, http2=True) as client,
    ):
        reply = await client.post(SPEECH, json={"model": "voice", "input": "hello"})
        assert reply.http_version == "HTTP/2"
        assert reply.status_code == 200
        streamed = await client.post(
            SPEECH, json={"model": "voice", "input": "hello", "stream_format": "sse"}
        )
        assert streamed.text.endswith("data: [DONE]\n\n")
