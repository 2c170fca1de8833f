"""Realtime sessions with a real process: real models, and what a shutdown does to a session."""

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import jiwer
import numpy as np
import openai
import pytest
import soundfile
import soxr
import trio
from tests.http.realtimekit import RATE, Wire, dial
from tests.server.harness import Served, serving, simulated
from wsproto.events import AcceptConnection

from paraudio.store import Store

pytestmark = pytest.mark.process

SENTENCES: Final = (
    "We went to the market and bought some bread and butter.",
    "Please remember to close the window before you leave the house.",
)
LONG_MS: Final = 60_000


def models(run_ms: int = 0) -> list[dict[str, object]]:
    """A recogniser and a detector that are rehearsed."""
    return [simulated("ears", run_ms=run_ms) | {"task": "asr"}, simulated("vad") | {"task": "vad"}]


@asynccontextmanager
async def talking(served: Served) -> AsyncIterator[Wire]:
    """A session in which somebody speaks, and the recogniser listens."""
    async with listened_to(served) as wire:
        await wire.sound(1)
        await wire.saw("speech_started")
        await served.until(lambda seen: seen["active_slots"] == 1 and seen["loaded"], "ears")
        yield wire


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_shutdown_lets_a_session_finish_what_was_said(
    tmp_path: Path, isolation: str
) -> None:
    async with (
        serving(tmp_path, models(run_ms=200), isolation=isolation) as served,
        talking(served) as wire,
    ):
        served.signal()
        done = await wire.saw(".completed")
        closed = await wire.closed()
        ended = await served.ended()
    assert done["transcript"]
    assert (closed.code, closed.reason) == (1001, "the server is shutting down")
    assert (ended.code, ended.cuts) == (0, [])
    assert ended.seconds < served.drain_s


async def test_a_session_that_does_not_end_is_cut_when_the_drain_is_over(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, models(run_ms=LONG_MS), drain_ms=300) as served,
        talking(served) as wire,
    ):
        ended = await served.stopped()
        with pytest.raises((trio.BrokenResourceError, trio.EndOfChannel)):
            await wire.saw(".completed")
    assert ended.code == 3
    assert any("/v1/realtime" in line for line in ended.cuts), ended.cuts
    assert ended.seconds < served.bound_s


@asynccontextmanager
async def listened_to(served: Served) -> AsyncIterator[Wire]:
    """A session that is open."""
    async with AsyncExitStack() as stack:
        wire = await dial(served.port, "/v1/realtime?model=ears")
        stack.push_async_callback(wire.stream.aclose)
        assert isinstance(await wire.next(), AcceptConnection)
        await wire.saw("session.created")
        yield wire


async def test_a_session_outlives_the_bounds_of_uploads(tmp_path: Path) -> None:
    bounds = {"idle_timeout_ms": 200, "total_timeout_ms": 400}
    async with (
        serving(tmp_path, models(), live_ingest=bounds) as served,
        listened_to(served) as wire,
    ):
        for _ in range(3):
            await wire.sound(1)
            # The client falls silent in the midst of a sentence: that ends it, and nothing else.
            assert (await wire.saw(".completed"))["transcript"]
            await served.until(lambda seen: seen["active_slots"] == 0, "ears")
            await trio.sleep(0.6)  # longer than either bound


async def test_a_session_ends_at_its_longest_time_and_the_next_one_begins(tmp_path: Path) -> None:
    async with serving(tmp_path, models(), realtime_session_max_ms=5000) as served:
        async with listened_to(served) as wire:
            await wire.sound(1)
            error = (await wire.saw("error"))["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", "session_expired")
            assert (await wire.saw(".completed"))["transcript"]
            assert (await wire.closed()).code == 1001
            await served.until(lambda seen: seen["active_slots"] == 0, "ears")
        async with listened_to(served) as wire:
            await wire.sound(1)
            await wire.saw("speech_started")


@asynccontextmanager
async def real(folder: Path, store: Store) -> AsyncIterator[Served]:
    """A server with a voice, a detector and a recogniser, as many slots as there are speakers."""
    many = {"slots": 2}
    chosen: list[object] = [
        {"id": "voice", "family": "piper_tts", "path": "store:piper-joe", "task": "tts"},
        {"id": "vad", "family": "silero_vad", "path": "store:silero-vad", "task": "vad", **many},
        {"id": "ears", "family": "pocketsphinx_asr", "path": "", "task": "asr", **many},
    ]
    environ = {"PARAUDIO_HOME": str(store.home)}
    async with serving(folder, chosen, environ=environ, parallel_jobs=True) as served:
        yield served


async def spoken(served: Served, sentence: str) -> list[str]:
    """A sentence and a pause, in pieces of 100 ms."""
    body = {"model": "voice", "input": sentence, "response_format": "wav"}
    answer = await served.post("/v1/audio/speech", body)
    samples, rate = soundfile.read(io.BytesIO(answer.body), dtype="int16")
    parts = [soxr.resample(samples, rate, RATE), np.zeros(RATE, dtype=np.int16)]
    data = np.concatenate(parts).astype("<i2").tobytes()
    step = 2 * RATE // 10
    return [base64.b64encode(data[at : at + step]).decode() for at in range(0, len(data), step)]


def plain(text: str) -> str:
    """A sentence as a recogniser writes it."""
    return "".join(c for c in text.lower() if c.isalpha() or c == " ")


async def _listen(url: str, pieces: list[str], wanted: int) -> list[str]:
    """Stream pieces as a microphone does, and return the transcripts."""
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        client.realtime.connect(model="ears") as connection,
    ):

        async def send() -> None:
            for piece in pieces:
                await connection.input_audio_buffer.append(audio=piece)
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(send())
        said: list[str] = []
        async for event in connection:
            assert event.type not in {
                "error",
                "conversation.item.input_audio_transcription.failed",
            }, event
            if event.type == "conversation.item.input_audio_transcription.completed":
                said.append(event.transcript)
            if len(said) == wanted:
                break
        await sending
        return said


@pytest.mark.models
async def test_what_two_speakers_say_at_once_is_understood_as_they_say_it(
    tmp_path: Path, model_store: Store
) -> None:
    async with real(tmp_path, model_store) as served:
        parts = {sentence: await spoken(served, sentence) for sentence in SENTENCES}
        orders = [SENTENCES, SENTENCES[::-1]]
        said: dict[int, list[str]] = {}

        async def speak(number: int) -> None:
            pieces = [piece for sentence in orders[number] for piece in parts[sentence]]

            def listen() -> list[str]:
                return asyncio.run(_listen(served.url, pieces, len(SENTENCES)))

            said[number] = await trio.to_thread.run_sync(listen)

        async with trio.open_nursery() as nursery:
            for number in range(len(orders)):
                nursery.start_soon(speak, number)
        for number, order in enumerate(orders):
            assert jiwer.wer([plain(text) for text in order], said[number]) <= 0.2, said
