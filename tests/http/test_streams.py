"""Streamed answers: what they look like, how they end, and who holds what meanwhile."""

import base64
from typing import Any

import numpy as np
import pytest
import trio
from tests.http.client import Call
from tests.http.conftest import OpenWorld, World, spec
from tests.http.sounds import heard
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.engines import Job
from paraudio.engines.families._simulated_sound import tone
from paraudio.journal import Kind

SPEECH = "/v1/audio/speech"
CHUNKED = {"run_ms": 1000, "chunks": 4}


def start(world: World, text: str = "hello there", **fields: Any) -> Call:
    body = {"model": "voice", "input": text, "stream_format": "sse", **fields}
    return world.client.start("POST", SPEECH, body)


def samples(text: str) -> bytes:
    audio = tone(Job(task="tts", text=text))
    return np.rint(audio.samples * 32768).astype("<i2").tobytes()


async def test_speech_streams_as_openai_events(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world)
        await call.ended.wait()
        events = call.reply.events()
        assert world.idle()
    assert call.reply.headers["cache-control"] == "no-cache"
    assert call.reply.headers["x-accel-buffering"] == "no"
    assert [event["type"] for event in events[:-1]] == ["speech.audio.delta"] * 4 + [
        "speech.audio.done"
    ]
    assert events[-1] == "[DONE]"
    sound = b"".join(base64.b64decode(event["audio"]) for event in events[:4])
    assert sound == samples("hello there")
    assert {event["sample_rate"] for event in events[:4]} == {22_050}
    timing = events[4]["timing"]
    assert timing["ttft_ms"] == 250.0
    assert timing["wall_ms"] == 1000.0
    assert timing["audio_duration_ms"] == 440.0


async def test_what_a_stream_took_is_its_work_and_no_load_wait_or_slow_reader(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(load_options={"load_ms": 3000}, session_options=CHUNKED)
    async with open_world(slow) as world:
        first = start(world)
        await world.wait_until(lambda: world.model().active_slots == 1)
        call = start(world)
        call.take(1)
        await first.ended.wait()
        await call.wait_bytes()
        await trio.sleep(60)
        call.take()
        await call.ended.wait()
        timing = call.reply.events()[-2]["timing"]
        assert timing["wall_ms"] == 1000.0
        assert timing["ttft_ms"] == 3000.0 + 1000.0 + 250.0
        assert timing["rtf"] == pytest.approx(1000.0 / timing["audio_duration_ms"], abs=1e-3)
        assert world.idle()


async def test_the_plain_stream_flag_means_events(world: World, autojump_clock: MockClock) -> None:
    body = {"model": "voice", "input": "a", "stream": True}
    assert (await world.client.post(SPEECH, body)).events()[-1] == "[DONE]"
    body = {"model": "voice", "input": "a", "stream": False}
    assert (await world.client.post(SPEECH, body)).headers["content-type"] == "audio/wav"


@pytest.mark.parametrize("value", ["websocket", "", 1, True])
async def test_an_unknown_way_to_stream_is_refused(
    world: World, autojump_clock: MockClock, value: object
) -> None:
    reply = await world.client.post(
        SPEECH, {"model": "voice", "input": "a", "stream_format": value}
    )
    assert (reply.status, reply.error()["param"]) == (400, "stream_format")


async def test_a_growing_wav_has_one_header_without_sizes(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, stream_format="audio", response_format="wav")
        await call.ended.wait()
    assert call.reply.headers["content-type"] == "audio/wav"
    assert "content-length" not in call.reply.headers
    body = call.reply.body
    assert body.count(b"RIFF") == body.count(b"data") == 1
    assert body[4:8] == body[40:44] == b"\xff\xff\xff\xff"
    assert body[44:] == samples("hello there")
    assert len(heard(body)[0]) * 2 == len(body) - 44


async def test_growing_pcm_is_bare_samples(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, stream_format="audio", response_format="pcm")
        await call.ended.wait()
        assert call.reply.body == samples("hello there")
        # Nothing else could tell a player what they are.
        assert call.reply.headers["x-paraudio-sample-rate"] == "22050"


async def test_each_piece_is_sent_when_it_is_made(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        gate = world.gates.hold("chunk")
        call = start(world)
        for count in range(1, 4):
            await gate.wait_held()
            gate.release()
            await gate.wait_held()
            await wait_all_tasks_blocked()
            assert call.reply.body.count(b"speech.audio.delta") == count
        gate.open()
        await call.ended.wait()


async def test_a_slow_reader_slows_the_model_down(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"chunks": 50})) as world:
        call = start(world, "a" * 100)
        call.take(1)
        await call.wait_bytes(1)
        await wait_all_tasks_blocked()
        pulled = world.gates.count("chunk")
        assert pulled < 5
        assert world.model().active_slots == 1
        call.take()
        await call.ended.wait()
        assert len(call.reply.events()) == 52


async def test_a_failure_before_the_first_piece_is_a_plain_error(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"fail_prepares": 1})) as world:
        call = start(world)
        await call.ended.wait()
        assert call.reply.status == 500
        assert call.reply.error()["type"] == "server_error"
        assert world.idle()


async def test_a_failure_in_a_begun_stream_is_its_last_event(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, options={"fail": True})
        await call.ended.wait()
        events = call.reply.events()
        assert call.reply.status == 200
        assert call.reply.complete
        assert [event["type"] for event in events] == ["speech.audio.delta"] * 4 + ["error"]
        assert set(events[-1]["error"]) == {"message", "type", "code", "param"}
        assert events[-1]["error"]["type"] == "server_error"
        assert world.idle()


async def test_a_failure_in_begun_sound_cuts_it_off(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The client cannot be told any more, so the log names its request, with what was raised."""
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, stream_format="audio", options={"fail": True})
        await call.ended.wait()
        assert call.reply.status == 200
        assert not call.reply.complete
        assert world.idle()
    request = call.reply.headers["x-request-id"]
    (failed,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert failed.getMessage() == f"request {request} failed"
    assert failed.exc_info is not None


@pytest.mark.contract("phase/active_stream_or_batch")
async def test_a_stream_holds_its_slot_to_its_end(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world)
        await call.wait_bytes()
        assert world.model().active_slots == 1
        unload = world.client.start("POST", "/v1/tasks/unload_models", {"model_ids": ["voice"]})
        await world.wait_until(lambda: world.model().queued_managers == 1)
        await call.ended.wait()
        await unload.ended.wait()
        assert unload.reply.json() == {"unloaded": ["voice"], "not_found": []}
        assert world.idle()
        [released] = [e for e in world.kinds(Kind.RELEASED) if e.facts["ticket"] == 1]
        assert released.at == pytest.approx(world.events[0].at + 1, abs=0.01)


@pytest.mark.contract("time/disconnect_active_stream")
async def test_an_abandoned_stream_leaves_nothing_to_the_next_request(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world, "the first text")
        await call.wait_bytes()
        follower = start(world, "the second text")
        await world.wait_until(lambda: world.model().queued_requests == 1)
        began = trio.current_time()
        call.hang_up()
        await call.ended.wait()
        assert not call.reply.complete
        await follower.ended.wait()
        assert trio.current_time() - began == pytest.approx(1.0)
        events = follower.reply.events()
        sound = b"".join(base64.b64decode(event["audio"]) for event in events[:-2])
        assert sound == samples("the second text")
        points = [arrival.point for arrival in world.gates.arrivals]
        assert points.index("restore") < points.index("run", points.index("run") + 1)
        assert world.idle()


@pytest.mark.contract("time/abandon_unstarted_response")
async def test_an_answer_that_is_never_begun_holds_nothing(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world)
        call.refuse_start = True
        await call.ended.wait()
        assert call.reply.status == 0
        assert world.idle()
        again = start(world)
        await again.ended.wait()
        assert again.reply.events()[-1] == "[DONE]"


async def test_stopping_ends_a_stream(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with open_world(spec(session_options=CHUNKED)) as world:
        call = start(world)
        await call.wait_bytes()
        world.runtime.stop()
        await call.ended.wait()
        assert not call.reply.complete
        assert b"[DONE]" not in call.reply.body


async def test_two_streams_of_one_model_do_not_mix(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(slots=2, session_options=CHUNKED)) as world:
        calls = {text: start(world, text) for text in ("a first text", "another text, longer")}
        for text, call in calls.items():
            await call.ended.wait()
            events = call.reply.events()[:-2]
            assert b"".join(base64.b64decode(e["audio"]) for e in events) == samples(text)
