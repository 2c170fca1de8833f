"""``POST /v1/audio/speech``: every format, every field, every refusal."""

import base64
from typing import Any

import numpy as np
import pytest
import trio
from tests.http.client import Reply, form
from tests.http.conftest import OpenWorld, World, spec
from tests.http.sounds import heard, sound_file
from trio.testing import MockClock

from paraudio.audio import FORMATS, content_type, decode
from paraudio.engines import Audio, Job, Voice
from paraudio.engines.families._simulated_sound import tone

SPEECH = "/v1/audio/speech"


async def speak(world: World, **fields: Any) -> Reply:
    body = {"model": "voice", "input": "hello there", **fields}
    return await world.client.post(SPEECH, {k: v for k, v in body.items() if v is not ...})


def pcm(audio: Audio) -> bytes:
    return np.rint(audio.samples * 32768).astype("<i2").tobytes()


def spoken(text: str, **asked: Any) -> bytes:
    """What the simulated family makes of a text."""
    return pcm(tone(Job(task="tts", text=text, **asked)))


async def test_wav_is_the_default_and_plays(world: World, autojump_clock: MockClock) -> None:
    reply = await speak(world)
    assert reply.status == 200
    assert reply.headers["content-type"] == "audio/wav"
    assert reply.headers["content-length"] == str(len(reply.body))
    samples, rate = heard(reply.body)
    assert rate == 22_050
    assert np.rint(samples * 32768).astype("<i2").tobytes() == spoken("hello there")
    assert reply.headers["x-paraudio-sample-rate"] == "22050"
    assert world.idle()


async def test_pcm_is_the_bare_samples(world: World, autojump_clock: MockClock) -> None:
    reply = await speak(world, response_format="pcm")
    assert reply.headers["content-type"] == "audio/pcm"
    assert reply.body == spoken("hello there")


async def test_json_holds_a_wav_and_the_timing(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 110})) as world:
        body = (await speak(world, response_format="json")).json()
    samples, rate = heard(base64.b64decode(body["audio"]))
    assert (body["format"], body["sample_rate"], rate) == ("wav", 22_050, 22_050)
    assert len(samples) == 0.44 * 22_050
    assert body["timing"] == {"wall_ms": 110.0, "audio_duration_ms": 440.0, "rtf": 0.25}


async def test_timing_headers_say_how_long_the_work_took(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(session_options={"run_ms": 110}, load_options={"load_ms": 5000})
    async with open_world(slow) as world:
        headers = (await speak(world)).headers
    assert headers["x-paraudio-wall-ms"] == "110.0"
    assert headers["x-paraudio-audio-duration-ms"] == "440.0"
    assert headers["x-paraudio-rtf"] == "0.2500"


async def test_the_configuration_says_the_default_format(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"default_response_format": "pcm"}) as world:
        assert (await speak(world)).headers["content-type"] == "audio/pcm"
        assert (await speak(world, response_format="wav")).headers["content-type"] == "audio/wav"


async def test_a_long_sound_is_encoded_off_the_loop(
    world: World, autojump_clock: MockClock
) -> None:
    text = "a" * 400
    reply = await speak(world, input=text, response_format="pcm")
    assert reply.body == spoken(text)


@pytest.mark.parametrize("kind", FORMATS)
async def test_every_format_comes_with_its_content_type(
    world: World, autojump_clock: MockClock, kind: str
) -> None:
    reply = await speak(world, response_format=kind)
    assert reply.headers["content-type"] == content_type(kind)
    if kind != "pcm":
        assert decode(reply.body).seconds == pytest.approx(0.44, abs=0.15)


@pytest.mark.parametrize("kind", ["WAV", "ogg", "m4a", "", 5, "../wav"])
async def test_a_format_that_is_not_made_is_refused_with_those_that_are(
    world: World, autojump_clock: MockClock, kind: object
) -> None:
    reply = await speak(world, response_format=kind)
    error = reply.error()
    assert reply.status == 400
    assert error["param"] == "response_format"
    assert "one of wav, mp3, flac, opus, aac, pcm, json" in error["message"]
    assert not world.model().loaded


async def test_speed_is_honoured(world: World, autojump_clock: MockClock) -> None:
    fast = await speak(world, speed=2, response_format="pcm")
    assert fast.body == spoken("hello there", speed=2.0)
    assert len(fast.body) * 2 == pytest.approx(len(spoken("hello there")), abs=4)


@pytest.mark.parametrize("speed", [0, 0.2, 4.1, -1, "1", True, [1]])
async def test_a_speed_that_nobody_speaks_at_is_refused(
    world: World, autojump_clock: MockClock, speed: object
) -> None:
    reply = await speak(world, speed=speed)
    assert (reply.status, reply.error()["param"]) == (400, "speed")


@pytest.mark.parametrize(
    "seed", [0, 2**53, 2**53 + 1, 2**64 - 1, "0", str(2**53 + 1), str(2**64 - 1)]
)
async def test_a_seed_reaches_the_model_exactly(
    world: World, autojump_clock: MockClock, seed: int | str
) -> None:
    reply = await speak(world, seed=seed, response_format="pcm")
    assert reply.body == spoken("hello there", seed=int(seed))


@pytest.mark.parametrize("seed", [-1, "abc", 1.5, 2**64, "", True])
async def test_a_seed_that_is_none_is_refused(
    world: World, autojump_clock: MockClock, seed: object
) -> None:
    reply = await speak(world, seed=seed)
    assert (reply.status, reply.error()["param"]) == (400, "seed")


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t \n", "\x00\x01\x07", "\u200b\u200b", None, 5, ["a"], {"a": 1}]
)
async def test_input_without_anything_to_speak_is_refused(
    world: World, autojump_clock: MockClock, text: object
) -> None:
    reply = await speak(world, input=text)
    assert (reply.status, reply.error()["param"]) == (400, "input")
    assert not world.model().loaded
    assert world.idle()


@pytest.mark.parametrize(
    "text",
    [
        "\N{GRINNING FACE}",
        "a\x07b",
        "one\ntwo\r\nthree",
        "<speak>" + '<break time="1s"/>' * 280 + "</speak>",
        "x" * 20_000,
        "größe 音声",
    ],
)
async def test_any_other_text_is_spoken_whole(
    world: World, autojump_clock: MockClock, text: str
) -> None:
    reply = await speak(world, input=text, response_format="pcm")
    assert reply.status == 200
    assert reply.body == spoken(text)


async def test_a_megabyte_of_text_arrives(world: World, autojump_clock: MockClock) -> None:
    text = "word " * 200_000
    reply = await speak(world, input=text, response_format="pcm")
    assert reply.body == spoken(text)


@pytest.mark.parametrize("language", ["", None, "en", "en-US", "en_US", "auto", "zh-Hant-TW", ...])
async def test_languages_in_any_form_are_taken(
    world: World, autojump_clock: MockClock, language: object
) -> None:
    assert (await speak(world, language=language)).status == 200


@pytest.mark.parametrize("language", ["e", "english!", "../en", "en\x00", 5])
async def test_what_is_no_language_tag_is_refused(
    world: World, autojump_clock: MockClock, language: object
) -> None:
    reply = await speak(world, language=language)
    assert (reply.status, reply.error()["param"]) == (400, "language")


async def test_unknown_fields_are_ignored(world: World, autojump_clock: MockClock) -> None:
    assert (await speak(world, user="me", future={"a": 1}, temperature=0.3)).status == 200


async def test_unknown_options_are_named(world: World, autojump_clock: MockClock) -> None:
    reply = await speak(world, options={"noise": 1})
    assert (reply.status, reply.error()["param"]) == (400, "options.noise")
    assert "run_ms" in reply.error()["message"]
    reply = await speak(world, options={"run_ms": "slow"})
    assert (reply.status, reply.error()["param"]) == (400, "options.run_ms")
    assert (await speak(world, options=[1])).error()["param"] == "options"
    assert not world.model().loaded


async def test_the_models_default_options_lie_under_the_requests_own(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(default_request_options={"run_ms": 1000})) as world:
        assert (await speak(world)).headers["x-paraudio-wall-ms"] == "1000.0"
        reply = await speak(world, options={"run_ms": 250})
        assert reply.headers["x-paraudio-wall-ms"] == "250.0"
        reply = await speak(world, options={"run_ms": None})
        assert reply.headers["x-paraudio-wall-ms"] == "0.0"


async def test_a_model_for_another_task_is_refused(world: World, autojump_clock: MockClock) -> None:
    reply = await speak(world, model="ears")
    assert (reply.status, reply.error()["param"]) == (400, "model")
    assert "tts" in reply.error()["message"]
    assert not world.model("ears").loaded
    assert world.idle()


async def test_an_unknown_model_is_404(world: World, autojump_clock: MockClock) -> None:
    reply = await speak(world, model="nobody")
    assert reply.status == 404
    assert reply.error()["code"] == "model_not_found"
    assert "nobody" in reply.error()["message"]


@pytest.mark.parametrize("model", [..., None, "", "  ", 5, ["voice"]])
async def test_a_missing_model_names_the_field(
    world: World, autojump_clock: MockClock, model: object
) -> None:
    reply = await speak(world, model=model)
    assert (reply.status, reply.error()["param"]) == (400, "model")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/x-www-form-urlencoded",
        "",
        "text/plain",
        "application/vnd.x+json; charset=utf-8",
    ],
)
async def test_curl_without_a_content_type_of_its_own_is_understood(
    world: World, autojump_clock: MockClock, content_type: str
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    reply = await world.client.post(SPEECH, b'{"model":"voice","input":"a"}', headers)
    assert reply.status == 200


@pytest.mark.parametrize(
    "content_type", ["audio/wav", "multipart/form-data; boundary=x", "application/octet-stream"]
)
async def test_other_content_types_are_415(
    world: World, autojump_clock: MockClock, content_type: str
) -> None:
    reply = await world.client.post(SPEECH, b"{}", {"content-type": content_type})
    assert reply.status == 415
    assert reply.error()["type"] == "invalid_request_error"


@pytest.mark.parametrize("encoding", ["gzip", "br", "x-unknown", "gzip, identity", "GZIP"])
@pytest.mark.parametrize("route", [SPEECH, "/v1/audio/transcriptions"])
async def test_a_packed_body_is_415_with_what_would_do(
    world: World, autojump_clock: MockClock, encoding: str, route: str
) -> None:
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", sound_file()))
    if route == SPEECH:
        body, headers = b'{"model":"voice","input":"a"}', {"content-type": "application/json"}
    reply = await world.client.post(route, body, {**headers, "content-encoding": encoding})
    assert reply.status == 415
    assert "send it as it is" in reply.error()["message"]
    reply = await world.client.post(route, body, {**headers, "content-encoding": "identity"})
    assert reply.status == 200
    assert world.idle()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b'"a"',
        b'{"model": "voice", "model": 1}',
        b"\xff\xfe",
        b'{"input": NaN}',
        b"{" * 100_000,
    ],
)
async def test_a_body_that_is_no_object_is_400(
    world: World, autojump_clock: MockClock, body: bytes
) -> None:
    reply = await world.client.post(SPEECH, body, {"content-type": "application/json"})
    assert reply.status == 400
    assert reply.error()["type"] == "invalid_request_error"


async def test_a_body_over_the_bound_is_413_without_reading_it_all(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"max_request_body_bytes": 1000}) as world:
        assert (await speak(world)).status == 200
        declared = await speak(world, input="a" * 1000)
        assert (declared.status, declared.error()["type"]) == (413, "invalid_request_error")
        call = world.client.start(
            "POST",
            SPEECH,
            b"x" * 5000,
            {"transfer-encoding": "chunked"},
            chunk=100,
        )
        await call.ended.wait()
        assert call.reply.status == 413
        assert call.unread == 39


async def test_requests_at_once_give_what_each_gives_alone(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    asked = [
        {
            "input": f"text {n}",
            "voice": f"v{n % 3}",
            "seed": n * 7,
            "response_format": "pcm",
            "options": {"run_ms": 100 - n},
        }
        for n in range(16)
    ]
    async with open_world(spec(slots=4)) as world:
        calls = [world.client.start("POST", SPEECH, {"model": "voice", **one}) for one in asked]
        for call in calls:
            await call.ended.wait()
        together = [call.reply.body for call in calls]
        alone = [(await speak(world, **one)).body for one in asked]
        expected = [spoken(f"text {n}", voice=Voice(f"v{n % 3}"), seed=n * 7) for n in range(16)]
        assert together == alone == expected
        assert world.idle()


@pytest.mark.contract("fail/load_failure_after_commit", "fail/initial_load_loader_failure")
@pytest.mark.parametrize("stream", [{}, {"stream_format": "sse"}, {"stream_format": "audio"}])
async def test_a_failed_load_is_a_plain_500_and_the_next_request_retries(
    open_world: OpenWorld, autojump_clock: MockClock, stream: dict[str, str]
) -> None:
    async with open_world(spec(load_options={"fail_loads": 1})) as world:
        reply = await speak(world, **stream)
        assert reply.status == 500
        assert reply.headers["content-type"] == "application/json"
        assert reply.error()["type"] == "server_error"
        assert world.idle()
        assert (await speak(world, **stream)).status == 200


@pytest.mark.contract("fail/preparation_failure", "fail/execution_failure")
@pytest.mark.parametrize("option", ["fail_runs", "fail_prepares"])
async def test_a_failed_run_is_a_500_and_frees_the_slot(
    open_world: OpenWorld, autojump_clock: MockClock, option: str
) -> None:
    async with open_world(spec(session_options={option: 1})) as world:
        reply = await speak(world)
        assert (reply.status, reply.error()["type"]) == (500, "server_error")
        assert "Traceback" not in reply.body.decode()
        assert world.idle()
        assert (await speak(world)).status == 200


async def test_a_request_can_shorten_its_own_wait(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 60_000})) as world:
        first = world.client.start("POST", SPEECH, {"model": "voice", "input": "a"})
        await world.wait_until(lambda: world.model().active_slots == 1)
        began = trio.current_time()
        reply = await speak(world, busy_timeout_ms=500)
        assert trio.current_time() - began == pytest.approx(0.5)
        assert (reply.status, reply.error()["code"]) == (503, "server_busy")
        assert int(reply.headers["retry-after"]) >= 1
        await first.ended.wait()
        assert first.reply.status == 200
        assert world.idle()


@pytest.mark.parametrize("bound", [-1, 1.5, "100", True])
async def test_a_bound_that_is_none_is_refused(
    world: World, autojump_clock: MockClock, bound: object
) -> None:
    reply = await speak(world, busy_timeout_ms=bound)
    assert (reply.status, reply.error()["param"]) == (400, "busy_timeout_ms")


@pytest.mark.contract("beyond/g07_queue_bound")
async def test_a_full_queue_is_a_503_of_its_own(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(session_options={"run_ms": 1000}, max_queued_requests=1)) as world:
        calls = [
            world.client.start("POST", SPEECH, {"model": "voice", "input": "a"}) for _ in range(2)
        ]
        await world.wait_until(lambda: world.model().queued_requests == 1)
        reply = await speak(world)
        assert (reply.status, reply.error()["code"]) == (503, "queue_full")
        assert "retry-after" in reply.headers
        for call in calls:
            await call.ended.wait()
            assert call.reply.status == 200


async def test_a_draining_server_takes_no_new_work(world: World, autojump_clock: MockClock) -> None:
    world.runtime.drain()
    reply = await speak(world)
    assert (reply.status, reply.error()["code"]) == (503, "shutting_down")
    assert "retry-after" in reply.headers


async def test_too_little_memory_is_a_503_of_its_own(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(
        spec(load_options={"memory_mb": 2**20}), runtime={"min_free_memory_mb": 1}
    ) as world:
        reply = await speak(world)
        assert (reply.status, reply.error()["code"]) == (503, "insufficient_memory")
        assert "retry-after" in reply.headers
        assert world.idle()


async def test_more_slots_than_the_model_allows_is_a_400(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(slots=4, load_options={"capacity": 2})) as world:
        reply = await speak(world)
        assert (reply.status, reply.error()["param"]) == (400, "slots")
        assert world.idle()
