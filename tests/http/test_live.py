"""The live routes in virtual time: what is told when, and what is refused."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import trio
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.live import LISTEN, RATE, SPEAK, LiveCall, kinds, pcm, refused, start, whole
from tests.http.openapi import Document
from tests.http.sounds import heard
from trio.testing import MockClock

from paraudio.engines import Job, Result
from paraudio.engines.families._simulated_sound import tone
from paraudio.http._live_pieces import TEXT_TURN, TextPieces
from paraudio.journal import Kind

VAD = spec(EARS, id="vad", task="vad")
DIAR = spec(EARS, id="diar", task="diar")


async def test_words_are_told_while_the_sound_is_still_coming(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world)
    await call.head()
    assert call.reply.status == 200
    assert call.reply.headers["content-type"].startswith("text/event-stream")
    assert call.reply.headers["cache-control"] == "no-cache"
    assert call.reply.body == b""
    for word in ("word1", " word2"):
        call.say(pcm(1.0))
        assert await call.event() == {"type": "transcript.text.partial", "text": word.strip()}
        assert await call.event() == {"type": "transcript.text.delta", "delta": word}
    assert world.model("ears").active_slots == 1
    call.say(pcm(0.5))
    call.end()
    assert await call.event() == {"type": "transcript.text.delta", "delta": " word3"}
    done = await call.event()
    assert (done["type"], done["text"]) == ("transcript.text.done", "word1 word2 word3")
    assert done["timing"]["audio_duration_ms"] == 2500.0
    assert await call.event() == "[DONE]"
    await call.ended.wait()
    assert call.reply.complete
    assert world.idle()
    assert [event.facts["outcome"] for event in world.kinds(Kind.RUN_ENDED)] == ["ok"]


async def test_timing_counts_the_work_and_not_the_wait_for_sound(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, session_options={"run_ms": 100})) as world:
        call = start(world)
        await trio.sleep(5)
        for _ in range(3):
            call.say(pcm(1.0))
            await trio.sleep(3)
        call.end()
        await call.ended.wait()
        timing = call.reply.events()[-2]["timing"]
        assert timing == {
            "wall_ms": 400.0,
            "audio_duration_ms": 3000.0,
            "rtf": 0.1333,
            "ttft_ms": 5100.0,
        }
        metrics = (await world.client.get("/metrics")).body.decode()
    assert 'paraudio_real_time_factor_count{model="ears"} 1.0' in metrics


async def test_sound_of_any_shape_is_heard(world: World, autojump_clock: MockClock) -> None:
    frames = np.linspace(-1, 1, 3 * 48_000, dtype="<f4").repeat(2).tobytes()
    pieces = [frames[at : at + 9999] for at in range(0, len(frames), 9999)]
    query: dict[str, Any] = {"sample_rate": 48_000, "channels": 2, "sample_format": "f32le"}
    done = (await whole(world, *pieces, **query))[-2]
    assert done["text"] == "word1 word2 word3"
    assert done["timing"]["audio_duration_ms"] == 3000.0


async def test_voice_activity_is_told_as_it_begins_and_ends(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VAD) as world:
        call = start(world, model="vad")
        call.say(pcm(0.5, 0))
        call.say(pcm(1.0))
        assert await call.event() == {"type": "speech.started", "at": 0.5, "at_sample": 8000}
        call.say(pcm(1.0, 0))
        assert await call.event() == {"type": "speech.stopped", "at": 1.5, "at_sample": 24_000}
        call.end()
        done = await call.event()
        assert done["type"] == "speech.done"
        assert done["sample_rate"] == RATE
        assert done["timing"]["audio_duration_ms"] == 2500.0
        [segment] = done["segments"]
        assert (segment["start"], segment["end"]) == (0.5, 1.5)
        assert await call.event() == "[DONE]"


async def test_speakers_are_told_as_they_take_turns(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(DIAR) as world:
        events = await whole(world, pcm(1.0), pcm(1.5), model="diar")
    assert kinds(events) == ["diarization.delta"] * 3 + ["diarization.done", "[DONE]"]
    told = [turn for event in events[:3] for turn in event["speaker_turns"]]
    assert [turn["speaker"] for turn in told] == ["speaker 1", "speaker 2", "speaker 1"]
    assert {event["sample_rate"] for event in events[:4]} == {RATE}
    assert events[3]["speaker_turns"] == told
    assert told[2]["end"] == 2.5
    assert events[3]["timing"]["audio_duration_ms"] == 2500.0


async def test_an_empty_body_is_silence(world: World, autojump_clock: MockClock) -> None:
    events = await whole(world)
    assert kinds(events) == ["transcript.text.done", "[DONE]"]
    assert events[0]["text"] == ""
    assert world.idle()


def speech(events: list[Any]) -> bytes:
    deltas = [event for event in events if event != "[DONE]" and "delta" in event["type"]]
    assert {event["sample_rate"] for event in deltas} == {22_050}
    return b"".join(base64.b64decode(event["audio"]) for event in deltas)


def said(*texts: str) -> bytes:
    """What the simulated family makes of texts that it is given one by one."""
    tones = [tone(Job(task="tts", text=text)).samples for text in texts]
    return np.rint(np.concatenate(tones) * 32768).astype("<i2").tobytes()


async def test_each_sentence_is_spoken_as_soon_as_it_is_written(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world, SPEAK, headers={"content-type": "text/plain; charset=utf-8"})
    for token in ("Größe".encode()[:4], "Größe".encode()[4:], b" is", b" one.", b" And"):
        call.say(token)
    first = await call.event()
    assert first["type"] == "speech.audio.delta"
    assert base64.b64decode(first["audio"]) == said("Größe is one. ")
    assert world.model("voice").active_slots == 1
    call.say(b" more")
    call.end()
    await call.ended.wait()
    events = call.reply.events()
    assert kinds(events) == ["speech.audio.delta"] * 2 + ["speech.audio.done", "[DONE]"]
    assert speech(events) == said("Größe is one. ", "And more")
    timing = events[2]["timing"]
    assert timing["audio_duration_ms"] == pytest.approx(len(speech(events)) / 44.1, abs=0.1)
    assert "ttft_ms" in timing
    assert world.idle()


async def test_a_lot_of_text_at_once_leaves_others_their_turns(
    open_world: OpenWorld, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, taken = 0, list[tuple[int, int]]()
    take = TextPieces.take

    def noted(self: TextPieces, data: bytes) -> Sequence[str]:
        taken.append((len(data), turns))
        return take(self, data)

    async def count(task_status: trio.TaskStatus[None]) -> None:
        nonlocal turns
        task_status.started()
        while len(taken) < 16:
            turns += 1
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(TextPieces, "take", noted)
    text = "A. " * (16 * TEXT_TURN // 3)
    patient = spec(VOICE, live_ingest={"total_timeout_ms": 2**31 - 1})
    async with open_world(patient) as world, trio.open_nursery() as nursery:
        await nursery.start(count)
        events = await whole(world, text.encode(), path=SPEAK)
    assert sum(size for size, _ in taken) == len(text)
    assert max(size for size, _ in taken) <= TEXT_TURN
    assert len({turn for _, turn in taken}) == 16
    assert kinds(events)[-2:] == ["speech.audio.done", "[DONE]"]


@pytest.mark.parametrize(
    "query",
    [{"response_format": "pcm"}, {"stream_format": "audio", "response_format": "pcm"}],
)
async def test_live_speech_comes_as_bare_samples(
    world: World, autojump_clock: MockClock, query: dict[str, Any]
) -> None:
    call = start(world, SPEAK, **query)
    call.say(b"One. Two")
    await call.wait_bytes()
    assert call.reply.headers["content-type"] == "audio/pcm"
    assert call.reply.body == said("One. ")
    call.end()
    await call.ended.wait()
    assert call.reply.body == said("One. ", "Two")
    assert call.reply.complete


async def test_live_speech_comes_as_one_growing_wav(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world, SPEAK, stream_format="audio")
    call.say(b"One. Two")
    call.end()
    await call.ended.wait()
    assert call.reply.headers["content-type"] == "audio/wav"
    samples, rate = heard(call.reply.body)
    assert rate == 22_050
    assert np.rint(samples * 32768).astype("<i2").tobytes() == said("One. ", "Two")


async def test_fields_of_the_address_reach_the_model(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(VOICE) as world:
        query = {"speed": "2", "seed": str(2**63), "voice": "anna", "language": "de"}
        events = await whole(world, b"One.", path=SPEAK, **query)
        alone = tone(Job(task="tts", text="One.", speed=2.0, seed=2**63))
        assert len(speech(events)) == 2 * len(alone.samples)
        events = await whole(world, b"One.", path=SPEAK, options='{"run_ms":250}')
        assert events[-2]["timing"]["wall_ms"] == 500.0


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("model", ["", "nobody"]),
        ("sample_rate", ["999", "384001", "-1", "x", "16000.0"]),
        ("channels", ["0", "17", "two"]),
        ("sample_format", ["s24le", "S16LE"]),
        ("language", ["english!"]),
        ("busy_timeout_ms", ["-1", "soon"]),
        ("seed", ["-1"]),
        ("temperature", ["3"]),
        ("options", ["{", "5"]),
        ("options.nonsense", ['{"nonsense":1}']),
    ],
)
async def test_a_wrong_field_is_refused_before_the_body_is_read(
    world: World, autojump_clock: MockClock, field: str, values: list[str]
) -> None:
    for value in values:
        status, param = await refused(world, **{field.partition(".")[0]: value})
        if value == "nobody":
            assert status == 404
        else:
            assert (status, param) == (400, field)
    assert not world.model("ears").loaded


@pytest.mark.parametrize(
    ("path", "given", "meant"),
    [
        (LISTEN, "samplerate", "did you mean 'sample_rate'?"),
        (LISTEN, "Sample_Rate", "did you mean 'sample_rate'?"),
        (SPEAK, "streamformat", "did you mean 'stream_format'?"),
        (LISTEN, "zzz", "known here: "),
        (SPEAK, "z" * 10_000, "known here: "),
    ],
)
async def test_a_parameter_that_nobody_knows_is_refused_with_the_nearest_or_all_that_there_are(
    world: World, autojump_clock: MockClock, path: str, given: str, meant: str
) -> None:
    call = LiveCall(world, f"{path}?model=ears&{given}=8000", {})
    world.client.open(call)
    call.say(b"x")
    await call.ended.wait()
    error = call.reply.error()
    assert (call.reply.status, error["type"]) == (400, "invalid_request_error")
    assert error["param"][:40] == given[:40]
    assert meant in error["message"]
    if meant.endswith(": "):
        documented = Document({}).operations()[f"POST {path}"]["parameters"]
        known = error["message"].rpartition(meant)[2].split(", ")
        assert known == sorted(parameter["name"] for parameter in documented)
    assert call.unread == 1
    assert world.idle()
    assert not world.model("ears").loaded
    assert not world.model("voice").loaded


@pytest.mark.parametrize("query", ["samplerate", "samplerate=", "=8000", f"{'x' * 5000}=1"])
async def test_an_unknown_parameter_is_refused_without_a_value_and_however_long_it_is(
    world: World, autojump_clock: MockClock, query: str
) -> None:
    call = LiveCall(world, f"{LISTEN}?model=ears&{query}", {})
    world.client.open(call)
    await call.ended.wait()
    error = call.reply.error()
    assert call.reply.status == 400
    assert error["param"][:50] == query.partition("=")[0][:50]
    assert len(error["message"]) < 400


async def test_a_model_for_something_else_is_refused(
    world: World, autojump_clock: MockClock
) -> None:
    assert await refused(world, LISTEN, model="voice") == (400, "model")
    assert await refused(world, SPEAK, model="ears") == (400, "model")


async def test_a_model_without_live_input_is_refused_with_what_would_do(
    open_scripted: OpenWorld,
) -> None:
    family = ScriptedFamily(lambda _: Result(text="x"))
    async with open_scripted(family, EARS) as world:
        call = start(world)
        await call.ended.wait()
        error = call.reply.error()
        assert (call.reply.status, error["param"]) == (400, "model")
        assert "/v1/audio/transcriptions" in error["message"]
        assert world.idle()


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        (LISTEN, "multipart/form-data; boundary=x", 415),
        (LISTEN, "application/json", 415),
        (LISTEN, "text/plain", 415),
        (SPEAK, "application/json", 415),
        (SPEAK, "text/plain; charset=latin-1", 415),
        (SPEAK, "audio/pcm", 400),
        (SPEAK, "application/octet-stream", 400),
    ],
)
async def test_a_body_of_another_kind_is_refused(
    world: World, autojump_clock: MockClock, path: str, kind: str, status: int
) -> None:
    call = start(world, path, headers={"content-type": kind})
    await call.ended.wait()
    assert call.reply.status == status
    if status == 400:
        assert "speech into speech" in call.reply.error()["message"]


@pytest.mark.parametrize(
    "kind", ["audio/L16;rate=16000", "audio/pcm", "application/octet-stream", ""]
)
async def test_samples_may_say_what_they_are(
    world: World, autojump_clock: MockClock, kind: str
) -> None:
    call = start(world, headers={"content-type": kind})
    call.end()
    await call.ended.wait()
    assert call.reply.status == 200


async def test_a_load_that_fails_is_a_plain_error(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, load_options={"fail_loads": 1})) as world:
        call = start(world)
        call.say(pcm())
        await call.ended.wait()
        assert call.reply.status == 500
        assert call.reply.error()["type"] == "server_error"
        assert call.unread == 1
        assert kinds(await whole(world, pcm()))[-1] == "[DONE]"


@pytest.mark.parametrize("options", [{"fail_prepares": 1}])
async def test_a_job_that_cannot_begin_is_a_plain_error(
    open_world: OpenWorld, autojump_clock: MockClock, options: dict[str, int]
) -> None:
    async with open_world(spec(EARS, session_options=options)) as world:
        call = start(world)
        call.say(pcm())
        await call.ended.wait()
        assert call.reply.status == 500
        assert call.unread == 1
        assert world.idle()
