import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engines.families.tiny_voices import (
    RATE,
    SAMPLES,
    held_values,
    load_of,
    tiny_config,
    tiny_model,
    write_voice,
)

from paraudio.engines import (
    Audio,
    Job,
    LiveSession,
    Result,
    Samples,
    Session,
    Stop,
    Stopped,
    StreamEvent,
    Voice,
)
from paraudio.engines.families.piper_tts import PiperTtsFamily, PiperTtsModel
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

TINY = tiny_model()
CHOIR = tiny_model(speakers=3)
STILL: dict[str, Json] = {"noise_scale": 0, "noise_w": 0, "normalize": False}
SPEAKERS = ("anna", "bert", "carl")


def opened(path: Path, **changes: object) -> PiperTtsModel:
    return PiperTtsFamily().load(load_of(path, **changes), Stop())


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return opened(write_voice(tmp_path, TINY, tiny_config())).session()


@pytest.fixture
def choir(tmp_path: Path) -> PiperTtsModel:
    return opened(write_voice(tmp_path, CHOIR, tiny_config(SPEAKERS)))


def job(text: str | None = "hello", **changes: object) -> Job:
    return replace(Job(task="tts", text=text), **changes)  # type: ignore[arg-type] # fields by name


def still(text: str | None = "hello", **changes: object) -> Job:
    return job(text, options=STILL, **changes)


def spoken(session: Session, asked: Job) -> Samples:
    result = session.run(session.prepare(asked), Stop())
    assert result.audio is not None
    assert result.audio.rate == RATE
    return result.audio.samples


def refused(session: Session, asked: Job) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        session.prepare(asked)
    return caught.value


def test_text_becomes_sound_of_the_voice(session: Session) -> None:
    result = session.run(session.prepare(still("ab.")), Stop())
    assert result.audio is not None
    assert result.language == "en-GB"
    assert held_values(result.audio.samples) == [1, 0, 10, 0, 11, 0, 4, 0, 2]


def test_same_seed_gives_the_same_samples_and_another_seed_others(session: Session) -> None:
    first = spoken(session, job(seed=7))
    spoken(session, job("something else", seed=1))
    np.testing.assert_array_equal(spoken(session, job(seed=7)), first)
    assert not np.array_equal(spoken(session, job(seed=8)), first)
    assert not np.array_equal(spoken(session, job(seed=2**64 - 1)), first)


def test_without_a_seed_no_two_are_alike(session: Session) -> None:
    assert not np.array_equal(spoken(session, job()), spoken(session, job()))


def test_sentences_of_one_text_get_noise_of_their_own(session: Session) -> None:
    sound = spoken(session, job("aa. aa.", seed=1, options={"sentence_silence_ms": 0}))
    one, two = np.split(sound, 2)
    assert not np.array_equal(one, two)


def test_sessions_at_work_together_give_what_each_gives_alone(tmp_path: Path) -> None:
    model = opened(write_voice(tmp_path, TINY, tiny_config()))
    jobs = [job(f"text {chr(97 + number)} is mine. and more", seed=number) for number in range(16)]
    alone = [spoken(model.session(), each) for each in jobs]
    sessions = [model.session() for _ in range(4)]
    start = threading.Barrier(4)

    def work(index: int) -> list[Samples]:
        start.wait()
        return [spoken(sessions[index], each) for each in jobs[index::4]]

    with ThreadPoolExecutor(4) as pool:
        for index, found in enumerate(pool.map(work, range(4))):
            for got, wanted in zip(found, alone[index::4], strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_speed_divides_the_length(session: Session) -> None:
    normal = len(spoken(session, still()))
    assert len(spoken(session, still(speed=2.0))) == normal / 2
    assert len(spoken(session, still(speed=0.5))) == normal * 2
    slow = job(options={**STILL, "length_scale": 2})
    assert len(spoken(session, slow)) == normal * 2
    assert len(spoken(session, replace(slow, speed=2.0))) == normal


def test_voice_has_a_speed_of_its_own(tmp_path: Path, session: Session) -> None:
    own: Json = {"noise_scale": 0, "noise_w": 0, "length_scale": 1.5}
    slow = opened(write_voice(tmp_path, TINY, tiny_config(inference=own))).session()
    assert len(spoken(slow, job())) == len(spoken(session, job())) * 1.5


@pytest.mark.parametrize("speed", [0, 0.2, 4.1, -1, float("nan"), float("inf")])
def test_impossible_speed_is_refused(session: Session, speed: float) -> None:
    assert refused(session, job(speed=speed)).param == "speed"


def test_silence_lies_between_sentences_and_not_around_them(session: Session) -> None:
    close = spoken(session, job("a. b. c.", options={**STILL, "sentence_silence_ms": 0}))
    apart = spoken(session, job("a. b. c.", options={**STILL, "sentence_silence_ms": 50}))
    assert len(apart) - len(close) == 2 * RATE // 20
    one = len(spoken(session, still("a.")))
    assert not apart[one : one + RATE // 20].any()


def test_sentence_spoken_in_pieces_has_no_silence_inside(session: Session) -> None:
    text = "aa. " + "word " * 30
    slow: dict[str, Json] = {**STILL, "length_scale": 4}
    close = spoken(session, job(text, options={**slow, "sentence_silence_ms": 0}))
    apart = spoken(session, job(text, options={**slow, "sentence_silence_ms": 50}))
    assert len(session.prepare(job(text)).utterances) == 2  # type: ignore[attr-defined] # its own
    assert len(apart) - len(close) == RATE // 20


def test_each_sentence_is_brought_to_full_volume(session: Session) -> None:
    quiet: dict[str, Json] = {**STILL, "sentence_silence_ms": 0}
    sound = spoken(session, job("a. zzz.", options={**quiet, "normalize": True}))
    length = len(spoken(session, still("a.")))
    assert np.abs(sound[:length]).max() == 1
    assert np.abs(sound[length:]).max() == 1
    assert np.abs(spoken(session, job("a. zzz.", options=quiet))).max() < 1


def test_whole_text_is_spoken_however_long(session: Session) -> None:
    text = "word " * 4000
    options: dict[str, Json] = {**STILL, "sentence_silence_ms": 0, "length_scale": 0.25}
    sound = spoken(session, job(text, options=options))
    letters = [round(float(value) * 100) for value in sound[:: SAMPLES // 4]]
    assert letters.count(ord("w") - ord("a") + 10) == 4000
    assert len(sound) > 4000 * 4 * 2 * SAMPLES // 4


def test_text_over_the_limit_is_refused_with_the_limit(tmp_path: Path) -> None:
    path = write_voice(tmp_path, TINY, tiny_config())
    short = opened(path, session_options={"max_characters": 10}).session()
    spoken(short, still("a" * 10))
    error = refused(short, still("a" * 11))
    assert error.param == "input"
    assert "up to 10 " in error.message
    assert refused(opened(path).session(), still("word " * 200_000)).param == "input"


@pytest.mark.parametrize(
    "text", [None, "", "   ", "\n\n", "\0\1\x1b", "...", "!?", "日本語", "<speak></speak>", "😀"]
)
def test_text_without_anything_to_say_is_refused(session: Session, text: str | None) -> None:
    assert refused(session, job(text)).param == "input"


def test_what_can_be_said_is_said(session: Session) -> None:
    wanted = spoken(session, still("hi"))
    for text in ("日本語。\n\nhi", "<speak><p>hi</p></speak>", "\0hi\7", "... hi"):
        np.testing.assert_array_equal(spoken(session, still(text)), wanted)


def test_stream_gives_each_sentence_and_then_the_whole(session: Session) -> None:
    prepared = session.prepare(job("one. two? three", seed=3))
    events = list(session.stream(prepared, Stop()))  # type: ignore[attr-defined] # streams too
    pieces = [event.audio for event in events[:-1]]
    assert all(isinstance(piece, Audio) for piece in pieces)
    assert len(pieces) == 3
    whole = session.run(prepared, Stop()).audio
    assert whole is not None
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_array_equal(joined, whole.samples)
    np.testing.assert_array_equal(events[-1].result.audio.samples, whole.samples)


def test_stop_ends_the_work_between_sentences(session: Session) -> None:
    stop = Stop()
    events = session.stream(session.prepare(job("one. two. three.")), stop)  # type: ignore[attr-defined] # streams too
    next(events)
    stop.set()
    with pytest.raises(Stopped):
        next(events)
    session.reset()
    spoken(session, job())


def test_stop_reaches_into_a_run(tmp_path: Path) -> None:
    model = opened(write_voice(tmp_path, tiny_model(endless=True), tiny_config()))
    session = model.session()
    stop = Stop()
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    with pytest.raises(Stopped):
        session.run(session.prepare(job("quit")), stop)
    timer.join()
    session.reset()
    assert len(spoken(session, job("stay")))


def test_voices_are_the_names_of_the_speakers(choir: PiperTtsModel) -> None:
    assert choir.voices() == SPEAKERS
    session = choir.session()
    shifts = [
        spoken(session, still(voice=Voice(name)))[0] - spoken(session, still())[0]
        for name in SPEAKERS
    ]
    np.testing.assert_allclose(shifts, [0, 0.01, 0.02], atol=1e-6)


def test_number_of_a_speaker_is_an_option_and_a_name_wins(choir: PiperTtsModel) -> None:
    session = choir.session()
    carl = spoken(session, still(voice=Voice("carl")))
    by_number = job(options={**STILL, "speaker_id": 2})
    np.testing.assert_array_equal(spoken(session, by_number), carl)
    both = replace(by_number, options={**STILL, "speaker_id": 1}, voice=Voice("carl"))
    np.testing.assert_array_equal(spoken(session, both), carl)


def test_unknown_voice_is_refused_with_the_known_ones(choir: PiperTtsModel) -> None:
    error = refused(choir.session(), job(voice=Voice("dora")))
    assert error.param == "voice"
    assert "anna, bert, carl" in error.message
    assert refused(choir.session(), job(options={"speaker_id": 3})).param == "options.speaker_id"


def test_speakers_without_names_are_called_by_their_numbers(tmp_path: Path) -> None:
    model = opened(write_voice(tmp_path, CHOIR, tiny_config(num_speakers=3)))
    assert model.voices() == ("0", "1", "2")
    by_name = spoken(model.session(), still(voice=Voice("2")))
    by_number = spoken(model.session(), job(options={**STILL, "speaker_id": 2}))
    np.testing.assert_array_equal(by_name, by_number)
    assert refused(model.session(), job(voice=Voice("3"))).param == "voice"


def test_single_voice_takes_any_name(session: Session) -> None:
    np.testing.assert_array_equal(
        spoken(session, still(voice=Voice("alloy"))), spoken(session, still())
    )
    assert refused(session, job(options={"speaker_id": 1})).param == "options.speaker_id"


def test_recording_to_imitate_is_refused(session: Session) -> None:
    reference = Audio(np.zeros(10, np.float32), RATE)
    assert refused(session, job(voice=Voice(reference=reference))).param == "voice_ref"


@pytest.mark.parametrize("language", [None, "", "en", "en-US", "EN_gb"])
def test_language_of_the_voice_is_taken(session: Session, language: str | None) -> None:
    spoken(session, still(language=language))


@pytest.mark.parametrize("language", ["de", "xx", "english"])
def test_other_language_is_refused(session: Session, language: str) -> None:
    error = refused(session, job(language=language))
    assert error.param == "language"
    assert language in error.message


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"noise_scale": -0.1}, "options.noise_scale"),
        ({"noise_w": 3}, "options.noise_w"),
        ({"length_scale": 0}, "options.length_scale"),
        ({"sentence_silence_ms": "1"}, "options.sentence_silence_ms"),
        ({"normalise": True}, "options.normalise"),
        ({"speaker_id": -1}, "options.speaker_id"),
    ],
)
def test_wrong_option_is_refused_by_name(
    session: Session, options: dict[str, Json], param: str
) -> None:
    assert refused(session, job(options=options)).param == param


def test_another_task_is_refused(session: Session) -> None:
    assert refused(session, replace(job(), task="asr")).param == "task"


def test_voice_whose_noise_cannot_be_fed_speaks_and_refuses_seeds(tmp_path: Path) -> None:
    model = tiny_model(mean=0.5)
    session = opened(write_voice(tmp_path, model, tiny_config())).session()
    assert len(spoken(session, job()))
    assert refused(session, job(seed=1)).param == "seed"
    np.testing.assert_array_equal(spoken(session, still(seed=1)), spoken(session, still(seed=1)))
    session.reset()


def test_facts_of_a_voice(tmp_path: Path) -> None:
    path = write_voice(tmp_path, CHOIR, tiny_config(SPEAKERS))
    family = PiperTtsFamily()
    assert family.inspect(load_of(path)) == {
        "sample_rate": RATE,
        "languages": ["en-GB"],
        "speakers": 3,
        "voices": list(SPEAKERS),
        "quality": "low",
        "phonemes": "text",
    }
    assert family.estimate(load_of(path)) > len(CHOIR)
    assert 1 <= opened(path).capacity() <= 16


def test_folder_with_one_voice_is_a_path_too(tmp_path: Path) -> None:
    write_voice(tmp_path, TINY, tiny_config())
    assert len(spoken(opened(tmp_path).session(), still()))


def test_weight_picks_a_voice_of_a_folder(tmp_path: Path) -> None:
    write_voice(tmp_path, TINY, tiny_config())
    (tmp_path / "other.onnx").write_bytes(TINY)
    load = load_of(tmp_path, weight="tiny.onnx")
    assert PiperTtsFamily().inspect(load)["sample_rate"] == RATE


def test_config_may_lie_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "alone.onnx"
    path.write_bytes(TINY)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = elsewhere / "c.json"
    config.write_text(json.dumps(tiny_config()), encoding="utf-8")
    for named in (str(config), "elsewhere/c.json"):
        assert len(spoken(opened(path, config=named).session(), still()))


def _found_wrong(path: Path | str, **changes: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        PiperTtsFamily().load(load_of(path, **changes), Stop())
    return caught.value


def test_wrong_places_are_refused_by_field(tmp_path: Path) -> None:
    assert _found_wrong("").param == "path"
    assert _found_wrong(tmp_path / "none.onnx").param == "path"
    assert _found_wrong(tmp_path).param == "path"
    path = write_voice(tmp_path, TINY, tiny_config())
    assert _found_wrong(path, weight="tiny.onnx").param == "weight"
    assert _found_wrong(tmp_path, weight="none.onnx").param == "weight"
    assert _found_wrong(tmp_path / "..", weight="../tiny.onnx").param == "weight"
    assert _found_wrong(path, config="none.json").param == "config"
    assert _found_wrong(path, config=str(tmp_path)).param == "config"
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in _found_wrong(path, config="pipe").message
    (tmp_path / "second.onnx").write_bytes(TINY)
    error = _found_wrong(tmp_path)
    assert error.param == "weight"
    assert "second.onnx, tiny.onnx" in error.message
    assert _found_wrong(path, session_options={"max_characters": 0}).param == (
        "session_options.max_characters"
    )


@pytest.mark.parametrize("data", [b"", b"no model at all", TINY[:-20], b"\x08\x08"])
def test_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    assert _found_wrong(write_voice(tmp_path, data, tiny_config())).param == "path"


def test_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = TINY.replace(b"input_lengths", b"other_lengths")
    error = _found_wrong(write_voice(tmp_path, model, tiny_config()))
    assert error.param == "path"
    assert "input_lengths" in error.message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ([], "needs an object at its top"),
        ({}, "phoneme_id_map"),
        (tiny_config(audio=None), "needs an object at audio"),
        (tiny_config(audio={"sample_rate": "fast"}), "a whole number from 1000 to 384000"),
        (tiny_config(audio={"sample_rate": True}), "audio.sample_rate"),
        (tiny_config(phoneme_type="pinyin"), "pinyin"),
        (tiny_config(phoneme_type=7), "a string at phoneme_type"),
        (tiny_config(phoneme_type="espeak"), "a string at espeak.voice"),
        (tiny_config(phoneme_type="espeak", espeak={"voice": "klingon!"}), "klingon!"),
        (tiny_config(phoneme_id_map={"a": [1]}), "no '_'"),
        (tiny_config(phoneme_id_map={"_": ["x"]}), "phoneme_id_map._"),
        (tiny_config(num_speakers=0), "num_speakers"),
        (tiny_config(speaker_id_map={"a": -1}), "speaker_id_map.a"),
        (tiny_config(speaker_id_map={"a": 0, "b": 1}), "0 to 0 at speaker_id_map.b"),
        (tiny_config(inference={"noise_scale": "loud"}), "inference.noise_scale"),
        (tiny_config(phoneme_map={"a": "b"}), "a list of strings at phoneme_map.a"),
    ],
)
def test_wrong_description_is_refused_at_the_wrong_place(
    tmp_path: Path, config: dict[str, Json], words: str
) -> None:
    error = _found_wrong(write_voice(tmp_path, TINY, config))
    assert error.param == "config"
    assert words in error.message


@pytest.mark.parametrize("text", ["", "no json", "[" * 100_000, "\ufeff{}"])
def test_description_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = write_voice(tmp_path, TINY, {})
    path.with_name("tiny.onnx.json").write_text(text, encoding="utf-8")
    assert _found_wrong(path).param == "config"


def test_stopped_load_leaves_nothing(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        PiperTtsFamily().load(load_of(write_voice(tmp_path, TINY, tiny_config())), stop)


def test_closed_session_speaks_no_more(session: Session) -> None:
    prepared = session.prepare(job())
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(prepared, Stop())


def test_closed_voice_builds_no_session(choir: PiperTtsModel) -> None:
    choir.close()
    choir.close()
    with pytest.raises(RuntimeError, match="closed"):
        choir.session()


def test_only_its_own_preparations_are_run(session: Session) -> None:
    with pytest.raises(TypeError):
        session.run(Result(), Stop())


def live(session: Session) -> LiveSession:
    assert isinstance(session, LiveSession)
    return session


def sounds(events: Sequence[StreamEvent]) -> list[Samples]:
    return [event.audio.samples for event in events if event.audio is not None]


@pytest.mark.parametrize("size", [1, 5, 11, 1000])
def test_live_text_gives_what_the_whole_text_gives_wherever_it_is_cut(
    session: Session, size: int
) -> None:
    text = "... one, two. is it p.m. now? yes.\n\nthe rest " + "of it " * 50
    asked = job(text, seed=7)
    speaker = live(session)
    speaker.begin(replace(asked, text=None), Stop())
    events = [
        event
        for at in range(0, len(text), size)
        for event in speaker.feed(text[at : at + size], Stop())
    ]
    *rest, last = speaker.finish(Stop())
    assert last.result is not None
    assert last.result.audio is not None
    whole = spoken(session, asked)
    np.testing.assert_array_equal(last.result.audio.samples, whole)
    np.testing.assert_array_equal(np.concatenate(sounds([*events, *rest])), whole)


def test_sentence_is_spoken_as_soon_as_it_is_complete(session: Session) -> None:
    speaker = live(session)
    speaker.begin(still(None), Stop())
    assert speaker.feed("ab", Stop()) == []
    assert speaker.feed(".", Stop()) == []
    (event,) = speaker.feed(" c", Stop())
    assert event.audio is not None
    assert held_values(event.audio.samples) == [1, 0, 10, 0, 11, 0, 4, 0, 2]
    rest, last = speaker.finish(Stop())
    assert rest.audio is not None
    assert last.result is not None


def test_live_text_that_says_nothing_is_refused_at_its_end(session: Session) -> None:
    speaker = live(session)
    for pieces in ([], ["", "  "], ["... ", "!"]):
        speaker.begin(job(None), Stop())
        for piece in pieces:
            assert speaker.feed(piece, Stop()) == []
        with pytest.raises(InvalidRequestError) as caught:
            speaker.finish(Stop())
        assert caught.value.param == "input"
        speaker.reset()


def test_live_piece_that_is_wrong_is_refused(session: Session, tmp_path: Path) -> None:
    speaker = live(session)
    with pytest.raises(InvalidRequestError):
        speaker.begin(job(None, speed=9.0), Stop())
    speaker.begin(job(None), Stop())
    with pytest.raises(InvalidRequestError) as caught:
        speaker.feed(Audio(np.zeros(9, np.float32), RATE), Stop())
    assert caught.value.param == "input"
    path = write_voice(tmp_path, TINY, tiny_config())
    short = live(opened(path, session_options={"max_characters": 5}).session())
    short.begin(job(None), Stop())
    short.feed("hello", Stop())
    with pytest.raises(InvalidRequestError, match="up to 5") as caught:
        short.feed("!", Stop())
    assert caught.value.param == "input"


def test_live_job_leaves_nothing_for_the_next(session: Session) -> None:
    speaker = live(session)
    stop = Stop()
    stop.set()
    speaker.begin(still(None), Stop())
    speaker.feed("some words", Stop())
    with pytest.raises(Stopped):
        speaker.finish(stop)
    speaker.reset()
    with pytest.raises(RuntimeError, match="begun"):
        speaker.feed("more", Stop())
    speaker.begin(still(None), Stop())
    speaker.feed("ab.", Stop())
    _, last = speaker.finish(Stop())
    assert last.result is not None
    assert last.result.audio is not None
    np.testing.assert_array_equal(last.result.audio.samples, spoken(session, still("ab.")))
