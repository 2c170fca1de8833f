"""The routes that take a recording: every format, every field, every refusal."""

import numpy as np
import pytest
from tests.http.client import form
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE, sound_file, tone
from tests.http.transcribing import SPOKEN, TRANSCRIBE, saying, send
from trio.testing import MockClock

from paraudio.engines import Job, Result, Segment, SpeakerTurn


async def test_json_is_the_default(world: World, autojump_clock: MockClock) -> None:
    reply = await send(world, sound_file())
    body = reply.json()
    assert reply.status == 200
    assert "heard 8000 samples" in body["text"]
    assert body["timing"] == {"wall_ms": 0.0, "audio_duration_ms": 500.0, "rtf": 0.0}
    assert reply.headers["x-paraudio-audio-duration-ms"] == "500.0"
    assert world.idle()


async def test_text_is_raw(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        reply = await send(world, sound_file(), response_format="text")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.body == b"Hello there. General <Kenobi> & co\n"


async def test_srt_numbers_its_cues(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        reply = await send(world, sound_file(), response_format="srt")
    assert reply.headers["content-type"].startswith("application/x-subrip")
    assert reply.body.decode() == (
        "1\n00:00:00,000 --> 00:00:00,500\nHello there.\n\n"
        "2\n00:00:00,500 --> 00:00:01,500\nGeneral <Kenobi> & co\n\n"
    )


async def test_vtt_escapes_what_means_something(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        reply = await send(world, sound_file(), response_format="vtt")
    assert reply.headers["content-type"].startswith("text/vtt")
    assert reply.body.decode() == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\nHello there.\n\n"
        "00:00:00.500 --> 00:00:01.500\nGeneral &lt;Kenobi&gt; &amp; co\n\n"
    )


async def test_verbose_json_has_segments_and_words_in_seconds(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        body = (
            await send(world, sound_file(), response_format="verbose_json", temperature="0.25")
        ).json()
    assert (body["task"], body["language"], body["duration"]) == ("transcribe", "en", 0.5)
    first, second = body["segments"]
    assert (first["id"], first["start"], first["end"], first["text"]) == (
        0,
        0.0,
        0.5,
        "Hello there.",
    )
    assert (first["avg_logprob"], second["avg_logprob"]) == (-0.6931, 0.0)
    assert first["temperature"] == 0.25
    assert body["words"] == [
        {"word": "Hello", "start": 0.0, "end": 0.25},
        {"word": "there.", "start": 0.25, "end": 0.5},
        {"word": "General", "start": 0.6, "end": 1.0},
    ]


@pytest.mark.parametrize("key", ["timestamp_granularities[]", "timestamp_granularities"])
@pytest.mark.parametrize(("value", "has"), [("word", {"words"}), ("segment", {"segments"})])
async def test_granularities_are_understood_under_both_keys(
    open_scripted: OpenWorld, key: str, value: str, has: set[str]
) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        fields = {"response_format": "verbose_json", key: value}
        body = (await send(world, sound_file(), **fields)).json()
        assert {"words", "segments"} & set(body) == has
        bad = await send(world, sound_file(), **{**fields, key: "letter"})
        assert (bad.status, bad.error()["param"]) == (400, "timestamp_granularities")


async def test_an_empty_granularity_of_a_form_is_none(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        fields = {"response_format": "verbose_json", "timestamp_granularities[]": ""}
        body = (await send(world, sound_file(), **fields)).json()
        assert {"words", "segments"} <= set(body)


async def test_both_granularities_may_be_asked_for(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        key = "timestamp_granularities[]"
        body, headers = form(
            ("file", "a", sound_file()),
            (key, None, b"word"),
            (key, None, b"segment"),
            ("model", None, b"ears"),
            ("response_format", None, b"verbose_json"),
        )
        reply = await world.client.post(TRANSCRIBE, body, headers)
        assert {"words", "segments"} <= set(reply.json())


@pytest.mark.parametrize("kind", ["mp3", "", "JSON"])
async def test_an_unknown_format_is_refused_before_anything_is_loaded(
    world: World, autojump_clock: MockClock, kind: str
) -> None:
    reply = await send(world, sound_file(), response_format=kind or "x")
    assert (reply.status, reply.error()["param"]) == (400, "response_format")
    assert "verbose_json" in reply.error()["message"]
    assert not world.model("ears").loaded


@pytest.mark.parametrize("silence", ["", None, "  "])
@pytest.mark.parametrize("kind", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_silence_is_an_empty_transcript(
    open_scripted: OpenWorld, silence: str | None, kind: str
) -> None:
    async with open_scripted(saying(Result(text=silence, sample_rate=RATE)), EARS) as world:
        reply = await send(world, sound_file(np.zeros(RATE, np.float32)), response_format=kind)
        assert reply.status == 200
        if "json" in kind:
            assert reply.json()["text"] == ""
        else:
            assert reply.body.decode().strip() in {"", "WEBVTT"}


async def test_silence_after_speech_does_not_repeat_it(open_scripted: OpenWorld) -> None:
    def make(job: Job) -> Result:
        assert job.audio is not None
        loud = bool(np.abs(job.audio.samples).max() > 0.01)
        return Result(text="words" if loud else "", sample_rate=RATE)

    async with open_scripted(ScriptedFamily(make), EARS) as world:
        assert (await send(world, sound_file())).json()["text"] == "words"
        quiet = sound_file(np.zeros(RATE, np.float32))
        assert (await send(world, quiet)).json()["text"] == ""
        empty = await send(world, b"")
        assert (empty.status, empty.error()["param"]) == (400, "file")
        assert world.idle()


@pytest.mark.parametrize("language", ["", "en", "en-US", "EN_us", "de"])
async def test_languages_of_the_families_list_are_taken_with_any_region(
    open_scripted: OpenWorld, language: str
) -> None:
    family = saying(SPOKEN, languages=["en", "de-DE"])
    async with open_scripted(family, EARS) as world:
        assert (await send(world, sound_file(), language=language)).status == 200
    assert family.jobs[0].language == (language.replace("_", "-") or None)


async def test_a_language_outside_the_families_list_is_named(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(SPOKEN, languages=["en", "de"]), EARS) as world:
        reply = await send(world, sound_file(), language="xx")
        assert (reply.status, reply.error()["param"]) == (400, "language")
        assert "de, en" in reply.error()["message"]
        assert "xx" in reply.error()["message"]
        assert world.idle()


async def test_prompt_seed_and_temperature_reach_the_family(open_scripted: OpenWorld) -> None:
    family = saying(SPOKEN)
    async with open_scripted(family, EARS) as world:
        await send(world, sound_file(), prompt="names", seed=str(2**64 - 1), temperature="0.5")
    [job] = family.jobs
    assert (job.prompt, job.seed, job.options) == ("names", 2**64 - 1, {"temperature": 0.5})


async def test_form_numbers_that_are_none_name_their_field(
    world: World, autojump_clock: MockClock
) -> None:
    for name, value in {
        "temperature": "hot",
        "busy_timeout_ms": "soon",
        "stream": "perhaps",
        "seed": "-1",
        "options": "{",
        "language": "!!",
    }.items():
        reply = await send(world, sound_file(), **{name: value})
        assert (reply.status, reply.error()["param"]) == (400, name)


async def test_a_speech_model_cannot_listen(world: World, autojump_clock: MockClock) -> None:
    body, headers = form(("model", None, b"voice"), ("file", "a", sound_file()))
    reply = await world.client.post(TRANSCRIBE, body, headers)
    assert (reply.status, reply.error()["param"]) == (400, "model")


async def test_a_stream_ends_with_one_done(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, session_options={"chunks": 3, "run_ms": 300})) as world:
        events = (await send(world, sound_file(), stream="true")).events()
        whole = (await send(world, sound_file())).json()["text"]
    kinds = [event["type"] for event in events[:-1]]
    assert kinds == ["transcript.text.delta"] * 3 + ["transcript.text.done"]
    assert "".join(event["delta"] for event in events[:3]) == events[3]["text"] == whole
    assert events[3]["timing"]["ttft_ms"] == pytest.approx(100, abs=1)
    assert events[-1] == "[DONE]"


async def test_a_family_that_cannot_stream_gives_its_result_as_one_piece(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(saying(SPOKEN), EARS) as world:
        events = (await send(world, sound_file(), stream="true")).events()
        assert [event["type"] for event in events[:-1]] == [
            "transcript.text.delta",
            "transcript.text.done",
        ]
        assert events[1]["text"] == "Hello there. General <Kenobi> & co"
        assert world.idle()


async def test_speakers_are_streamed_turn_by_turn(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, task="diar", session_options={"chunks": 2})) as world:
        reply = await send(world, sound_file(np.tile(tone(1.0), 4)), stream="true")
    *deltas, done, mark = reply.events()
    assert [event["type"] for event in deltas] == ["diarization.delta"] * 2
    assert (done["type"], mark) == ("diarization.done", "[DONE]")
    turns = [turn for event in deltas for turn in event["speaker_turns"]]
    assert done["speaker_turns"] == turns
    assert len(turns) == 4
    assert {event["sample_rate"] for event in (*deltas, done)} == {RATE}
    assert done["timing"]["audio_duration_ms"] == 4000.0


@pytest.mark.parametrize(
    ("task", "result", "kinds"),
    [
        (
            "diar",
            Result(speaker_turns=(SpeakerTurn("anna", 0, 4000),), sample_rate=RATE),
            ["diarization.delta", "diarization.done"],
        ),
        ("vad", Result(segments=(Segment(0, 4000),), sample_rate=RATE), ["speech.done"]),
    ],
)
async def test_a_result_that_came_whole_is_streamed_as_its_task_asks(
    open_scripted: OpenWorld, task: str, result: Result, kinds: list[str]
) -> None:
    async with open_scripted(saying(result), spec(EARS, task=task)) as world:
        events = (await send(world, sound_file(), stream="true")).events()
    assert [event["type"] for event in events[:-1]] == kinds
    found = events[-2].get("speaker_turns", events[-2].get("segments"))
    assert [(one["start_sample"], one["end_sample"]) for one in found] == [(0, 4000)]
    assert events[-2]["sample_rate"] == RATE


async def test_streamed_silence_is_an_empty_done(open_scripted: OpenWorld) -> None:
    async with open_scripted(saying(Result(text="", sample_rate=RATE)), EARS) as world:
        events = (await send(world, sound_file(), stream="true")).events()
        assert [event["type"] for event in events[:-1]] == ["transcript.text.done"]
        assert events[0]["text"] == ""


async def test_details_give_every_place_in_samples(open_scripted: OpenWorld) -> None:
    turn = SpeakerTurn("A", 0, 8000, 0.7)
    result = Result(
        text="hi",
        language="en",
        sample_rate=RATE,
        segments=SPOKEN.segments,
        words=SPOKEN.words,
        speaker_turns=(turn,),
    )
    async with open_scripted(saying(result), EARS) as world:
        path = f"{TRANSCRIBE}/details"
        body = (await send(world, sound_file(), path)).json()
        streamed = await send(world, sound_file(), path, stream="true")
    assert body["sample_rate"] == RATE
    assert body["words"][1] == {
        "word": "there.",
        "start": 0.25,
        "end": 0.5,
        "start_sample": 4000,
        "end_sample": 8000,
        "confidence": 0.8,
    }
    assert body["segments"][1]["start_sample"] == 8000
    assert body["speaker_turns"] == [
        {
            "speaker": "A",
            "start": 0.0,
            "end": 0.5,
            "start_sample": 0,
            "end_sample": 8000,
            "confidence": 0.7,
        }
    ]
    assert set(body["timing"]) == {"wall_ms", "audio_duration_ms", "rtf"}
    assert (streamed.status, streamed.error()["param"]) == (400, "stream")


async def test_translations_are_refused_until_a_family_translates(
    world: World, autojump_clock: MockClock
) -> None:
    reply = await send(world, sound_file(), "/v1/audio/translations")
    assert (reply.status, reply.error()["param"]) == (400, "model")


async def test_alignments_find_the_given_words(open_scripted: OpenWorld) -> None:
    family = saying(Result(sample_rate=RATE, words=SPOKEN.words))
    async with open_scripted(family, spec(EARS, task="align")) as world:
        path = "/v1/audio/alignments"
        body = (await send(world, sound_file(), path, text="Hello there. General")).json()
        missing = await send(world, sound_file(), path)
    assert family.jobs[0].text == "Hello there. General"
    assert body["text"] == "Hello there. General"
    assert [word["word"] for word in body["words"]] == ["Hello", "there.", "General"]
    assert body["words"][2] == {
        "word": "General",
        "start": 0.6,
        "end": 1.0,
        "start_sample": 9600,
        "end_sample": 16_000,
        "confidence": None,
    }
    assert (missing.status, missing.error()["param"]) == (400, "text")


async def test_no_more_of_a_recording_is_kept_than_the_model_hears(
    world: World, autojump_clock: MockClock
) -> None:
    recording = sound_file(tone(0.5, 96_000), 96_000)
    for frames in (24_000, 11_025):  # a cold model has not said yet what it hears
        reply = await send(world, recording)
        assert f"heard {frames} samples" in reply.json()["text"]
        assert reply.json()["timing"]["audio_duration_ms"] == 500.0
