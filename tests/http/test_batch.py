"""``POST /v1/batches/transcriptions``: several recordings in one native batch."""

from tests.http.client import form
from tests.http.conftest import EARS, OpenWorld, World
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE, sound_file, tone
from trio.testing import MockClock

from paraudio.engines import Result

PATH = "/v1/batches/transcriptions"


async def test_each_file_gives_its_own_result(world: World, autojump_clock: MockClock) -> None:
    body, headers = form(
        ("file", "one.wav", sound_file(tone(0.25))),
        ("model", None, b"ears"),
        ("file", "zwei-ü.wav", sound_file(tone(0.5))),
    )
    reply = await world.client.post(PATH, body, headers)
    events = reply.events()
    found = {event["index"]: event for event in events[:2]}
    assert {event["type"] for event in events[:2]} == {"batch.transcription.result"}
    assert found[0]["filename"] == "one.wav"
    assert found[1]["filename"] == "zwei-ü.wav"
    assert "heard 4000" in found[0]["text"]
    assert "heard 8000" in found[1]["text"]
    assert events[2]["type"] == "batch.transcription.done"
    assert events[2]["result_count"] == 2
    assert events[2]["timing"]["audio_duration_ms"] == 750.0
    assert events[3] == "[DONE]"
    assert world.idle()


async def test_a_model_without_a_native_batch_is_refused(open_scripted: OpenWorld) -> None:
    family = ScriptedFamily(lambda _: Result(text="a", sample_rate=RATE))
    async with open_scripted(family, EARS) as world:
        body, headers = form(("file", "a", sound_file()), ("model", None, b"ears"))
        reply = await world.client.post(PATH, body, headers)
        assert (reply.status, reply.error()["param"]) == (400, "model")
        assert world.idle()


async def test_a_batch_without_files_or_with_a_broken_one_runs_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    for parts in (
        [("model", None, b"ears")],
        [("model", None, b"ears"), ("file", "a", sound_file()), ("file", "b", b"x")],
    ):
        body, headers = form(*parts)
        reply = await world.client.post(PATH, body, headers)
        assert (reply.status, reply.error()["param"]) == (400, "file")
    assert not world.gates.count("run")
    reply = await world.client.post(PATH, {"model": "ears"})
    assert reply.status == 415


async def test_a_batch_of_very_many_jobs_is_refused(world: World) -> None:
    body = {"model": "voice", "requests": [{"text": "x"}] * 1001}
    reply = await world.client.post("/v1/tasks/batch", body)
    assert (reply.status, reply.error()["param"]) == (400, "requests")
    assert world.idle()
