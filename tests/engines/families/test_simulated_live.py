"""The simulated family on input that is still coming."""

from dataclasses import replace

import numpy as np
import pytest
import trio
from tests.engines.families.test_simulated import load
from trio.testing import MockClock

from paraudio.engines import (
    Audio,
    Boundary,
    Job,
    LiveSession,
    Piece,
    Result,
    SpeakerTurn,
    Stop,
    Stopped,
    StreamEvent,
    StreamingSession,
)
from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json, Task
from paraudio.testing import open_virtual_isolation

RATE = 8_000


def opened(task: Task, **session_options: Json) -> LiveSession:
    given = load(task, session=session_options)
    session = SimulatedFamily().load(given, Stop()).session()
    assert isinstance(session, LiveSession)
    return session


def fed(session: LiveSession, job: Job, *pieces: Piece) -> tuple[list[StreamEvent], Result]:
    session.begin(job, Stop())
    events = [event for piece in pieces for event in session.feed(piece, Stop())]
    *rest, last = session.finish(Stop())
    assert last.result is not None
    return [*events, *rest], last.result


def loud(seconds: float) -> Audio:
    return Audio(np.full(round(seconds * RATE), -0.5, np.float32), RATE)


def quiet(seconds: float) -> Audio:
    return Audio(np.full(round(seconds * RATE), 0.005, np.float32), RATE)


def cut(audio: Audio, size: int) -> list[Audio]:
    starts = range(0, len(audio.samples), size)
    return [Audio(audio.samples[at : at + size], audio.rate) for at in starts]


def test_each_second_of_sound_is_a_partial_and_then_a_word() -> None:
    session = opened("asr")
    session.begin(Job(task="asr", language="fr"), Stop())
    assert session.feed(loud(0.9), Stop()) == []
    first = [StreamEvent(partial="word1"), StreamEvent(text="word1")]
    assert session.feed(loud(0.1), Stop()) == first
    assert len(session.feed(loud(2.5), Stop())) == 4
    rest, last = session.finish(Stop())
    assert rest == StreamEvent(text=" word4")
    result = last.result
    assert result is not None
    assert result.text == "word1 word2 word3 word4"
    assert (result.language, result.sample_rate) == ("fr", RATE)
    assert [(word.start, word.end) for word in result.words] == [
        (0, 8_000),
        (8_000, 16_000),
        (16_000, 24_000),
        (24_000, 28_000),
    ]
    assert result.artifacts["path"] == "/models/a"
    assert result.artifacts["frames"] == 28_000


def test_speech_is_where_it_is_loud_up_to_a_silence() -> None:
    parts = [quiet(0.5), loud(0.4), quiet(0.2), loud(0.4), quiet(0.3), loud(0.105)]
    events, result = fed(opened("vad"), Job(task="vad"), *parts)
    boundaries = [event.boundary for event in events]
    assert boundaries == [
        Boundary("start", 4_000),
        Boundary("end", 12_000),
        Boundary("start", 14_400),
        Boundary("end", 15_240),
    ]
    assert [(each.start, each.end) for each in result.segments] == [
        (4_000, 12_000),
        (14_400, 15_240),
    ]


def test_speakers_take_turns_live_as_in_a_recording_and_in_a_stream() -> None:
    sound = loud(2.5)
    events, result = fed(opened("diar"), Job(task="diar"), *cut(sound, 3_000))
    turns = tuple(turn for event in events for turn in event.turns)
    assert (
        turns
        == result.speaker_turns
        == (
            SpeakerTurn("speaker 1", 0, 8_000),
            SpeakerTurn("speaker 2", 8_000, 16_000),
            SpeakerTurn("speaker 1", 16_000, 20_000),
        )
    )
    session = opened("diar")
    job = Job(task="diar", audio=sound)
    assert isinstance(session, StreamingSession)
    whole = session.run(session.prepare(job), Stop())
    assert whole.speaker_turns == turns
    assert whole.segments == ()
    streamed = list(session.stream(session.prepare(job), Stop()))
    assert tuple(turn for event in streamed for turn in event.turns) == turns
    assert streamed[-1].result == whole


@pytest.mark.parametrize("task", ["asr", "vad", "diar"])
def test_nothing_depends_on_where_sound_is_cut(task: Task) -> None:
    rng = np.random.default_rng(5)
    loudness = np.repeat(rng.random(40) > 0.5, 700).astype(np.float32)
    sound = Audio(loudness * rng.random(len(loudness), np.float32), RATE)
    session = opened(task)
    seen = [fed(session, Job(task=task), *cut(sound, size)) for size in (1, 79, 80, 8_000, 10**6)]
    assert all(each == seen[0] for each in seen[1:])
    assert seen[0][0]


@pytest.mark.parametrize("task", ["asr", "vad", "diar"])
def test_sound_that_never_came_is_an_empty_result(task: Task) -> None:
    for pieces in ([], [loud(0)]):
        events, result = fed(opened(task), Job(task=task), *pieces)
        assert events == []
        assert (result.text or "", result.segments, result.speaker_turns) == ("", (), ())


def test_each_text_is_a_tone_of_its_own() -> None:
    session = opened("tts")
    events, result = fed(session, Job(task="tts", seed=3), "one ", "", "two")
    sounds = [event.audio.samples for event in events if event.audio is not None]
    assert len(sounds) == len(events) == 2
    assert result.text == "one two"
    assert result.audio is not None
    np.testing.assert_array_equal(result.audio.samples, np.concatenate(sounds))
    session.begin(Job(task="tts"), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.finish(Stop())
    assert caught.value.param == "text"


def test_a_wrong_live_job_or_piece_is_refused_by_its_field() -> None:
    session = opened("asr")
    for wrong, param in (
        (Job(task="tts"), "task"),
        (Job(task="asr", options={"run_ms": -1}), "options.run_ms"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            session.begin(wrong, Stop())
        assert caught.value.param == param
    with pytest.raises(RuntimeError, match="begun"):
        session.feed(loud(1), Stop())
    session.begin(Job(task="asr"), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed("words", Stop())
    assert caught.value.param == "audio"
    session.feed(loud(1), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        session.feed(replace(loud(1), rate=9_000), Stop())
    assert caught.value.param == "sample_rate"


def test_failures_come_when_ordered_and_a_reset_forgets() -> None:
    session = opened("asr", fail_prepares=1)
    with pytest.raises(RuntimeError, match="preparation 1"):
        session.begin(Job(task="asr"), Stop())
    session.begin(Job(task="asr", options={"fail": True}), Stop())
    session.feed(loud(1), Stop())
    with pytest.raises(RuntimeError, match="simulated failure"):
        session.finish(Stop())
    session.reset()
    with pytest.raises(RuntimeError, match="begun"):
        session.finish(Stop())


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stop_ends_a_piece_unless_it_is_to_be_ignored(deaf: bool) -> None:
    session = opened("asr", run_ms=20, ignore_cancel=deaf)
    stop = Stop()
    stop.set()
    session.begin(Job(task="asr"), Stop())
    if deaf:
        assert session.feed(loud(1), stop)
    else:
        with pytest.raises(Stopped):
            session.feed(loud(1), stop)


async def test_each_piece_and_the_end_take_the_time_of_a_run(autojump_clock: MockClock) -> None:
    async with open_virtual_isolation() as isolation:
        model = await isolation.load(SimulatedFamily(), load("asr", session={"run_ms": 9}))
        session = await model.session()
        began = trio.current_time()
        async with session.live(Job(task="asr", options={"run_ms": 1_000})) as live:
            assert trio.current_time() == began
            for count in (1, 2):
                await live.feed(loud(1))
                assert trio.current_time() == pytest.approx(began + count)
            await live.finish()
        assert trio.current_time() == pytest.approx(began + 3)
        await session.close()
        await model.close()
