"""Open WebUI: the requests that it makes from the settings that our page names, shape by shape."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from tests.audio.containers import container
from tests.cases.conftest import SENTENCE
from tests.clients.conftest import Seen
from tests.docs.examples import ROOT, examples

from paraudio.audio import resample
from paraudio.engines import Audio

pytestmark = [pytest.mark.process, pytest.mark.models]

PAGE = ROOT / "docs" / "clients" / "open-webui.md"
AGENT = {"User-Agent": "Python/3.11 aiohttp/3.12.15", "Accept": "*/*"}
RENAMED = {"pocketsphinx-en": "ears", "piper-joe": "voice"}
"""What the models of the catalogue are called by the server here."""


@pytest.fixture(scope="module")
def settings(seen: Seen) -> Mapping[str, str]:
    """The settings of the page, as a shell reads them, for the server here."""
    (block,) = [each for each in examples(PAGE) if each.language == "sh"]
    found = dict(line.partition("=")[::2] for line in shlex.split(block.code))
    assert "localhost:8080" in found["AUDIO_STT_OPENAI_API_BASE_URL"]
    return {
        name: RENAMED.get(value, value).replace("http://localhost:8080", seen.served.url)
        for name, value in found.items()
    }


def speak(settings: Mapping[str, str], **message: object) -> httpx.Response:
    """What the browser asked for, with the model and the parameters of the settings put into it."""
    payload = {
        **message,
        "model": settings["AUDIO_TTS_MODEL"],
        **json.loads(settings["AUDIO_TTS_OPENAI_PARAMS"]),
    }
    return httpx.post(
        f"{settings['AUDIO_TTS_OPENAI_API_BASE_URL']}/audio/speech",
        json=payload,
        headers={
            **AGENT,
            "Authorization": f"Bearer {settings['AUDIO_TTS_OPENAI_API_KEY']}",
            "X-OpenWebUI-User-Name": "J%C3%BCrgen",
            "X-OpenWebUI-User-Role": "admin",
        },
        timeout=60,
    )


def transcribe(settings: Mapping[str, str], file: Path, *languages: str | None) -> httpx.Response:
    """Each language in turn, and then none, until one is taken."""
    answer = httpx.Response(0)
    for language in (*languages, None):
        fields = {"model": settings["AUDIO_STT_MODEL"]}
        if language:
            fields["language"] = language
        with file.open("rb") as content:
            answer = httpx.post(
                f"{settings['AUDIO_STT_OPENAI_API_BASE_URL']}/audio/transcriptions",
                headers={"Authorization": f"Bearer {settings['AUDIO_STT_OPENAI_API_KEY']}"},
                files={"file": (file.name, content)},
                data=fields,
                timeout=60,
            )
        if answer.status_code == 200:
            break
    return answer


@pytest.fixture(scope="module")
def spoken(settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it keeps of an answer: a file that it calls mp3, whatever is in it."""
    answer = speak(settings, input=SENTENCE, voice=settings["AUDIO_TTS_VOICE"], seed=1)
    assert answer.status_code == 200, answer.text
    file = tmp_path_factory.mktemp("speech") / "5f2b8c.mp3"
    file.write_bytes(answer.content)
    return file


def test_a_message_is_spoken_as_mp3(spoken: Path) -> None:
    with soundfile.SoundFile(spoken) as sound:
        assert (sound.format, sound.samplerate) == ("MP3", 22_050)
        assert sound.frames > sound.samplerate


def test_a_recording_is_written_down_as_json(settings: Mapping[str, str], spoken: Path) -> None:
    answer = transcribe(settings, spoken)
    assert answer.headers["content-type"] == "application/json"
    assert "weather" in answer.json()["text"]


@pytest.mark.parametrize("language", ["", "en", "en-US"])
def test_the_users_language_goes_along(
    settings: Mapping[str, str], spoken: Path, language: str
) -> None:
    assert "weather" in transcribe(settings, spoken, language).json()["text"]


def test_a_refused_language_is_answered_quickly_and_the_next_try_is_taken(
    settings: Mapping[str, str], spoken: Path, seen: Seen
) -> None:
    since = seen.mark()
    answer = transcribe(settings, spoken, "xx")
    assert (answer.status_code, "weather" in answer.json()["text"]) == (200, True)
    seen.mark()
    refused, taken = seen.requests(since)
    assert "status=400" in refused
    assert "status=200" in taken


@pytest.mark.parametrize("name", ["5f2b8c.wav", "blob", "Sprachnotiz größe.webm", "a.b.c"])
def test_the_browsers_name_of_a_recording_does_not_matter(
    settings: Mapping[str, str], spoken: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(spoken.read_bytes())
    assert "weather" in transcribe(settings, file).json()["text"]


def test_an_error_has_the_message_that_it_shows(settings: Mapping[str, str], spoken: Path) -> None:
    unset = {**settings, "AUDIO_STT_MODEL": "", "AUDIO_TTS_MODEL": ""}
    for answer in (transcribe(unset, spoken), speak(unset, input="a", voice="alloy")):
        assert answer.status_code == 400
        assert "model" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "key", "wanted"), [("models", "models", "voice"), ("voices", "voices", "amber")]
)
def test_its_lists_have_the_shape_that_it_reads(
    settings: Mapping[str, str], path: str, key: str, wanted: str
) -> None:
    """It asks without a key, takes ``id`` and ``name`` of each, and never says what it wants."""
    base = settings["AUDIO_TTS_OPENAI_API_BASE_URL"]
    listed: Any = httpx.get(f"{base}/audio/{path}", headers=AGENT).raise_for_status().json()[key]
    assert wanted in {one["id"] for one in listed}
    assert all(one["name"] for one in listed)


def test_its_list_of_models_is_openais(settings: Mapping[str, str]) -> None:
    base = settings["AUDIO_TTS_OPENAI_API_BASE_URL"]
    key = {"Authorization": f"Bearer {settings['AUDIO_STT_OPENAI_API_KEY']}"}
    found: Any = httpx.get(f"{base}/models", headers={**AGENT, **key}).json()
    assert found["object"] == "list"
    assert {settings["AUDIO_STT_MODEL"], settings["AUDIO_TTS_MODEL"]} <= {
        one["id"] for one in found["data"]
    }


@pytest.mark.parametrize("order", [("file", "model"), ("model", "file")])
def test_the_parts_of_its_form_come_in_either_order(
    settings: Mapping[str, str], spoken: Path, order: tuple[str, str]
) -> None:
    parts: dict[str, Any] = {
        "file": (spoken.name, spoken.read_bytes(), "audio/mpeg"),
        "model": (None, settings["AUDIO_STT_MODEL"]),
    }
    base = settings["AUDIO_STT_OPENAI_API_BASE_URL"]
    answer = httpx.post(
        f"{base}/audio/transcriptions", files=[(name, parts[name]) for name in order], timeout=60
    )
    assert "weather" in answer.json()["text"]


def test_webm_from_a_browser_is_written_down(
    settings: Mapping[str, str], spoken: Path, tmp_path: Path
) -> None:
    """As a browser's recorder writes it: no sizes, nothing written again."""
    samples, rate = soundfile.read(spoken, dtype="float32")
    sound = resample(Audio(samples, rate), 48_000).samples
    file = tmp_path / "5f2b8c.webm"
    file.write_bytes(container("webm", "libopus", sound, rate=48_000, piped=True))
    answer = transcribe(settings, file)
    assert answer.status_code == 200, answer.text
    assert "weather" in answer.json()["text"]
