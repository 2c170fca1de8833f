"""What of a request stands in the log: one line each, and never a sound."""

import base64
import json
import logging

import pytest
from tests.http.client import form
from tests.http.conftest import OpenWorld, World
from tests.http.sounds import sound_file
from trio.testing import MockClock

SPEECH = "/v1/audio/speech"
SOUND = base64.b64encode(sound_file()).decode()


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


async def test_each_request_is_a_line(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.client.post(SPEECH, {"model": "voice", "input": "a"}, {"x-request-id": "one"})
    await world.client.post(SPEECH, {"model": "no\nbody", "input": "a"}, {"x-request-id": "two"})
    await world.client.call("GET", "/no/such/route", headers={"x-request-id": "three"})
    await world.client.get("/health")
    await world.client.get("/metrics")
    first, second, third = lines(caplog, "paraudio.access")
    start, _, ms = first.rpartition(" ms=")
    assert start == 'request id=one route="POST /v1/audio/speech" model="voice" status=200'
    assert float(ms) >= 0
    assert 'id=two route="POST /v1/audio/speech" model="no\\nbody" status=404' in second
    assert 'id=three route="GET unmatched" model=null status=404' in third


async def test_a_line_is_short_however_long_the_name_that_a_client_asks_for(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.client.post(SPEECH, {"model": "m" * 1_000_000, "input": "a"})
    (line,) = lines(caplog, "paraudio.access")
    assert f'{"m" * 200}..."' in line
    assert len(line) < 400


async def test_a_client_that_left_has_a_line_with_no_status(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate = world.gates.hold("load")
    call = world.client.start("POST", SPEECH, {"model": "voice", "input": "a"})
    await gate.wait_held()
    call.hang_up()
    await call.ended.wait()
    gate.open()
    (line,) = lines(caplog, "paraudio.access")
    assert 'model="voice" status=0 ms=' in line


async def test_probes_are_lines_for_debugging_only(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await world.client.get("/health/ready")
    (line,) = lines(caplog, "paraudio.access")
    assert "GET /health/ready" in line


@pytest.mark.parametrize("wanted", [True, False])
async def test_bodies_are_logged_without_sound_where_that_is_asked_for(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, wanted: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_world(settings={"log_request_body": wanted}) as world:
        body = {
            "model": "ears",
            "request": {
                "audio_base64": SOUND,
                "language": "en",
                "voice_ref": {"type": "base64", "data": SOUND},
                "options": {"list": [0.5] * 1000, "long": SOUND},
            },
        }
        await world.client.post("/v1/tasks/run", body)
        await world.client.post(SPEECH, {"model": "voice", "input": "hello", "voice_ref": SOUND})
        await world.client.post(SPEECH, SOUND.encode())
        upload, headers = form(("model", None, b"ears"), ("file", "secret.wav", sound_file()))
        reply = await world.client.post("/v1/audio/transcriptions", upload, headers)
        assert reply.status == 200
    assert SOUND[:60] not in caplog.text
    assert "secret.wav" not in caplog.text
    bodies = [
        json.loads(line.partition(": body ")[2])
        for line in lines(caplog, "paraudio.http._body")
        if ": body " in line
    ]
    if not wanted:
        assert bodies == []
        return
    count = f"<{len(SOUND)} characters>"
    assert bodies == [
        {
            "model": "ears",
            "request": {
                "audio_base64": count,
                "language": "en",
                "voice_ref": {"type": "base64", "data": count},
                "options": {"list": "<1000 items>", "long": count},
            },
        },
        {"model": "voice", "input": "hello", "voice_ref": count},
    ]


async def test_a_body_that_is_deep_or_odd_is_logged_too(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_world(settings={"log_request_body": True}) as world:
        deep = b'{"model":"voice","input":' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}"
        assert (await world.client.post(SPEECH, deep)).status == 400
        odd = b'{"model":"\\ud800\\u001b[31m","input":"a"}'
        assert (await world.client.post(SPEECH, odd)).status in {400, 404}
    shown = [line for line in lines(caplog, "paraudio.http._body") if ": body " in line]
    assert len(shown) >= 1
    assert all(line.isascii() and line.isprintable() for line in shown)
    access = lines(caplog, "paraudio.access")
    assert all(line.isascii() and line.isprintable() for line in access)


async def test_a_long_body_is_cut(
    open_world: OpenWorld, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_world(settings={"log_request_body": True}) as world:
        options = {f"option{index}": "x" * 100 for index in range(90)}
        await world.client.post("/v1/tasks/run", {"model": "voice", "options": options})
    (line,) = [line for line in lines(caplog, "paraudio.http._body") if ": body " in line]
    assert len(line) < 4300
    assert line.endswith(" characters)")
