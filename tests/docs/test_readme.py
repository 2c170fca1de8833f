"""The examples of the README, run as they stand: a real server, real models, curl and the SDK."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.docs.readme import examples, only

from paraudio.store import Store

pytestmark = [pytest.mark.models, pytest.mark.process]

ADDRESS = "http://localhost:8080"
STARTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
RUNS_WITHIN_S = 120.0


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the README in an empty folder, beside a running server."""

    folder: Path
    address: str
    environment: dict[str, str]

    def shell(self, code: str) -> str:
        """Run an example of the shell; what it printed."""
        return self._run(["bash", "-euo", "pipefail", "-c", code])

    def python(self, code: str) -> str:
        """Run an example in Python; what it printed."""
        return self._run([sys.executable, "-c", code])

    def _run(self, command: list[str]) -> str:
        *words, code = command
        done = subprocess.run(
            [*words, code.replace(ADDRESS, self.address)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUNS_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(model_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    own = {key: value for key, value in os.environ.items() if not key.startswith("PARAUDIO_")}
    environment = {
        **own,
        "PARAUDIO_HOME": str(model_store.home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "no_proxy": "localhost,127.0.0.1",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder.with_suffix(".log")
    with log.open("wb") as sink:
        server = subprocess.Popen(
            [str(Path(sys.executable).with_name("paraudio")), "serve", "--port", str(port)],
            cwd=folder,
            env=environment,
            stdout=sink,
            stderr=sink,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_ready(server, address, log)
        yield Reader(folder, address, environment)
        server.send_signal(signal.SIGTERM)
        assert server.wait(ENDS_WITHIN_S) == 0, log.read_text()
    finally:
        server.kill()
        server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{address}/health/ready", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"the server is not ready; it said:\n{log.read_text()}")


def understood(said: str, heard: str) -> bool:
    """Whether at least half of the words came through; how many do is measured elsewhere.

    A voice speaks a little differently each time. Of the sentences in the README, the recogniser
    understood at least 80% of the words in each of 40 tries.
    """
    words = said.split()
    there = set(heard.lower().split())
    return sum(word in there for word in words) >= len(words) / 2


def test_every_example_is_run_here_or_by_ci() -> None:
    ran = {("Use it", "sh"): 4, ("Use it", "python"): 1, ("Start", "sh"): 1, ("Develop", "sh"): 1}
    kinds = [(each.section, each.language) for each in examples()]
    assert {kind: kinds.count(kind) for kind in kinds} == ran


def test_the_command_of_ci_is_the_one_of_the_readme() -> None:
    assert only("Develop", "nox").endswith("python3 -m uv run --group dev nox")


def test_curl_gets_a_wav_that_transcribes_to_what_was_said(reader: Reader) -> None:
    reader.shell(only("Use it", "/v1/audio/speech"))
    with wave.open(str(reader.folder / "a.wav")) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (22050, 1, 2)
        assert 1.5 < sound.getnframes() / 22050 < 6
    heard = json.loads(reader.shell(only("Use it", "-F model=pocketsphinx-en")))["text"]
    assert understood("we went to the market and bought some bread and butter", heard)
    found = json.loads(reader.shell(only("Use it", 'silero-vad", "audio_base64')))
    assert len(found["segments"]) >= 1
    assert all(segment["start"] < segment["end"] for segment in found["segments"])


def test_the_openai_package_speaks_and_transcribes(reader: Reader) -> None:
    heard = reader.python(only("Use it", "from openai"))
    assert understood("good morning to everyone in the house", heard)
    with wave.open(str(reader.folder / "morning.wav")) as sound:
        assert sound.getframerate() == 22050


def test_the_command_line_does_the_same_without_a_server(reader: Reader, tmp_path: Path) -> None:
    alone = Reader(tmp_path, "http://localhost:9", reader.environment)
    told = alone.shell(only("Use it", "paraudio run --model piper-joe"))
    with wave.open(str(tmp_path / "evening.wav")) as sound:
        assert sound.getframerate() == 22050
    assert understood("please remember to close the window before you leave the house", told)
    assert "speech" in told


def test_curl_is_here() -> None:
    assert shutil.which("curl"), "the README's examples need curl"
