"""The examples of the README, run as they stand: a real server, real models, curl and the SDK."""

import json
import shutil
import wave
from dataclasses import replace
from pathlib import Path

import pytest
from tests.docs.examples import examples, only
from tests.docs.reader import Reader, understood

pytestmark = [pytest.mark.models, pytest.mark.process]


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
