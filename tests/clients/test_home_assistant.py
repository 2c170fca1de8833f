"""Home Assistant: the requests of two integrations, from the settings that our page names."""

import base64
import io
import json
import wave
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.request import Request, urlopen

import httpx
import pytest
import soundfile
from tests.cases.conftest import SENTENCE
from tests.clients.conftest import Seen
from tests.clients.test_open_webui import RENAMED
from tests.docs.examples import ROOT, examples
from websockets.sync.client import connect

from paraudio.audio import resample
from paraudio.engines import Audio

pytestmark = [pytest.mark.process, pytest.mark.models]

PAGE = ROOT / "docs" / "clients" / "home-assistant.md"


def settings_of(section: str, seen: Seen) -> Mapping[str, str]:
    """The scalar settings of the page's one block of YAML in a section, for the server here."""
    (block,) = [each for each in examples(PAGE) if each.section == section]
    assert block.language == "yaml"
    found = {}
    for line in block.code.splitlines():
        name, _, value = line.strip(" -").partition(": ")
        value = value.replace("http://localhost:8080", seen.served.url)
        found[name] = RENAMED.get(value, value)
    return found


@pytest.fixture(scope="module")
def hearing(seen: Seen) -> Mapping[str, str]:
    return settings_of("Speech to text", seen)


@pytest.fixture(scope="module")
def speaking(seen: Seen) -> Mapping[str, str]:
    return settings_of("Text to speech", seen)


@pytest.fixture(scope="module")
def said(speech: bytes) -> bytes:
    """What Assist's microphone gives: a wav of 16 kHz, mono, 16 bit, made by the wave module."""
    samples, rate = soundfile.read(io.BytesIO(speech), dtype="float32")
    heard = resample(Audio(samples, rate), 16_000).samples
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes((heard * 32_767).astype("<i2").tobytes())
    return file.getvalue()


def recognise(
    settings: Mapping[str, str], said: bytes, *, language: str = "en", prompt: str = ""
) -> httpx.Response:
    assert settings["platform"] == "openai_stt"
    return httpx.post(
        f"{settings['api_url']}/audio/transcriptions",
        headers={"Authorization": f"Bearer {settings['api_key']}"},
        files={
            "file": ("whisper_audio.wav", said, "audio/wav"),
            "model": (None, settings["model"]),
            "language": (None, language),
            "prompt": (None, prompt),
            "temperature": (None, "0"),
            "response_format": (None, "json"),
        },
        timeout=60,
    )


@pytest.mark.parametrize(
    ("language", "prompt"), [("en", ""), ("en-US", ""), ("en-GB", "Commands for a house.")]
)
def test_what_was_said_is_recognised(
    hearing: Mapping[str, str], said: bytes, language: str, prompt: str
) -> None:
    answer = recognise(hearing, said, language=language, prompt=prompt)
    assert answer.status_code == 200, answer.text
    assert "weather" in answer.json()["text"]


def test_silence_is_an_empty_text(hearing: Mapping[str, str], said: bytes) -> None:
    quiet = said[:44] + bytes(len(said) - 44)
    assert recognise(hearing, quiet).json()["text"] == ""


def test_a_pipeline_in_another_language_is_told_which_ones_there_are(
    hearing: Mapping[str, str], said: bytes
) -> None:
    answer = recognise(hearing, said, language="de")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "language"
    assert "en" in error["message"]


def test_a_microphone_that_gave_nothing_is_an_error_at_once(
    hearing: Mapping[str, str], said: bytes
) -> None:
    answer = recognise(hearing, said[:44])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file")


def stream(settings: Mapping[str, str], sound: bytes) -> list[dict[str, Any]]:
    """What ``realtime: true`` sends, up to the first transcript; what came meanwhile."""
    address = settings["api_url"].replace("http", "ws", 1)
    headers = {"Authorization": f"Bearer {settings['api_key']}", "OpenAI-Beta": "realtime=v1"}
    session = {
        "input_audio_format": "pcm16",
        "input_audio_transcription": {"model": settings["model"], "prompt": "", "language": "en"},
        "turn_detection": {"type": "server_vad"},
        "input_audio_noise_reduction": {"type": "near_field"},
    }
    came: list[dict[str, Any]] = []
    with connect(
        f"{address}/realtime?intent=transcription", additional_headers=headers, proxy=None
    ) as socket:
        socket.send(json.dumps({"type": "transcription_session.update", "session": session}))
        for at in range(0, len(sound), 4096):
            audio = base64.b64encode(sound[at : at + 4096]).decode()
            socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        while not came or not came[-1]["type"].endswith(".completed"):
            came.append(json.loads(socket.recv(60)))
    return came


@pytest.mark.parametrize("pause_s", [0, 1])
def test_a_stream_of_what_is_said_is_recognised(
    hearing: Mapping[str, str], speech: bytes, pause_s: int
) -> None:
    samples, rate = soundfile.read(io.BytesIO(speech), dtype="float32")
    heard = resample(Audio(samples, rate), 24_000).samples
    sound = (heard * 32_767).astype("<i2").tobytes() + bytes(pause_s * 48_000)
    came = stream(hearing, sound)
    assert came[0]["type"] == "transcription_session.created"
    assert "transcription_session.updated" in {one["type"] for one in came}
    assert "weather" in came[-1]["transcript"]
    assert not [one for one in came if one["type"] == "error"]


def test_a_stream_of_silence_is_an_empty_text_at_once(hearing: Mapping[str, str]) -> None:
    """It waits for a transcript behind its commit, whether anybody spoke or not."""
    came = stream(hearing, bytes(2 * 48_000))
    assert came[-1]["transcript"] == ""
    assert not [one for one in came if one["type"] == "error"]


def pieces_of(settings: Mapping[str, str], size: int, **more: Any) -> Iterator[bytes]:
    """What the integration asks for, with urllib as it does, and reads piece by piece."""
    payload = {
        "model": settings["model"],
        "input": SENTENCE,
        "voice": settings["voice"],
        "response_format": "mp3",
        "speed": float(settings["speed"]),
        **more,
    }
    request = Request(  # noqa: S310 - the address of our own server
        settings["url"],
        data=json.dumps(payload).encode(),
        headers={
            "Content-Type": "application/json",
            "User-Agent": "HomeAssistant-OpenAI-TTS",
            "Authorization": f"Bearer {settings['api_key']}",
        },
        method="POST",
    )
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
        while piece := answer.read(size):
            yield piece


@pytest.mark.parametrize(
    ("kind", "container"), [("mp3", "MP3"), ("opus", "OGG"), ("wav", "WAV"), ("flac", "FLAC")]
)
def test_a_sentence_is_spoken_in_the_format_that_it_plays(
    speaking: Mapping[str, str], kind: str, container: str
) -> None:
    data = b"".join(pieces_of(speaking, 4096, response_format=kind, instructions="Calmly."))
    with soundfile.SoundFile(io.BytesIO(data)) as sound:
        assert sound.format == container
        assert sound.frames > sound.samplerate


def test_its_extra_payload_reaches_the_model(speaking: Mapping[str, str]) -> None:
    once, again, other = (
        b"".join(pieces_of(speaking, 8192, response_format="wav", seed=seed)) for seed in (7, 7, 8)
    )
    assert once == again != other


def test_leaving_while_it_speaks_frees_the_slot(speaking: Mapping[str, str], seen: Seen) -> None:
    pieces = pieces_of(
        speaking, 4096, input="On and on. " * 2000, response_format="wav", stream_format="audio"
    )
    assert next(pieces)
    seen.until_busy("voice")
    pieces.close()  # type: ignore[attr-defined]
    seen.until_idle("voice")
