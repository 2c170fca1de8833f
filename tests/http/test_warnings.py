"""What a model has to say of a job that it did reaches the client and the log."""

import base64
import logging
from typing import Any

import pytest
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.family import Mute, MuteFamily, ScriptedFamily
from tests.http.live import SPEAK, whole
from tests.http.sounds import RATE, sound_file, tone

from paraudio.engines import Audio, Result, StreamEvent

TOLD = "input has Cyrillic letters,\r\nwhich \N{EM DASH} this voice only names"
LINE = "input has Cyrillic letters, which ? this voice only names"


def speaking(*warnings: object) -> ScriptedFamily:
    artifacts: dict[str, Any] = {"warnings": list(warnings)} if warnings else {}
    sound = Audio(tone(0.1), RATE)
    return ScriptedFamily(lambda _: Result(audio=sound, text="a", artifacts=artifacts))


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/audio/speech", {"input": "a"}),
        ("/v1/audio/speech", {"input": "a", "response_format": "json"}),
        ("/v1/audio/speech", {"input": "a", "response_format": "mp3"}),
        ("/v1/tasks/run", {"text": "a"}),
        ("/v1/tasks/stream", {"text": "a"}),
    ],
)
async def test_a_whole_answer_has_them_in_a_header(
    open_scripted: OpenWorld,
    caplog: pytest.LogCaptureFixture,
    path: str,
    fields: dict[str, Any],
) -> None:
    async with open_scripted(speaking(TOLD), spec()) as world:
        headers = {"x-request-id": "mine"}
        reply = await world.client.post(path, {"model": "voice", **fields}, headers)
        assert (reply.status, reply.headers["x-paraudio-warning"]) == (200, LINE)
        assert logged(caplog) == [f"request mine: {TOLD}"]


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/audio/transcriptions/details"])
async def test_a_transcript_has_them_too(open_scripted: OpenWorld, path: str) -> None:
    family = ScriptedFamily(lambda _: Result(text="a", artifacts={"warnings": ["b", 5, "c"]}))
    async with open_scripted(family, EARS) as world:
        body = {"model": "ears", "audio_base64": base64.b64encode(sound_file()).decode()}
        reply = await world.client.post(path, body)
        assert reply.headers["x-paraudio-warning"] == "b; c"
        last = (await world.client.post(path, {**body, "stream": True})).body
        assert (b'"warnings":["b","c"]' in last) == (not path.endswith("details"))


async def test_a_stream_has_them_in_its_last_event(
    open_scripted: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted(speaking(TOLD), spec()) as world:
        body = {"model": "voice", "input": "a", "stream_format": "sse"}
        reply = await world.client.post("/v1/audio/speech", body, {"x-request-id": "mine"})
        assert reply.events()[-2]["warnings"] == [TOLD]
        assert "x-paraudio-warning" not in reply.headers
        assert logged(caplog) == [f"request mine: {TOLD}"]


async def test_bare_sound_has_them_in_the_log(
    open_scripted: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted(speaking(TOLD), spec()) as world:
        body = {"model": "voice", "input": "a", "stream_format": "audio"}
        reply = await world.client.post("/v1/audio/speech", body)
        assert reply.status == 200
        assert len(logged(caplog)) == 1


async def test_a_batch_has_them_with_each_result(
    open_scripted: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted(speaking(TOLD), spec()) as world:
        body = {"model": "voice", "requests": [{"text": "a"}, {"text": "b"}]}
        events = (await world.client.post("/v1/tasks/batch", body)).events()
        found = [event["result"]["artifacts"] for event in events[:2]]
        assert found == [{"warnings": [TOLD]}] * 2
        assert len(logged(caplog)) == 2


async def test_a_live_stream_has_them_in_its_last_event(
    open_scripted: OpenWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    result = Result(audio=Audio(tone(0.1), RATE), artifacts={"warnings": [TOLD]})
    monkeypatch.setattr(Mute, "ends", (StreamEvent(result=result),))
    async with open_scripted(MuteFamily(lambda _: Result()), spec()) as world:
        events = await whole(world, b"One. ", path=SPEAK)
        assert events[-2]["warnings"] == [TOLD]
        assert len(logged(caplog)) == 1


async def test_without_a_warning_there_is_none(
    open_scripted: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_scripted(speaking(), spec()) as world:
        body = {"model": "voice", "input": "a"}
        reply = await world.client.post("/v1/audio/speech", body)
        assert "x-paraudio-warning" not in reply.headers
        stream = await world.client.post("/v1/audio/speech", {**body, "stream": True})
        assert "warnings" not in stream.events()[-2]
        assert logged(caplog) == []


async def test_a_header_is_short_however_much_there_is_to_say(open_scripted: OpenWorld) -> None:
    async with open_scripted(speaking("a" * 5000), spec()) as world:
        reply = await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        assert reply.headers["x-paraudio-warning"] == "a" * 500
