"""``/v1/tasks/*``: any task, several jobs under one lease, bulk unloads."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import trio
from tests.http.client import Reply
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.openapi import Document
from tests.http.sounds import RATE, heard, sound_file, tone
from trio.testing import MockClock

from paraudio.engines import Audio, Boundary, Job, Option, Result, Segment, StreamEvent
from paraudio.errors import InvalidRequestError
from paraudio.http import _tasks

RUN, BATCH, STREAM = "/v1/tasks/run", "/v1/tasks/batch", "/v1/tasks/stream"
SOUND = base64.b64encode(sound_file()).decode()


async def post(world: World, path: str, model: str = "voice", **fields: Any) -> Reply:
    return await world.client.post(path, {"model": model, **fields})


@pytest.mark.parametrize("nested", [True, False])
async def test_a_job_lies_under_request_or_at_the_top(
    world: World, autojump_clock: MockClock, nested: bool
) -> None:
    job = {"text": "hello", "voice_id": "anna", "seed": "18446744073709551615"}
    reply = await post(world, RUN, **({"request": job} if nested else job))
    body = reply.json()
    assert set(body) == {
        "text",
        "language",
        "audio",
        "sample_rate",
        "channels",
        "named_audio_outputs",
        "segments",
        "speaker_turns",
        "words",
        "artifacts",
        "timing",
    }
    samples, rate = heard(base64.b64decode(body["audio"]))
    assert (rate, body["sample_rate"], body["channels"]) == (22_050, 22_050, 1)
    assert len(samples) == 0.2 * 22_050
    assert body["artifacts"]["path"] == "/models/voice"
    assert body["artifacts"]["generation"] == 1
    assert world.idle()


async def test_listening_tasks_take_sound_in_any_way(
    world: World, autojump_clock: MockClock
) -> None:
    for fields in (
        {"audio_base64": SOUND},
        {"audio": {"type": "base64", "data": SOUND}},
        {"audio": "data:audio/wav;base64," + SOUND},
        {"request": {"audio_base64": SOUND}},
    ):
        body = (await post(world, RUN, "ears", **fields)).json()
        assert "heard 8000" in body["text"]
        assert body["audio"] is None
        assert body["segments"][0]["end_sample"] == 8000


async def test_voice_activity_gives_segments(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, task="vad")) as world:
        body = (await post(world, RUN, "ears", audio_base64=SOUND)).json()
    assert body["segments"] == [
        {
            "start": 0.0,
            "end": 0.5,
            "start_sample": 0,
            "end_sample": 8000,
            "text": "",
            "confidence": None,
        }
    ]
    assert body["sample_rate"] == RATE


@pytest.mark.parametrize(
    ("model", "fields", "param"),
    [
        ("voice", {}, "text"),
        ("voice", {"text": "  "}, "text"),
        ("voice", {"request": {}}, "request.text"),
        ("voice", {"request": {"text": 5}}, "request.text"),
        ("voice", {"request": [1]}, "request"),
        ("voice", {"request": {"text": "a", "seed": -1}}, "request.seed"),
        ("voice", {"request": {"text": "a", "voice_id": "a/b"}}, "request.voice_id"),
        ("ears", {}, "audio"),
        ("ears", {"request": {"text": "a"}}, "request.audio"),
        ("ears", {"audio_base64": "%"}, "audio_base64"),
        ("ears", {"request": {"audio_base64": SOUND[:40]}}, "request.audio_base64"),
    ],
)
async def test_a_job_that_is_wrong_names_the_field_where_it_lies(
    world: World, autojump_clock: MockClock, model: str, fields: dict[str, Any], param: str
) -> None:
    reply = await post(world, RUN, model, **fields)
    assert (reply.status, reply.error()["param"]) == (400, param)
    assert not world.model(model).loaded
    assert world.idle()


async def test_a_stream_is_told_whole(open_world: OpenWorld, autojump_clock: MockClock) -> None:
    async with open_world(spec(session_options={"chunks": 3}), EARS) as world:
        body = (await post(world, STREAM, text="hello")).json()
        assert [event["type"] for event in body["events"]] == ["audio"] * 3
        assert body["result"]["artifacts"]["text"] == "hello"
        body = (await post(world, STREAM, "ears", audio_base64=SOUND)).json()
        assert "".join(event["text"] for event in body["events"]) == body["result"]["text"]
        assert world.idle()


async def test_speakers_are_told_in_a_stream_that_is_told_whole(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(spec(EARS, task="diar", session_options={"chunks": 2})) as world:
        sound = base64.b64encode(sound_file(np.tile(tone(1.0), 4))).decode()
        body = (await post(world, STREAM, "ears", audio_base64=sound)).json()
        assert [event["type"] for event in body["events"]] == ["speaker_turns"] * 2
        told = [turn for event in body["events"] for turn in event["speaker_turns"]]
        assert told == body["result"]["speaker_turns"]
        assert {event["sample_rate"] for event in body["events"]} == {RATE}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (StreamEvent(text="a"), {"type": "text", "text": "a"}),
        (StreamEvent(partial=""), {"type": "partial", "text": ""}),
        (
            StreamEvent(boundary=Boundary("end", 7)),
            {"type": "boundary", "kind": "end", "at_sample": 7},
        ),
    ],
)
async def test_every_kind_of_event_is_told_as_what_it_is(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    event: StreamEvent,
    told: dict[str, Any],
) -> None:
    whole = StreamEvent(result=Result(text="a", sample_rate=RATE))

    async def begun(*_: object) -> AsyncIterator[StreamEvent]:
        return Several(event, whole)

    monkeypatch.setattr(_tasks, "start_events", begun)
    async with open_world(EARS) as world:
        reply = await post(world, STREAM, "ears", audio_base64=SOUND)
        assert reply.json()["events"] == [told]
        Document({"parallel_jobs": True}).check("POST /v1/tasks/stream", reply)


class Several:
    """Events that are there."""

    def __init__(self, *events: StreamEvent) -> None:
        self._events = iter(events)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        for event in self._events:
            return event
        raise StopAsyncIteration


@pytest.mark.contract("phase/active_stream_or_batch")
async def test_a_batch_sends_each_result_as_it_ends(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    jobs = [
        {"text": f"text {n}", "options": {"run_ms": ms}} for n, ms in enumerate((300, 100, 200))
    ]
    async with open_world(spec(load_options={"load_ms": 1000})) as world:
        call = world.client.start("POST", BATCH, {"model": "voice", "requests": jobs})
        call.take(1)
        await call.wait_bytes()
        await trio.sleep(60)
        call.take()
        assert world.model().active_slots == 1
        assert b"batch.done" not in call.reply.body
        await call.ended.wait()
        events = call.reply.events()
        assert world.idle()
        assert world.gates.count("run") == 1
    assert [event["index"] for event in events[:3]] == [1, 2, 0]
    assert [event["type"] for event in events[:3]] == ["task.batch.result"] * 3
    for event in events[:3]:
        assert event["result"]["text"] == f"text {event['index']}"
    took = [event["result"]["timing"]["wall_ms"] for event in events[:3]]
    assert took == [100.0, 200.0, 300.0]  # no load, and no wait for a slow reader
    assert events[3]["type"] == "task.batch.done"
    assert events[3]["timing"]["wall_ms"] == 300.0
    assert events[3]["result_count"] == 3
    assert events[4] == "[DONE]"


async def test_a_model_without_a_native_batch_runs_the_jobs_in_turn(
    open_scripted: OpenWorld,
) -> None:
    family = ScriptedFamily(lambda job: Result(text=job.text, audio=Audio(tone(0.1), RATE)))
    async with open_scripted(family, VOICE) as world:
        jobs = [{"text": text} for text in "abc"]
        events = (await post(world, BATCH, requests=jobs)).events()
        assert [event["index"] for event in events[:3]] == [0, 1, 2]
        assert [job.text for job in family.jobs] == ["a", "b", "c"]
        assert world.idle()


@pytest.mark.parametrize(
    ("requests", "param"),
    [
        (None, "requests"),
        ([], "requests"),
        ({"text": "a"}, "requests"),
        (["a"], "requests[0]"),
        ([{"text": "a"}, {"text": ""}], "requests[1].text"),
        ([{"text": "a"}, {"text": "a", "speed": 9}], "requests[1].speed"),
        ([{"text": "a"}, {"text": "a", "options": {"no": 1}}], "requests[1].options.no"),
    ],
)
async def test_a_batch_that_is_wrong_runs_nothing(
    world: World, autojump_clock: MockClock, requests: object, param: str
) -> None:
    reply = await post(world, BATCH, requests=requests)
    assert (reply.status, reply.error()["param"]) == (400, param)
    assert world.idle()
    assert not world.gates.count("run")


def _refuse(job: Job) -> Result:
    raise InvalidRequestError("input holds nothing to speak", param="input")


async def test_what_a_family_refuses_of_a_job_is_named_where_it_lies(
    open_scripted: OpenWorld,
) -> None:
    family = ScriptedFamily(_refuse, facts={"languages": ["en"]})
    async with open_scripted(family, VOICE) as world:
        error = (await post(world, RUN, request={"text": "..."})).error()
        assert error["param"] == "request.text"
        assert error["message"] == "request.text holds nothing to speak"
        foreign = [{"text": "a", "language": "en"}, {"text": "a", "language": "de"}]
        error = (await post(world, BATCH, requests=foreign)).error()
        assert error["param"] == "requests[1].language"
        assert error["message"].startswith("requests[1].language must be one of en")
        assert world.idle()


class Cool(ScriptedFamily):
    """One that has an option for a field of OpenAI's, and takes less of it."""

    request_options = (
        Option(name="temperature", kind=float, default=0.0, doc="How freely.", maximum=1.0),
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 1.5}, "temperature"),
        ({"options": {"temperature": 1.5}}, "options.temperature"),
        ({"temperature": 0.5, "options": {"temperature": 1.5}}, "options.temperature"),
        ({"request": {"text": "a", "temperature": 1.5}}, "request.temperature"),
    ],
)
async def test_a_field_that_a_family_has_an_option_for_is_named_as_it_came(
    open_scripted: OpenWorld, fields: dict[str, Any], param: str
) -> None:
    async with open_scripted(Cool(lambda _: Result()), VOICE) as world:
        error = (await post(world, RUN, **{"text": "a", **fields})).error()
        assert error["param"] == param
        assert error["message"].startswith(f"{param} must be a number")


async def test_a_batch_that_fails_ends_with_an_error_event(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    jobs = [
        {"text": "a", "options": {"run_ms": 1}},
        {"text": "b", "options": {"run_ms": 9, "fail": True}},
    ]
    async with open_world(VOICE) as world:
        events = (await post(world, BATCH, requests=jobs)).events()
        assert [event["type"] for event in events] == ["task.batch.result", "error"]
        assert world.idle()


async def test_a_batch_is_stopped_when_its_client_leaves(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    jobs = [{"text": "a", "options": {"run_ms": 10}}, {"text": "b", "options": {"run_ms": 10**7}}]
    async with open_world(VOICE) as world:
        call = world.client.start("POST", BATCH, {"model": "voice", "requests": jobs})
        await call.wait_bytes()
        call.hang_up()
        await call.ended.wait()
        await world.wait_until(world.free)
        assert world.idle()


@pytest.mark.contract("ops/ready/bulk_unload", "ops/unloaded/bulk_unload")
async def test_unloading_some_models_names_the_unknown_ones(
    world: World, autojump_clock: MockClock
) -> None:
    await post(world, RUN, text="a")
    ids = ["voice", "nobody", "voice", "ears", "nobody"]
    reply = await world.client.post("/v1/tasks/unload_models", {"model_ids": ids})
    assert reply.status == 200
    assert reply.json() == {"unloaded": ["voice", "ears"], "not_found": ["nobody"]}
    assert not world.model().loaded


@pytest.mark.parametrize(("data", "headers"), [(None, {}), ({}, {}), ({"fence": True}, {})])
async def test_unloading_all_needs_no_body(
    world: World, autojump_clock: MockClock, data: object, headers: dict[str, str]
) -> None:
    await post(world, RUN, text="a")
    reply = await world.client.post("/v1/tasks/unload_all_models", data, headers)
    assert reply.json() == {"unloaded": ["voice", "ears"]}
    assert not world.model().loaded


@pytest.mark.parametrize(
    ("path", "data", "param"),
    [
        ("unload_models", {}, "model_ids"),
        ("unload_models", {"model_ids": "voice"}, "model_ids"),
        ("unload_models", {"model_ids": [5]}, "model_ids[0]"),
        ("unload_models", {"model_ids": [], "fences": True}, "fences"),
        ("unload_models", {"model_ids": [], "fence": "yes"}, "fence"),
        ("unload_all_models", {"model_ids": []}, "model_ids"),
    ],
)
async def test_a_bulk_unload_that_is_wrong_names_the_field(
    world: World, autojump_clock: MockClock, path: str, data: dict[str, Any], param: str
) -> None:
    await post(world, RUN, text="a")
    reply = await world.client.post(f"/v1/tasks/{path}", data)
    assert (reply.status, reply.error()["param"]) == (400, param)
    assert world.model().loaded


async def test_a_result_without_sound_is_no_speech(open_scripted: OpenWorld) -> None:
    def make(job: Job) -> Result:
        return Result(text=job.text, audio=Audio(tone(0.0), RATE))

    async with open_scripted(ScriptedFamily(make), VOICE) as world:
        reply = await post(world, RUN, text="\N{GRINNING FACE}")
        assert (reply.status, reply.error()["param"]) == (400, "text")
        path = "/v1/audio/speech"
        for more in ({}, {"stream_format": "sse"}, {"stream_format": "audio"}):
            reply = await post(world, path, input="\N{GRINNING FACE}", **more)
            assert (reply.status, reply.error()["param"]) == (400, "input")
        assert world.idle()


async def test_any_task_goes_through_the_one_route(open_scripted: OpenWorld) -> None:
    result = Result(sample_rate=RATE, segments=(Segment(0, 10),), artifacts={"notes": [1, 2]})
    async with open_scripted(ScriptedFamily(lambda _: result), spec(EARS, task="midi")) as world:
        body = (await post(world, RUN, "ears", audio_base64=SOUND)).json()
        assert body["artifacts"] == {"notes": [1, 2]}
        assert body["text"] is None
