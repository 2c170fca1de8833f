"""The simulated family: its output names its maker, its failures come when ordered."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from paraudio.engines import (
    Audio,
    BatchSession,
    Job,
    Load,
    Session,
    Stop,
    Stopped,
    StreamingSession,
)
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json, Task

SOUND = Audio(np.linspace(-1, 1, 800, dtype=np.float32), 8_000)


def load(
    task: Task = "tts",
    *,
    path: str = "/models/a",
    options: Mapping[str, Json] | None = None,
    session: Mapping[str, Json] | None = None,
) -> Load:
    return Load(
        path, task, "offline", None, None, options or {}, session or {}, model_id="a", generation=3
    )


def open_session(given: Load, family: SimulatedFamily | None = None) -> StreamingSession:
    session = (family or SimulatedFamily()).load(given, Stop()).session()
    assert isinstance(session, StreamingSession)
    return session


def run(session: Session, job: Job) -> object:
    return session.run(session.prepare(job), Stop())


def test_speech_names_who_made_it() -> None:
    session = open_session(load())
    result = session.run(session.prepare(Job(task="tts", text="hello")), Stop())
    assert result.text == "hello"
    assert result.artifacts["path"] == "/models/a"
    assert (result.artifacts["generation"], result.artifacts["session"]) == (3, 1)
    assert (result.artifacts["model"], result.artifacts["text"]) == ("a", "hello")


def test_the_tone_depends_on_all_that_is_asked_and_on_nothing_else() -> None:
    session = open_session(load())
    plain = Job(task="tts", text="hello")
    jobs = [
        plain,
        replace(plain, text="other"),
        replace(plain, seed=5),
        replace(plain, speed=2.0),
        replace(plain, voice=replace(plain.voice, name="low")),
    ]

    def sounds() -> list[bytes]:
        results = [session.run(session.prepare(job), Stop()) for job in jobs]
        return [result.audio.samples.tobytes() for result in results if result.audio]

    first = sounds()
    assert len(set(first)) == len(jobs)
    assert sounds() == first


def test_the_tone_is_fit_to_be_played() -> None:
    session = open_session(load())
    result = session.run(session.prepare(Job(task="tts", text="hello world")), Stop())
    assert result.audio is not None
    assert result.audio.samples.dtype == np.float32
    assert 0.1 < np.abs(result.audio.samples).max() <= 1
    assert result.audio.seconds == pytest.approx(0.44, abs=0.01)


def test_a_transcript_names_who_heard_what() -> None:
    session = open_session(load("asr"))
    result = session.run(session.prepare(Job(task="asr", audio=SOUND, prompt="names")), Stop())
    assert result.text == "path /models/a generation 3 session 1 heard 800 samples, asked 'names'"
    assert (result.sample_rate, result.language) == (8_000, "en")
    assert (result.segments[0].start, result.segments[0].end) == (0, 800)


def test_speech_is_found_in_all_of_the_sound_and_in_no_sound_none() -> None:
    session = open_session(load("vad"))
    result = session.run(session.prepare(Job(task="vad", audio=SOUND)), Stop())
    assert [(each.start, each.end) for each in result.segments] == [(0, 800)]
    silence = Audio(np.zeros(0, np.float32), 8_000)
    result = session.run(session.prepare(Job(task="vad", audio=silence)), Stop())
    assert result.segments == ()


@pytest.mark.parametrize(
    ("job", "param"),
    [
        (Job(task="tts"), "text"),
        (Job(task="tts", text=""), "text"),
        (Job(task="asr", audio=SOUND), "task"),
        (Job(task="tts", text="x", options={"chunks": 0}), "options.chunks"),
        (Job(task="tts", text="x", options={"volume": 1}), "options.volume"),
    ],
)
def test_a_wrong_job_is_refused_by_its_field(job: Job, param: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        open_session(load()).prepare(job)
    assert refused.value.param == param


def test_hearing_needs_sound() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        open_session(load("asr")).prepare(Job(task="asr"))
    assert refused.value.param == "audio"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        (replace(load(), task="midi"), "task"),
        (replace(load(), mode="live"), "mode"),
        (load(options={"capacity": 17}), "load_options.capacity"),
        (load(session={"run_ms": -5}), "session_options.run_ms"),
    ],
)
def test_a_wrong_configuration_is_refused_by_inspection_and_load(given: Load, param: str) -> None:
    family = SimulatedFamily()
    for ask in (family.inspect, lambda load: family.load(load, Stop())):
        with pytest.raises(InvalidRequestError) as refused:
            ask(given)
        assert refused.value.param == param


def test_capacity_and_memory_are_what_the_options_say() -> None:
    family = SimulatedFamily()
    given = load(options={"capacity": 3, "memory_mb": 2})
    assert family.estimate(given) == 2 * 2**20
    model = family.load(given, Stop())
    assert (model.capacity(), model.voices()) == (3, ())
    model.close()


def test_the_first_loads_fail_and_each_configuration_counts_its_own() -> None:
    family = SimulatedFamily()
    failing = load(options={"fail_loads": 2})
    for number in (1, 2):
        with pytest.raises(RuntimeError, match=f"failure of load {number} of '/models/a'"):
            family.load(failing, Stop())
    family.load(failing, Stop())
    with pytest.raises(RuntimeError):
        family.load(load(path="/models/b", options={"fail_loads": 2}), Stop())
    with pytest.raises(RuntimeError):
        SimulatedFamily().load(failing, Stop())


def test_the_first_sessions_come_out_as_nothing() -> None:
    model = SimulatedFamily().load(load(options={"null_sessions": 2}), Stop())
    assert [model.session() is None for _ in range(3)] == [True, True, False]


def test_the_session_to_fail_fails_once_and_a_later_load_succeeds() -> None:
    family = SimulatedFamily()
    given = load(options={"fail_clone": 2})
    model = family.load(given, Stop())
    assert model.session() is not None
    with pytest.raises(RuntimeError, match="failure of session 2"):
        model.session()
    again = family.load(given, Stop())
    assert None not in [again.session(), again.session()]


def test_the_first_preparations_and_runs_fail() -> None:
    session = open_session(load(session={"fail_prepares": 1, "fail_runs": 1}))
    job = Job(task="tts", text="x")
    with pytest.raises(RuntimeError, match="failure of preparation 1"):
        session.prepare(job)
    prepared = session.prepare(job)
    with pytest.raises(RuntimeError, match="failure of run 1"):
        session.run(prepared, Stop())
    session.run(prepared, Stop())


def test_a_request_can_ask_for_its_own_failure() -> None:
    session = open_session(load())
    with pytest.raises(RuntimeError):
        run(session, Job(task="tts", text="x", options={"fail": True}))
    run(session, Job(task="tts", text="x"))


@pytest.mark.parametrize(
    ("own", "asked", "chunks"),
    [({}, {}, 4), ({"chunks": 2}, {}, 2), ({"chunks": 2}, {"chunks": 7}, 7)],
)
def test_a_stream_comes_in_the_pieces_that_were_asked_for(
    own: Mapping[str, Json], asked: Mapping[str, Json], chunks: int
) -> None:
    session = open_session(load(session=own))
    job = Job(task="tts", text="hello", options=asked)
    *deltas, last = session.stream(session.prepare(job), Stop())
    assert len(deltas) == chunks
    assert last.result is not None
    assert last.result.audio is not None
    pieces = [delta.audio.samples for delta in deltas if delta.audio is not None]
    assert np.array_equal(np.concatenate(pieces), last.result.audio.samples)


def test_text_streams_as_text_without_empty_pieces() -> None:
    session = open_session(load("asr", session={"chunks": 5_000}))
    *deltas, last = session.stream(session.prepare(Job(task="asr", audio=SOUND)), Stop())
    assert last.result is not None
    assert all(delta.text for delta in deltas)
    assert "".join(delta.text or "" for delta in deltas) == last.result.text


def test_a_batch_ends_with_its_shortest_job_first() -> None:
    session = open_session(load())
    assert isinstance(session, BatchSession)
    jobs = [Job(task="tts", text=str(ms), options={"run_ms": ms}) for ms in (30, 10, 20)]
    prepared = [session.prepare(job) for job in jobs]
    results = list(session.run_batch(prepared, Stop()))
    assert [(index, result.text) for index, result in results] == [(1, "10"), (2, "20"), (0, "30")]


def test_a_stop_ends_a_run_a_stream_and_a_load() -> None:
    session = open_session(load())
    prepared = session.prepare(Job(task="tts", text="x", options={"run_ms": 60_000}))
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        session.run(prepared, stop)
    with pytest.raises(Stopped):
        next(session.stream(prepared, stop))
    with pytest.raises(Stopped):
        SimulatedFamily().load(load(options={"load_ms": 60_000}), stop)


def test_a_session_that_ignores_its_stop_runs_to_its_end() -> None:
    session = open_session(load(session={"ignore_cancel": True, "run_ms": 20}))
    stop = Stop()
    stop.set()
    assert session.run(session.prepare(Job(task="tts", text="x")), stop).text == "x"


def test_what_was_not_prepared_is_not_run() -> None:
    with pytest.raises(TypeError):
        open_session(load()).run("junk", Stop())
