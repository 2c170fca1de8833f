"""``AsyncOpenAI`` on asyncio, where most use it, and on trio."""

import asyncio
import io
from typing import Any

import openai
import pytest
import soundfile
import trio
from tests.cases.conftest import SENTENCE
from tests.clients.conftest import DEPRECATED, LONG, Seen

pytestmark = [pytest.mark.process, pytest.mark.models]


def opened(seen: Seen, **more: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        **{"base_url": seen.base_url, "api_key": "none", "max_retries": 0, "timeout": 60, **more}
    )


def either(call: Any) -> None:
    """Run a coroutine function on asyncio, then on trio."""
    asyncio.run(call())
    trio.run(call)


def test_speech_is_whole_streamed_and_in_events(seen: Seen) -> None:
    async def talk() -> None:
        async with opened(seen) as client:
            whole = await client.audio.speech.create(
                model="voice", voice="alloy", input=SENTENCE, response_format="wav"
            )
            samples, rate = soundfile.read(io.BytesIO(whole.content))
            assert len(samples) > rate
            async with client.audio.speech.with_streaming_response.create(
                model="voice",
                voice="alloy",
                input=f"{SENTENCE} Good night.",
                response_format="pcm",
                stream_format="audio",
            ) as streamed:
                pieces = [piece async for piece in streamed.iter_bytes()]
            assert len(b"".join(pieces)) > 2 * rate
            async with client.audio.speech.with_streaming_response.create(
                model="voice", voice="alloy", input="Good night.", stream_format="sse"
            ) as events:
                lines = [line async for line in events.iter_lines() if line]
            assert lines[-1] == "data: [DONE]"

    either(talk)


@DEPRECATED
def test_transcriptions_come_whole_in_each_format(seen: Seen, speech: bytes) -> None:
    async def listen() -> None:
        async with opened(seen) as client:
            file = ("a.wav", speech)
            whole = await client.audio.transcriptions.create(model="writer", file=file)
            assert "samples" in whole.text
            subtitles = await client.audio.transcriptions.create(
                model="writer", file=file, response_format="srt"
            )
            assert subtitles.startswith("1\n00:00:")
            assert "writer" in [model.id async for model in client.models.list()]
            assert (await client.models.retrieve("writer")).id == "writer"
            with pytest.raises(openai.BadRequestError):
                await client.audio.translations.create(model="writer", file=file)

    either(listen)


def test_transcriptions_come_as_events(seen: Seen, speech: bytes) -> None:
    async def listen() -> None:
        async with opened(seen) as client:
            stream = await client.audio.transcriptions.create(
                model="ears", file=("a.wav", speech), stream=True
            )
            *deltas, done = [event async for event in stream]
        assert {event.type for event in deltas} == {"transcript.text.delta"}
        assert done.type == "transcript.text.done"
        assert "weather" in done.text

    # On trio, what the package does not read behind the end mark is left to the garbage collector.
    asyncio.run(listen())


def test_eight_at_once_in_one_client_get_their_own_answers(seen: Seen) -> None:
    async def speak(client: openai.AsyncOpenAI, seed: int) -> bytes:
        answer = await client.audio.speech.create(
            model="voice",
            voice="alloy",
            input="Seven red apples.",
            response_format="wav",
            extra_body={"seed": seed},
        )
        return answer.content

    async def talk() -> None:
        async with opened(seen) as client:
            alone = [await speak(client, seed) for seed in range(8)]
            together = await asyncio.gather(*(speak(client, seed) for seed in range(8)))
        assert together == alone

    asyncio.run(talk())


def test_a_task_that_is_cancelled_frees_its_slot(seen: Seen) -> None:
    async def leave() -> None:
        async with opened(seen) as client:
            asked = client.audio.speech.create(model="voice", voice="alloy", input=LONG)
            task = asyncio.create_task(asked)
            await asyncio.to_thread(seen.until_busy, "voice")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(seen.until_idle, "voice")
            # The client is as good as before.
            assert (await client.models.retrieve("voice")).id == "voice"

    asyncio.run(leave())


def test_a_scope_that_is_cancelled_frees_its_slot_in_a_queue_too(seen: Seen) -> None:
    async def leave() -> None:
        async with opened(seen) as client, trio.open_nursery() as nursery:

            async def ask() -> None:
                await client.audio.speech.create(model="one", voice="alloy", input=LONG)

            nursery.start_soon(ask)
            await trio.to_thread.run_sync(seen.until_busy, "one")
            nursery.start_soon(ask)

            def waiting() -> None:
                seen.until(lambda model: model["queued_requests"] == 1, "one")

            await trio.to_thread.run_sync(waiting)
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(seen.until_idle, "one")

    trio.run(leave)


def test_a_timeout_frees_the_slot(seen: Seen) -> None:
    async def wait() -> None:
        async with opened(seen, timeout=0.3) as client:
            with pytest.raises(openai.APITimeoutError):
                await client.audio.speech.create(model="voice", voice="alloy", input=LONG)

    either(wait)
    seen.until_idle("voice")


def test_a_stream_that_is_left_midway_frees_its_slot(seen: Seen) -> None:
    async def leave() -> None:
        async with (
            opened(seen) as client,
            client.audio.speech.with_streaming_response.create(
                model="voice",
                voice="alloy",
                input=LONG,
                response_format="pcm",
                stream_format="audio",
            ) as answer,
        ):
            async for piece in answer.iter_bytes():
                assert piece
                break
            await asyncio.to_thread(seen.until_busy, "voice")

    # On trio, httpcore's own generators are left to the garbage collector, which warns.
    asyncio.run(leave())
    seen.until_idle("voice")
