"""A server with the page, and a browser that looks at it, with a microphone that says something."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile
from selenium.webdriver import Chrome
from tests.cases.conftest import SENTENCE, SPEECH
from tests.page.browser import open_browser
from tests.page.watching import Watching
from tests.server.harness import Served, simulated, started

from paraudio.audio import resample
from paraudio.engines import Audio
from paraudio.store import Store

MODELS: list[dict[str, object]] = [
    {"id": "voice", "family": "piper_tts", "path": "store:piper-joe", "task": "tts"},
    {"id": "vad", "family": "silero_vad", "path": "store:silero-vad", "task": "vad"},
    {"id": "ears", "family": "pocketsphinx_asr", "path": "", "task": "asr"},
    simulated("slow", run_ms=60_000),
    simulated("slow-ears", task="asr", run_ms=60_000),
    simulated("steady", chunks=100, chunk_ms=600),
]
KEY = "open-sesame"


def listening(folder: Path, store: Store, **settings: Any) -> Iterator[Served]:
    environ = {"PARAUDIO_HOME": str(store.home)}
    with started(folder, MODELS, environ=environ, ui_enabled=True, **settings) as served:
        served.url = served.hear("listening on ").partition("listening on ")[2].split()[0]
        yield served


@pytest.fixture(scope="module")
def served(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the page and with management."""
    yield from listening(tmp_path_factory.mktemp("page"), model_store)


@pytest.fixture(scope="module")
def keyed(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that wants a key, and lets nobody manage."""
    yield from listening(
        tmp_path_factory.mktemp("keyed"), model_store, api_keys=[KEY], ui_management=False
    )


@pytest.fixture(scope="module")
def said(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence, as a wav of 48 kHz with silence behind it."""
    asked = {"model": "voice", "input": SENTENCE, "seed": 1, "response_format": "wav"}
    answer = httpx.post(f"{served.url}{SPEECH}", json=asked, timeout=60).raise_for_status()
    file = tmp_path_factory.mktemp("said") / "said.wav"
    file.write_bytes(answer.content)
    samples, rate = soundfile.read(file, dtype="float32")
    sound = resample(Audio(samples, rate), 48_000).samples
    with soundfile.SoundFile(file, "w", 48_000, 1, "PCM_16") as writer:
        writer.write(sound)
        writer.write(sound[:1].repeat(96_000) * 0)
    return file


@pytest.fixture(scope="module")
def chromium(said: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser whose microphone says the sentence again and again."""
    flags = (
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={said}",
    )
    with open_browser(tmp_path_factory.mktemp("browser"), flags) as browser:
        yield browser


@pytest.fixture
def page(chromium: Chrome, served: Served) -> Iterator[Watching]:
    """The page, opened anew; it must not have broken its own policy, nor anything else."""
    watching = Watching(chromium, served.url)
    watching.open()
    yield watching
    watching.no_complaints()
