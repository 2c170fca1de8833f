"""How live requests end otherwise than well: by a failure, by their client, or by the server."""

import logging

import numpy as np
import pytest
import trio
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import Mute, MuteFamily
from tests.http.live import SPEAK, failed, kinds, pcm, refused, start, whole
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.engines import Audio, Result, StreamEvent
from paraudio.spec import ModelSpec


async def test_a_frame_that_is_cut_at_the_end_is_an_error(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world, channels=2)
    call.say(pcm(2.0)[:-1])
    call.end()
    error = await failed(world, call)
    assert error["param"] == "sample_format"
    assert "3 of the 4 bytes" in error["message"]


@pytest.mark.parametrize(("body", "part"), [(b"One. caf\xe9 ", "byte 8"), (b" \n", "input")])
async def test_a_text_that_cannot_be_spoken_is_an_error(
    world: World, autojump_clock: MockClock, body: bytes, part: str
) -> None:
    call = start(world, SPEAK)
    call.say(body)
    call.end()
    error = await failed(world, call)
    assert (error["type"], error["param"]) == ("invalid_request_error", "input")
    assert part in error["message"] or part == error["param"]


@pytest.mark.parametrize("theirs", [True, False])
async def test_bare_sound_that_fails_is_cut_off(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, *, theirs: bool
) -> None:
    """What its client got wrong is no error of the server's; what a model got wrong is."""
    caplog.set_level(logging.INFO)
    options = "{}" if theirs else '{"fail":true}'
    call = start(world, SPEAK, response_format="pcm", options=options)
    call.say(b"One. \xff" if theirs else b"One. ")
    call.end()
    await call.ended.wait()
    assert call.reply.status == 200
    assert not call.reply.complete
    assert any(record.levelname == "ERROR" for record in caplog.records) != theirs
    request = call.reply.headers["x-request-id"]
    assert f"request {request} was cut off: " in caplog.text
    assert world.idle()


async def test_a_model_that_fails_is_the_last_event(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, session_options={"fail_runs": 1})) as world:
        call = start(world)
        call.say(pcm())
        call.end()
        assert (await failed(world, call))["type"] == "server_error"
        assert kinds(await whole(world, pcm()))[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ((), "server_error"),
        ((StreamEvent(result=Result(text="One.")),), "invalid_request_error"),
        (
            (StreamEvent(result=Result(audio=Audio(np.empty(0, np.float32), 8000))),),
            "invalid_request_error",
        ),
    ],
)
async def test_silence_in_the_place_of_speech_is_no_success(
    open_scripted: OpenWorld,
    monkeypatch: pytest.MonkeyPatch,
    ends: tuple[StreamEvent, ...],
    kind: str,
) -> None:
    monkeypatch.setattr(Mute, "ends", ends)
    async with open_scripted(MuteFamily(lambda _: Result()), VOICE) as world:
        call = start(world, SPEAK)
        call.say(b"One. ")
        call.end()
        assert (await failed(world, call))["type"] == kind


async def test_what_a_model_says_of_a_field_is_said_in_the_words_of_the_route(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(MuteFamily(lambda _: Result()), VOICE) as world:
        assert await refused(world, SPEAK, voice="hoarse") == (400, "voice")


@pytest.mark.parametrize("moment", ["reading", "feeding", "finishing"])
@pytest.mark.contract("time/disconnect_active_stream")
async def test_a_client_that_leaves_frees_its_slot_whatever_is_waited_for(
    open_world: OpenWorld, autojump_clock: MockClock, moment: str
) -> None:
    async with open_world(spec(EARS, session_options={"run_ms": 1000})) as world:
        call = start(world)
        call.say(pcm())
        if moment == "feeding":
            await call.head()
        else:
            await call.wait_bytes()
        if moment == "finishing":
            call.end()
        await wait_all_tasks_blocked()
        follower = start(world, options='{"run_ms":0}')
        follower.say(pcm(2.0))
        follower.end()
        await world.wait_until(lambda: world.model("ears").queued_requests == 1)
        began = trio.current_time()
        call.hang_up()
        await call.ended.wait()
        assert not call.reply.complete
        await follower.ended.wait()
        assert trio.current_time() - began < 0.1
        assert follower.reply.events()[-2]["text"] == "word1 word2"
        assert world.idle()


@pytest.mark.parametrize("moment", ["reading", "queued"])
async def test_a_live_request_is_cancelled_by_its_id(
    open_world: OpenWorld, autojump_clock: MockClock, moment: str
) -> None:
    async with open_world(EARS) as world:
        first = start(world, headers={"x-request-id": "first"})
        await first.head()
        listed = (await world.client.get("/v1/requests")).json()["data"]
        [one] = [each for each in listed if each["id"] == "first"]
        assert (one["phase"], one["model"], one["slot"]) == ("streaming", "ears", 0)
        call, name = first, "first"
        if moment == "queued":
            call, name = start(world, headers={"x-request-id": "second"}), "second"
            await world.wait_until(lambda: world.model("ears").queued_requests == 1)
        reply = await world.client.call("DELETE", f"/v1/requests/{name}")
        assert reply.json() == {"id": name, "cancelled": True, "ended": True}
        await call.ended.wait()
        if moment == "queued":
            assert call.reply.status == 499
            first.end()
            await first.ended.wait()
        else:
            assert call.reply.events()[-1]["error"]["code"] == "request_cancelled"
        assert world.idle()


async def test_a_drain_lets_a_live_stream_come_to_its_end(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world)
    call.say(pcm())
    await call.wait_bytes()
    world.runtime.drain()
    late = start(world)
    await late.ended.wait()
    assert late.reply.error()["code"] == "shutting_down"
    call.say(pcm())
    call.end()
    await call.ended.wait()
    assert call.reply.events()[-2]["text"] == "word1 word2"


async def test_stopping_cuts_a_live_stream_off(world: World, autojump_clock: MockClock) -> None:
    call = start(world)
    call.say(pcm())
    await call.wait_bytes()
    world.runtime.stop()
    await call.ended.wait()
    assert not call.reply.complete
    assert b"done" not in call.reply.body


async def test_an_answer_that_is_never_begun_holds_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    call = start(world)
    call.refuse_start = True
    await call.ended.wait()
    assert call.reply.status == 0
    assert world.idle()


async def test_sound_is_never_logged(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    models: tuple[ModelSpec, ...] = (VOICE, EARS)
    async with open_world(*models, settings={"log_request_body": True}) as world:
        await whole(world, b"secretsecret" * 4)
        await whole(world, b"secret words.", path=SPEAK)
    assert "secret" not in caplog.text
