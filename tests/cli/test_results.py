import io
import json
import wave
from pathlib import Path

import numpy as np
import pytest

from paraudio.cli._results import Done, deliver
from paraudio.engines import Audio, Result, Segment, SpeakerTurn, Word
from paraudio.errors import BackendError
from paraudio.spec import ModelSpec, Task

SOUND = Audio(np.array([0.0, 0.5, -0.5, 0.0], dtype=np.float32), 8000)
SPOKEN = Done(Result(audio=SOUND), load_s=1.0, run_s=0.25, audio_s=0.5)


def spec(task: Task) -> ModelSpec:
    return ModelSpec(id="m", family="f", path="", task=task)


def test_speech_goes_to_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.wav"
    deliver(SPOKEN, spec("tts"), output=str(path), as_json=False)
    with wave.open(str(path)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 4)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{path}: 0.50 s of speech in 0.25 s, 2.0 times real time\n"


def test_what_the_model_warns_of_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result(audio=SOUND, artifacts={"warnings": ["input has Greek letters"]})
    path = tmp_path / "a.wav"
    deliver(Done(result, 1.0, 0.25, 0.5), spec("tts"), output=str(path), as_json=False)
    assert capsys.readouterr().err.startswith("warning: input has Greek letters\n")


def test_the_name_decides_the_format(tmp_path: Path) -> None:
    path = tmp_path / "a.PCM"
    deliver(SPOKEN, spec("tts"), output=str(path), as_json=False)
    assert len(path.read_bytes()) == 8


def test_speech_can_go_to_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    deliver(SPOKEN, spec("tts"), output="-", as_json=False)
    captured = capsysbinary.readouterr()
    with wave.open(io.BytesIO(captured.out)) as sound:
        assert sound.getnframes() == 4


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be written: No such file or directory"):
        deliver(SPOKEN, spec("tts"), output=str(tmp_path / "none" / "a.wav"), as_json=False)


def test_no_sound_is_a_failure() -> None:
    done = Done(Result(text="?"), 0.0, 0.0, 0.0)
    with pytest.raises(BackendError, match="made no sound"):
        deliver(done, spec("tts"), output="a.wav", as_json=False)


def test_a_transcript_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(Done(Result(text="good day"), 0, 1, 2), spec("asr"), output=None, as_json=False)
    deliver(Done(Result(), 0, 1, 2), spec("asr"), output=None, as_json=False)
    captured = capsys.readouterr()
    assert captured.out == "good day\n\n"
    assert captured.err == ""


def test_speech_that_was_found_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(sample_rate=100, segments=(Segment(0, 150), Segment(1000, 1250, "hi")))
    deliver(Done(result, 0, 1, 20), spec("vad"), output=None, as_json=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["START", "END", "WHAT"], ["0.00", "1.50", "speech"], ["10.00", "12.50", "hi"]]


def test_speakers_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(sample_rate=100, speaker_turns=(SpeakerTurn("A", 0, 50),))
    deliver(Done(result, 0, 1, 20), spec("diar"), output=None, as_json=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["START", "END", "SPEAKER"], ["0.00", "0.50", "A"]]


def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(
        text="hi",
        language="en",
        sample_rate=100,
        segments=(Segment(0, 50, "hi", 0.5),),
        speaker_turns=(SpeakerTurn("A", 0, 50),),
        words=(Word("hi", 10, 50, 0.25),),
        artifacts={"x": [1]},
    )
    deliver(Done(result, 0.5, 0.25, 1.0), spec("asr"), output=None, as_json=True)
    span = {"start": 0.0, "end": 0.5, "start_sample": 0, "end_sample": 50}
    assert json.loads(capsys.readouterr().out) == {
        "model": "m",
        "task": "asr",
        "text": "hi",
        "language": "en",
        "audio": None,
        "sample_rate": 100,
        "segments": [span | {"text": "hi", "confidence": 0.5}],
        "speaker_turns": [span | {"speaker": "A", "confidence": None}],
        "words": [
            {"start": 0.1, "end": 0.5, "start_sample": 10, "end_sample": 50}
            | {"word": "hi", "confidence": 0.25}
        ],
        "artifacts": {"x": [1]},
        "timing": {"load_ms": 500.0, "wall_ms": 250.0, "audio_duration_ms": 1000.0, "rtf": 0.25},
    }


def test_json_says_where_the_sound_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.wav")
    deliver(SPOKEN, spec("tts"), output=path, as_json=True)
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["audio"] == {"path": path, "sample_rate": 8000, "seconds": 0.5}
    assert captured.err == ""
