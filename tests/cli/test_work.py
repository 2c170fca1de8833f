"""``paraudio run`` with the simulated family: a real runtime, real threads, real signals."""

import json
import os
import signal
import subprocess
import sys
import wave
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result as CliResult
from tests.cli.programs import ended, environment

from paraudio.cli import _work
from paraudio.cli._ask import Ask
from paraudio.cli._signals import Interrupted
from paraudio.config import Settings
from paraudio.engines import Job, Load, LoadedModel, Result, Session, Stop
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import BackendError, InvalidRequestError, LoadError
from paraudio.spec import IsolationName, Json, ModelSpec, VoicePreset

Cli = Callable[..., CliResult]

SPEAK = ("run", "--model", "sim", "--family", "simulated", "--task", "tts", "--text", "hello")


def spec(**changes: Any) -> ModelSpec:
    return replace(ModelSpec(id="sim", family="simulated", path="", task="tts"), **changes)


class Watching:
    """The simulated family, which shows what reached it and can act when it does."""

    name = "simulated"
    tasks = SimulatedFamily.tasks
    load_options = SimulatedFamily.load_options
    session_options = SimulatedFamily.session_options
    request_options = SimulatedFamily.request_options
    isolation: IsolationName | None = None
    imitates = True
    advertises = "nothing"

    def __init__(self) -> None:
        self.inner = SimulatedFamily()
        self.names: tuple[str, ...] = ()
        self.on_run: Callable[[Stop], None] = lambda _: None
        self.jobs: list[Job] = []
        self.closed: list[str] = []

    def inspect(self, load: Load) -> Mapping[str, Json]:
        return self.inner.inspect(load)

    def estimate(self, load: Load) -> int:
        return self.inner.estimate(load)

    def load(self, load: Load, stop: Stop) -> LoadedModel:
        return WatchingModel(self.inner.load(load, stop), self)


class WatchingModel:
    def __init__(self, inner: LoadedModel, family: Watching) -> None:
        self.inner = inner
        self.family = family

    def capacity(self) -> int:
        return self.inner.capacity()

    def voices(self) -> tuple[str, ...]:
        return self.family.names

    def session(self) -> "WatchingSession":
        session = self.inner.session()
        assert session is not None
        return WatchingSession(session, self.family)

    def close(self) -> None:
        self.family.closed.append("weights")
        self.inner.close()


class WatchingSession:
    def __init__(self, inner: Session, family: Watching) -> None:
        self.inner = inner
        self.family = family

    def prepare(self, job: Job) -> object:
        self.family.jobs.append(job)
        return self.inner.prepare(job)

    def run(self, prepared: object, stop: Stop) -> Result:
        self.family.on_run(stop)
        return self.inner.run(prepared, stop)

    def reset(self) -> None:
        self.inner.reset()

    def close(self) -> None:
        self.family.closed.append("session")
        self.inner.close()


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Watching:
    made = Watching()
    monkeypatch.setattr(_work, "families", lambda: {"simulated": made})
    return made


def do(ask: Ask, model: ModelSpec | None = None) -> int:
    settings = Settings(isolation="thread", backend="cpu")
    return _work.work(ask, model or spec(), settings, as_json=True)


def test_everything_asked_for_reaches_the_session(
    family: Watching, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = Ask(
        text="hello",
        language="en-US",
        speed=1.5,
        prompt="p",
        seed=2**64 - 1,
        options={"chunks": 3},
        output=str(tmp_path / "a.wav"),
    )
    assert do(ask, spec(default_request_options={"run_ms": 1, "chunks": 2})) == 0
    (job,) = family.jobs
    assert (job.task, job.text, job.language, job.speed) == ("tts", "hello", "en-US", 1.5)
    assert (job.prompt, job.seed) == ("p", 2**64 - 1)
    assert (job.options["run_ms"], job.options["chunks"]) == (1, 3)
    assert family.closed == ["session", "weights"]
    found = json.loads(capsys.readouterr().out)
    assert found["artifacts"]["text"] == "hello"
    with wave.open(str(tmp_path / "a.wav")) as sound:
        assert sound.getnframes() > 0


def test_a_recording_is_decoded(
    family: Watching, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.wav"
    do(Ask(text="hello", output=str(path)))
    assert do(Ask(audio=path.read_bytes()), spec(task="asr")) == 0
    audio = family.jobs[-1].audio
    assert audio is not None
    with wave.open(str(path)) as sound:
        assert (audio.rate, len(audio.samples)) == (sound.getframerate(), sound.getnframes())
    assert capsys.readouterr().out


def test_what_is_no_recording_is_the_callers_to_mend(family: Watching) -> None:
    with pytest.raises(InvalidRequestError, match="--audio cannot be decoded"):
        do(Ask(audio=b"nonsense"), spec(task="asr"))
    assert family.jobs == []


@pytest.mark.parametrize(
    ("voice", "default", "wanted"),
    [
        (None, None, None),
        ("anna", None, "a1"),
        ("other", None, "other"),
        (None, "anna", "a1"),
        (None, VoicePreset("b2"), "b2"),
        ("anna", VoicePreset("b2"), "a1"),
    ],
)
@pytest.mark.usefixtures("capsys")
def test_a_voice_is_a_preset_or_a_name_of_the_family(
    family: Watching, tmp_path: Path, voice: str | None, default: object, wanted: str | None
) -> None:
    model = spec(voice_presets={"anna": VoicePreset("a1")}, default_voice_preset=default)
    do(Ask(text="hi", voice=voice, output=str(tmp_path / "a.wav")), model)
    assert family.jobs[0].voice.name == wanted


def test_a_preset_with_a_recording_carries_it(
    family: Watching, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "anna.wav"
    do(Ask(text="hello", output=str(path)))
    presets = {"anna": VoicePreset(voice_ref=str(path), reference_text="hello")}
    ask = Ask(text="hi", voice="anna", output=str(tmp_path / "b.wav"))
    do(ask, spec(voice_presets=presets))
    voice = family.jobs[-1].voice
    assert voice.reference is not None
    assert (voice.name, voice.reference_text) == (None, "hello")
    path.unlink()
    with pytest.raises(InvalidRequestError, match="cannot be read: No such file"):
        do(ask, spec(voice_presets=presets))
    assert capsys.readouterr().out


def test_an_unknown_voice_is_answered_with_the_nearest(family: Watching) -> None:
    family.names = ("anna", "bert")
    with pytest.raises(InvalidRequestError, match="did you mean 'anna'"):
        do(Ask(text="hi", voice="ana", output="a.wav"))
    assert family.jobs == []


@pytest.mark.parametrize(
    ("message", "param", "told"),
    [
        ("input holds nothing", "input", "--text holds nothing"),
        ("speed must be less", "speed", "--speed must be less"),
        ("inputs are odd", "input", "inputs are odd"),
        ("task is odd", "task", "task is odd"),
    ],
)
def test_what_a_family_refuses_is_said_of_its_flag(
    family: Watching, message: str, param: str, told: str
) -> None:
    def refuse(stop: Stop) -> None:
        raise InvalidRequestError(message, param=param)

    family.on_run = refuse
    with pytest.raises(InvalidRequestError) as caught:
        do(Ask(text="hi", output="a.wav"))
    assert caught.value.message == told


def test_an_unknown_option_is_named(family: Watching) -> None:
    with pytest.raises(InvalidRequestError, match="run_m is not an option"):
        do(Ask(text="hi", output="a.wav", options={"run_m": 1}))
    assert family.jobs == []


@pytest.mark.usefixtures("family")
def test_failures_of_the_backend_come_out_as_they_are() -> None:
    with pytest.raises(LoadError):
        do(Ask(text="hi", output="a.wav"), spec(load_options={"fail_loads": 1}))
    with pytest.raises(BackendError, match="simulated failure of run 1"):
        do(Ask(text="hi", output="a.wav", options={"fail": True}))


def test_a_signal_stops_the_run_and_frees_everything(family: Watching, tmp_path: Path) -> None:
    def interrupt(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stop.wait(60)

    family.on_run = interrupt
    with pytest.raises(Interrupted) as caught:
        do(Ask(text="hi", output=str(tmp_path / "a.wav")))
    assert caught.value.code == 130
    assert family.closed == ["session", "weights"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_run_that_ignores_its_stop_is_left_behind(tmp_path: Path) -> None:
    """The signal is sent from inside the call, so that the call is certain to be running."""
    program = """
import atexit, os, signal, threading
from paraudio.cli import _work, main
atexit.register(print, "the interpreter was left in the usual way, with a call inside")
from paraudio.engines.families import _simulated_session as simulated, simulated as family
run = simulated.SimulatedSession.run
def interrupting(self, prepared, stop):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
simulated.SimulatedSession.run = interrupting
_work.families = lambda: {"simulated": family.SimulatedFamily()}
main()
"""
    config = tmp_path / "server.json"
    config.write_text(
        '{"hang_timeout_ms": 50, "models": '
        '[{"id": "sim", "family": "simulated", "path": "", "task": "tts"}]}'
    )
    found = subprocess.run(
        [sys.executable, "-c", program, *SPEAK[:3], "--text", "hi", "-o", "a.wav"],
        capture_output=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env=environment(tmp_path, PARAUDIO_CONFIG=str(config)),
    )
    assert found.returncode == 130
    assert found.stdout == b""
    assert found.stderr == b"error: interrupted; a call that ignores its stop was abandoned\n"
    assert not (tmp_path / "a.wav").exists()


@pytest.mark.process
def test_speech_through_pipes(tmp_path: Path) -> None:
    args = [*SPEAK[:-2], "--text-file", "-", "-o", "-"]
    spoken = ended(tmp_path, *args, stdin=b"hello")
    assert (spoken.returncode, spoken.stdout[:4]) == (0, b"RIFF")
    heard = ended(
        tmp_path,
        *("run", "--model", "sim", "--family", "simulated", "--task", "asr", "--audio", "-"),
        stdin=spoken.stdout,
    )
    assert heard.returncode == 0
    assert b"heard" in heard.stdout
    assert heard.stderr == b""


@pytest.mark.process
def test_a_failed_run_ends_with_1_and_one_line(tmp_path: Path) -> None:
    found = ended(tmp_path, *SPEAK, "-o", "a.wav", "-O", "fail=true")
    assert found.returncode == 1
    assert found.stdout == b""
    assert found.stderr.startswith(b"error: ")
    assert len(found.stderr.splitlines()) == 1
    assert not (tmp_path / "a.wav").exists()
