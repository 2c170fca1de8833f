"""The examples of the README, run as they stand: a real server, real models, curl and the SDK."""

import json
import os
import shutil
import subprocess
import sysconfig
import wave
from dataclasses import replace
from pathlib import Path

import pytest
from tests.docs.examples import README, ROOT, examples, only
from tests.docs.reader import Reader, understood

from paraudio.store import CATALOGUE

pytestmark = [pytest.mark.models, pytest.mark.process]


def test_every_example_is_run_here_or_by_ci() -> None:
    ran = {("Use it", "sh"): 4, ("Use it", "python"): 1, ("Start", "sh"): 2, ("Develop", "sh"): 1}
    kinds = [(each.section, each.language) for each in examples()]
    assert {kind: kinds.count(kind) for kind in kinds} == ran


def test_the_command_of_ci_is_the_one_of_the_readme() -> None:
    assert only("Develop", "nox").endswith("python3 -m uv run --group dev nox")


def test_the_readme_says_how_much_is_fetched() -> None:
    fetched = sum(entry.wheel_bytes for entry in CATALOGUE.values())
    assert f"({round(fetched / 1e7) * 10} MB in all)" in README.read_text(encoding="utf-8")


def test_pip_alone_installs_a_program_that_serves(tmp_path: Path) -> None:
    """What is installed already is not installed anew: the test is of our own package."""
    clone = tmp_path / "clone"
    for name in ("src", "docs"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    *setting_up, serve = only("Start", ".venv/bin/pip install .").split(" && ")
    here = sysconfig.get_path("purelib")
    environ = {**os.environ, "PYTHONPATH": here, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for command in setting_up:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=clone,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    place = (
        ".venv/bin/python",
        "-c",
        "import paraudio, paraudio.conformance as c; print(paraudio.__file__, c.__file__)",
    )
    found = subprocess.run(
        place, cwd=clone, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert here not in found.stdout, "the clone's own package is meant"
    environ |= {"PARAUDIO_PORT": "0", "PARAUDIO_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        serve.split(), cwd=clone, env=environ, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            heard = next((line for line in server.stderr if "listening on http://" in line), None)
            server.terminate()
            said = server.stderr.read()
            assert server.wait(60) == 0, said
        finally:
            server.kill()
    assert heard is not None


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
    (heard,) = reader.python(only("Use it", "from openai"))
    assert understood("good morning to everyone in the house", heard)
    with wave.open(str(reader.folder / "morning.wav")) as sound:
        assert sound.getframerate() == 22050


def test_the_command_line_does_the_same_without_a_server(reader: Reader, tmp_path: Path) -> None:
    alone = replace(reader, folder=tmp_path, url="http://localhost:9")
    told = alone.shell(only("Use it", "paraudio run --model piper-joe"))
    with wave.open(str(tmp_path / "evening.wav")) as sound:
        assert sound.getframerate() == 22050
    assert understood("please remember to close the window before you leave the house", told)
    assert "speech" in told


def test_curl_is_here() -> None:
    assert shutil.which("curl"), "the README's examples need curl"
