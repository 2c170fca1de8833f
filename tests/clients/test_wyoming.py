"""A bridge from Wyoming to OpenAI's interface: what it looks for and asks for, without a key."""

import asyncio
import base64
import io
import wave
from typing import Any

import httpx
import openai
import pytest
import soundfile
from tests.cases.conftest import SENTENCE
from tests.clients.conftest import LONG, Seen

from paraudio.audio import resample
from paraudio.engines import Audio

pytestmark = [pytest.mark.process, pytest.mark.models]


async def without_key(request: httpx.Request) -> None:
    request.headers.pop("Authorization", None)


def opened(seen: Seen) -> openai.AsyncOpenAI:
    keyless = openai.DefaultAsyncHttpxClient(event_hooks={"request": [without_key]})
    return openai.AsyncOpenAI(
        base_url=seen.base_url, api_key="none", http_client=keyless, max_retries=0, timeout=60
    )


@pytest.fixture(scope="module")
def said(speech: bytes) -> bytes:
    """What a satellite's microphone gives: 16 kHz, mono, 16 bit."""
    samples, rate = soundfile.read(io.BytesIO(speech), dtype="float32")
    heard = resample(Audio(samples, rate), 16_000).samples
    return (heard * 32_767).astype("<i2").tobytes()


def recording(said: bytes) -> io.BytesIO:
    """The pieces of a wav, put together in memory, with the name that the package sends."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(said)
    file.seek(0)
    file.name = "recording.wav"
    return file


@pytest.mark.parametrize("probe", ["/test", "/readyz", "/models/nobody", "/audio/speech/voices"])
def test_what_it_tries_to_find_out_who_we_are_is_a_plain_404(seen: Seen, probe: str) -> None:
    answer = httpx.get(f"{seen.base_url}{probe}")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


def test_health_is_none_of_the_answers_that_other_servers_give(seen: Seen) -> None:
    assert httpx.get(f"{seen.served.url}/health").text not in {"OK", "ok", ""}


@pytest.mark.parametrize("language", ["en", None])
@pytest.mark.parametrize("stream", [False, True])
def test_what_was_said_is_recognised(
    seen: Seen, said: bytes, language: str | None, stream: bool
) -> None:
    async def listen() -> str:
        more: Any = {} if language is None else {"language": language}
        async with opened(seen) as client:
            answer: Any = await client.audio.transcriptions.create(
                file=recording(said), model="ears", temperature=0, prompt="", stream=stream, **more
            )
            if not stream:
                return str(answer.text)
            *deltas, done = [event async for event in answer]
        assert done.text == "".join(event.delta for event in deltas)
        return str(done.text)

    assert "weather" in asyncio.run(listen())


@pytest.mark.parametrize("kind", ["wav", "pcm"])
def test_a_sentence_is_spoken_piece_by_piece(seen: Seen, kind: Any) -> None:
    async def speak() -> bytes:
        async with (
            opened(seen) as client,
            client.audio.speech.with_streaming_response.create(
                model="voice", voice="alloy", input=SENTENCE, response_format=kind, speed=1.0
            ) as answer,
        ):
            pieces = [piece async for piece in answer.iter_bytes(chunk_size=2048)]
        assert {len(piece) for piece in pieces[:-1]} == {2048}
        return b"".join(pieces)

    sound = asyncio.run(speak())
    assert sound.startswith(b"RIFF") == (kind == "wav")
    assert len(sound) > 2 * 22_050


def test_a_satellite_that_is_interrupted_frees_the_slot(seen: Seen) -> None:
    async def speak() -> None:
        async with (
            opened(seen) as client,
            client.audio.speech.with_streaming_response.create(
                model="voice",
                voice="alloy",
                input=LONG,
                response_format="pcm",
                extra_body={"stream_format": "audio"},
            ) as answer,
        ):
            async for piece in answer.iter_bytes(chunk_size=2048):
                assert piece
                return

    asyncio.run(speak())
    seen.until_idle("voice")


def test_a_session_of_one_utterance_that_the_satellite_ends(seen: Seen, said: bytes) -> None:
    """Its own wake word has heard when somebody speaks: the server is to detect nothing."""

    async def listen() -> str:
        session: Any = {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 16_000},
                    "noise_reduction": {"type": "far_field"},
                    "transcription": {"model": "ears", "language": "en", "prompt": ""},
                    "turn_detection": None,
                }
            },
        }
        async with (
            opened(seen) as client,
            client.realtime.connect(extra_query={"intent": "transcription"}) as connection,
        ):
            await connection.session.update(session=session)
            for at in range(0, len(said), 2048):
                piece = base64.b64encode(said[at : at + 2048]).decode()
                await connection.input_audio_buffer.append(audio=piece)
            await connection.input_audio_buffer.commit()
            async for event in connection:
                assert event.type != "error", event
                if event.type == "conversation.item.input_audio_transcription.completed":
                    return event.transcript
        raise AssertionError("it was closed before")

    assert "weather" in asyncio.run(listen())
