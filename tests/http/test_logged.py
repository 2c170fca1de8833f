"""What stands in the log of what clients send: words, and no sound, in whatever way it came."""

import base64
import json
import logging
import re
from typing import Any

import pytest
import trio
from tests.http import realtimekit
from tests.http.client import form
from tests.http.conftest import OpenWorld
from tests.http.live import LISTEN, pcm, whole
from tests.http.sounds import sound_file
from trio.testing import MockClock

from paraudio.http._logged import shown_body

SHORT = base64.b64encode(bytes(range(200))).decode()
"""Base64 of 268 characters: shorter than some texts."""


@pytest.mark.parametrize(
    "body",
    [
        {"audio_base64": SHORT},
        {"audio": SHORT},
        {"audio": {"type": "base64", "content": SHORT}},
        {"audio": [SHORT, SHORT]},
        {"voice_ref": {"type": "base64", "data": SHORT[:60]}},
        {"voice_ref": {"kind": SHORT[:60]}},
        {"request": {"audio": {"wav": SHORT[:60]}}},
        {"unknown": SHORT},
        {"unknown": f"data:audio/wav;base64,{SHORT[:60]}"},
        {"unknown": f"  DATA:audio/wav;base64,{SHORT[:60]}"},
        {"text": f"before {SHORT} behind"},
        {"unknown": SHORT.replace("+", "-").replace("/", "_")},
        [{"audio": SHORT}],
    ],
    ids=lambda body: json.dumps(body)[:40],
)
def test_sound_is_not_shown_whatever_it_is_called(body: Any) -> None:
    assert SHORT[20:40] not in shown_body(body)
    assert "characters>" in shown_body(body)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "ears", "input": "A sentence that somebody wrote, and a long one. " * 10},
        {"voice_ref": {"type": "path", "path": "/voices/a.wav"}},
        {
            "input": "données, 日本語です, \u202e",
            "seed": 2**60,
            "options": {"a": [1.5, None, True]},
        },
        {"path": "/a/very/long/path/" + "of/folders/" * 12},
    ],
    ids=lambda body: json.dumps(body)[:40],
)
def test_words_and_numbers_are_shown_as_they_are(body: Any) -> None:
    assert json.loads(shown_body(body)) == body


async def test_nothing_of_a_sound_is_logged_on_any_way_in(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sound = sound_file()
    async with open_world(settings={"log_request_body": True}) as world:
        parts = (("model", None, b"ears"), ("file", "secret-name.wav", sound))
        upload, headers = form(*parts, ("prompt", None, b"a secret prompt"))
        post = world.client.post
        assert (await post("/v1/audio/transcriptions", upload, headers)).status == 200
        assert (await post("/v1/audio/transcriptions", upload[:-400], headers)).status == 400
        await whole(world, pcm(0.2), pcm(0.2), path=LISTEN, prompt="secret")
        encoded = base64.b64encode(sound).decode()
        for body in (
            {"model": "ears", "audio_base64": encoded},
            {"model": "ears", "audio": encoded},
            {"model": "voice", "input": "a", "voice_ref": {"type": "base64", "data": encoded}},
            {"model": "voice", "input": "a", "voice_ref": encoded},
        ):
            await post("/v1/tasks/run", body)
            await post("/v1/audio/speech", body)
        async with trio.open_nursery() as nursery:
            socket = await realtimekit.connect(world.client.app, nursery)
            socket.say("input_audio_buffer.append", audio=encoded[:4000])
            socket.say("input_audio_buffer.append", audio="!" + encoded[:400])
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert "secret" not in caplog.text
    assert repr(pcm(0.2)[:20])[2:-1] not in caplog.text
    pieces = {encoded[at : at + 24] for at in range(0, 4000, 12)}
    shown = [piece for piece in pieces if piece in caplog.text]
    assert shown == []


async def test_each_line_about_a_request_has_its_id(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_world(settings={"log_request_body": True}) as world:
        headers = {"x-request-id": "the-one"}
        post = world.client.post
        await post("/v1/audio/speech", {"model": "voice", "input": "a"}, headers)
        await post("/v1/audio/speech", {"model": "voice", "input": ""}, headers)
        await post("/v1/audio/speech", b"{", headers)
        await whole(world, pcm(0.2), path=LISTEN)
    lines = [record.getMessage() for record in caplog.records if "paraudio" in record.name]
    assert len([line for line in lines if "the-one" in line]) >= 6
    told = [line for line in lines if line.startswith("request")]
    assert all(re.match(r"request (id=)?[\w-]{7,}\b", line) for line in told)
