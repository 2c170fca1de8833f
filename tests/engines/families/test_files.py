"""What can be told of a model's file without opening it as a model."""

import contextlib
import wave
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.families.test_silero_vad import tiny_detector
from tests.engines.families.tiny_voices import load_of, tiny_config, tiny_model, write_voice

from paraudio.engines.families._files import inputs_of
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.families.silero_vad import SileroVadFamily
from paraudio.errors import InvalidRequestError

TINY = tiny_model()


def sound(path: Path) -> bytes:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(2000))
    return path.read_bytes()


def test_the_inputs_are_found_without_the_weights(tmp_path: Path) -> None:
    file = tmp_path / "voice.onnx"
    file.write_bytes(TINY)
    assert inputs_of(file) == {"input", "input_lengths", "scales"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "no graphs", id="an empty file"),
        pytest.param(TINY[: len(TINY) // 2], "beyond the end", id="the beginning of a model"),
        pytest.param(TINY + TINY, "2 graphs", id="two models"),
        pytest.param(b"<html>not found</html>", "path is no ONNX model", id="a page"),
        pytest.param(tiny_detector(), "no Piper voice", id="another kind of model"),
    ],
)
def test_a_look_refuses_what_a_load_would(tmp_path: Path, content: bytes, says: str) -> None:
    """So that a registration is refused before it has changed anything."""
    load = load_of(write_voice(tmp_path, content, tiny_config()))
    with pytest.raises(InvalidRequestError, match=says) as refused:
        PiperTtsFamily().inspect(load)
    assert refused.value.param == "path"


def test_a_look_tells_a_voice_from_a_detector_and_sound_from_both(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    for content in (TINY, sound(tmp_path / "a.wav")):
        file.write_bytes(content)
        with pytest.raises(InvalidRequestError, match="path is no"):
            SileroVadFamily().inspect(load_of(file, task="vad"))
    for stepwise in (True, False):
        file.write_bytes(tiny_detector(stepwise=stepwise))
        assert SileroVadFamily().inspect(load_of(file, task="vad"))["file"] == "model.onnx"


@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_damaged_model_ends_in_no_other_error(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[float, int]]
) -> None:
    data = bytearray(TINY)
    for place, value in places:
        data[min(int(place * len(data)), len(data) - 1)] = value
    file = tmp_path_factory.getbasetemp() / "damaged.onnx"
    file.write_bytes(data)
    with contextlib.suppress(InvalidRequestError):
        inputs_of(file)
