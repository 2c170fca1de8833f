"""Realtime sessions over simulated models, in virtual time."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.realtimekit import Socket, connect
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.http._realtime_ears import TURN_S
from paraudio.http._realtime_session import AHEAD_S
from paraudio.journal import Kind
from paraudio.spec import ModelSpec

VAD = ModelSpec(id="vad", family="simulated", path="/models/vad", task="vad")
MANUAL = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}

Way = tuple[str, dict[str, str], tuple[str, ...]]
Connect = Callable[..., Awaitable[Socket]]


@asynccontextmanager
async def session(
    open_world: OpenWorld, *models: ModelSpec, **more: Any
) -> AsyncIterator[tuple[World, Connect]]:
    """A world, and a way to connect to it; at the end nothing may be left of anybody."""
    async with open_world(*(models or (EARS, VAD)), **more) as world:
        with trio.fail_after(3600):
            async with trio.open_nursery() as nursery:
                yield world, partial(connect, world.client.app, nursery)
                nursery.cancel_scope.cancel()
            await world.wait_until(world.idle)


async def finished(socket: Socket) -> tuple[int, str]:
    """Wait for the close."""
    await socket.ended.wait()
    assert socket.closed is not None
    return socket.closed


# What a session says.


async def test_speech_is_found_and_written_down_while_it_is_spoken(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        await socket.speak(0.5, loud=False)
        await socket.speak(2.2)
        await socket.speak(1, loud=False)
        done = await socket.saw(".completed")
        assert socket.kinds() == [
            "session.created",
            "speech_started",
            "delta",
            "delta",
            "speech_stopped",
            "committed",
            "conversation.item.added",
            "conversation.item.done",
            "delta",
            "completed",
        ]
        assert done["transcript"] == "word1 word2 word3"
        assert "".join(one["delta"] for one in socket.of(".delta")) == done["transcript"]
        assert done["usage"] == {"type": "duration", "seconds": 2.8}
        [started], [stopped] = socket.of("speech_started"), socket.of("speech_stopped")
        assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (200, 3000)
        assert len({one["item_id"] for one in socket.events if "item_id" in one}) == 1
        assert len({one["event_id"] for one in socket.events}) == len(socket.events)


async def test_items_are_written_down_in_order_with_one_slot(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 500})
    async with session(open_world, slow, VAD) as (_, open_socket):
        socket = await open_socket()
        for _ in range(4):
            socket.sound(0.4)
            socket.sound(0.6, loud=False)
        await socket.saw(".completed", 4)
        order = [one["item_id"] for one in socket.of("committed")]
        assert [one["item_id"] for one in socket.of(".completed")] == order
        befores = [one["previous_item_id"] for one in socket.of("committed")]
        assert befores == [None, *order[:-1]]


async def test_partials_come_only_to_whom_asks(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        for asks in (False, True):
            socket = await open_socket()
            if asks:
                include = ["item.input_audio_transcription.partial"]
                socket.say("session.update", session={"include": include})
            await socket.speak(2)
            await socket.speak(1, loud=False)
            await socket.saw(".completed")
            assert [one["partial"] for one in socket.of(".partial")] == asks * ["word1", "word2"]
            socket.leave()


@pytest.mark.parametrize(
    ("way", "kinds"),
    [
        (("model=ears", {}, ()), ["session.created", "added", "done"]),
        (
            ("model=ears&intent=transcription", {}, ("realtime",)),
            ["session.created", "added", "done"],
        ),
        (("model=ears", {"openai-beta": "realtime=v1"}, ()), ["session.created", "created"]),
        (
            ("model=ears&intent=transcription", {}, ("realtime", "openai-beta.realtime-v1")),
            ["transcription_session.created", "created"],
        ),
    ],
)
async def test_each_client_is_spoken_to_in_its_own_words(
    open_world: OpenWorld, autojump_clock: MockClock, way: Way, kinds: list[str]
) -> None:
    query, headers, protocols = way
    async with session(open_world) as (_, open_socket):
        socket = await open_socket(f"/v1/realtime?{query}", headers, protocols)
        assert socket.accepted["subprotocol"] == ("realtime" if protocols else None)
        socket.say("session.update", session=MANUAL)
        await socket.saw("session.updated")
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        await socket.saw(".completed")
        told = [kinds[0], *[f"conversation.item.{kind}" for kind in kinds[1:]]]
        assert [k for k in socket.kinds() if k in told] == told
        flat = "created" in kinds
        assert ("input_audio_format" in socket.events[0]["session"]) == flat


async def test_the_older_update_is_answered_by_its_own_name(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        wanted = {"input_audio_transcription": {"prompt": "names"}, "turn_detection": None}
        socket.say("transcription_session.update", session=wanted)
        updated = await socket.saw("transcription_session.updated")
        assert updated["session"]["input_audio_transcription"] == {
            "model": "ears",
            "prompt": "names",
        }
        assert updated["session"]["turn_detection"] is None


async def test_the_model_can_be_named_later(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket("/v1/realtime?intent=transcription")
        socket.say("session.update", session=MANUAL)
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        failed = await socket.saw(".failed")
        assert failed["error"]["type"] == "invalid_request_error"
        assert "session.update" in failed["error"]["message"]
        socket.say("session.update", session={"input_audio_transcription": {"model": "ears"}})
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        assert (await socket.saw(".completed"))["transcript"].startswith("path /models/ears")


async def test_an_item_has_its_end_before_it_has_its_failure(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket("/v1/realtime")
        await socket.speak(1)
        await socket.speak(1, loud=False)
        await socket.saw(".failed")
        assert socket.kinds()[-4:] == [
            "committed",
            "conversation.item.added",
            "conversation.item.done",
            "failed",
        ]


async def test_two_sessions_at_once_do_not_mix(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        one, two = await open_socket(), await open_socket()
        for _ in range(3):
            one.sound(1.2)
            two.sound(3.2)
            one.sound(1, loud=False)
            two.sound(1, loud=False)
        await one.saw(".completed", 3)
        await two.saw(".completed", 3)
        words = {"word1 word2"}, {"word1 word2 word3 word4"}
        assert {event["transcript"] for event in one.of(".completed")} == words[0]
        assert {event["transcript"] for event in two.of(".completed")} == words[1]


# What is wrong with an event.


@pytest.mark.parametrize(
    ("message", "param", "says"),
    [
        ("{", None, "not valid JSON"),
        ("[]", None, "JSON object"),
        (b"\x00\x01", None, "text message"),
        ("{}", "type", "missing"),
        ('{"type": 1}', "type", "string"),
        ('{"type": "response.create"}', "type", "session.update"),
        ('{"type": "session.update"}', "session", "missing"),
        ('{"type": "session.update", "session": {"type": "realtime"}}', "session.type", "transc"),
        ('{"type": "input_audio_buffer.append"}', "audio", "missing"),
        ('{"type": "input_audio_buffer.append", "audio": "%"}', "audio", "base64"),
        ('{"type": "input_audio_buffer.append", "audio": "ä"}', "audio", "base64"),
        ('{"type": "input_audio_buffer.commit"}', "type", "empty"),
    ],
)
async def test_a_wrong_event_is_an_error_and_the_session_goes_on(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    message: str | bytes,
    param: str | None,
    says: str,
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        socket.put(message)
        error = (await socket.saw("error"))["error"]
        assert error["param"] == param
        assert says in error["message"]
        assert error["type"] == "invalid_request_error"
        assert set(error) == {"type", "code", "message", "param", "event_id"}
        socket.sound(0.5)
        socket.sound(0.5, loud=False)
        await socket.saw(".completed")


async def test_an_error_names_the_event_that_is_at_fault(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        socket.say("input_audio_buffer.commit", event_id="mine")
        error = (await socket.saw("error"))["error"]
        assert (error["event_id"], error["code"]) == ("mine", "input_audio_buffer_commit_empty")


async def test_an_append_has_a_bound_and_what_is_within_is_taken(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"live_ingest": {"max_chunk_bytes": 4800}}
    async with session(open_world, settings=settings) as (_, open_socket):
        socket = await open_socket()
        socket.say("session.update", session=MANUAL)
        socket.sound(0.2, piece=0.2)
        assert (await socket.saw("error"))["error"]["param"] == "audio"
        socket.sound(0.1, piece=0.1)
        socket.say("input_audio_buffer.commit")
        assert (await socket.saw(".completed"))["usage"]["seconds"] == 0.1


async def test_half_a_frame_waits_for_its_other_half(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        socket.say("session.update", session=MANUAL)
        for part in (b"\x01\x02\x03", b"\x04" + bytes(4796)):
            socket.say("input_audio_buffer.append", audio=base64.b64encode(part).decode())
        socket.say("input_audio_buffer.commit")
        assert "heard 2400 samples" in (await socket.saw(".completed"))["transcript"]


async def test_a_clear_stops_what_runs_for_what_is_cleared(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 100_000})
    async with session(open_world, slow, VAD) as (world, open_socket):
        socket = await open_socket()
        socket.sound(1)
        await socket.saw("speech_started")
        await world.wait_until(lambda: world.model("ears").active_slots == 1)
        before = trio.current_time()
        socket.say("input_audio_buffer.clear")
        await socket.saw("cleared")
        await world.wait_until(lambda: world.model("ears").active_slots == 0)
        assert trio.current_time() - before < 1
        assert not socket.of("committed", ".failed", ".completed", "error")


# Slots.


async def test_a_silent_microphone_holds_no_slot(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket()
        await wait_all_tasks_blocked()
        assert world.free()
        socket.sound(1, loud=False)
        await world.wait_until(lambda: world.model("vad").active_slots == 1)
        await world.wait_until(world.free)
        assert world.model("ears").generation == 0  # nothing was said, so nothing was loaded
        assert not socket.of("error")


async def test_a_turn_at_the_detector_ends_when_another_session_waits(
    open_world: OpenWorld,
    autojump_clock: MockClock,
) -> None:
    async with session(open_world) as (world, open_socket):
        one, two = await open_socket(), await open_socket()
        for socket in (one, two):
            socket.sound(20, loud=False)
            socket.sound(1)
            socket.sound(1, loud=False)
        await one.saw(".completed")
        await two.saw(".completed")
        grants = [e.facts["request"] for e in world.kinds(Kind.BOUND) if e.model == "vad"]
        turns = [a for a, b in zip(grants, [*grants[1:], None], strict=True) if a != b]
        assert len(turns) > 20
        starts = {socket.of("speech_started")[0]["audio_start_ms"] for socket in (one, two)}
        assert starts == {19_700}


async def test_a_turn_is_short_even_where_nobody_waits(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(VAD, session_options={"run_ms": 400})
    async with session(open_world, EARS, slow) as (world, open_socket):
        socket = await open_socket()
        socket.sound(15)
        socket.sound(1, loud=False)
        await socket.saw(".completed")
        held = _held(world, "vad")
        assert len(held) > 1
        assert max(held) <= TURN_S + 1
        assert len(socket.of("speech_started")) == 1
        assert socket.of("speech_stopped")[0]["audio_end_ms"] == 15_500


def _held(world: World, model: str) -> list[float]:
    """How long each lease of a model lasted."""
    grants = [e.at for e in world.kinds(Kind.GRANTED) if e.model == model]
    ends = [e.at for e in world.kinds(Kind.RELEASED) if e.model == model]
    return [end - start for start, end in zip(grants, ends, strict=False)]


async def test_an_unload_of_the_detector_passes_between_two_turns(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket()
        socket.sound(2)
        await socket.saw("speech_started")
        reply = await world.client.post("/v1/tasks/unload_models", {"model_ids": ["vad"]})
        assert reply.json()["unloaded"] == ["vad"]
        socket.sound(1)
        socket.sound(1, loud=False)
        done = await socket.saw(".completed")
        assert done["usage"]["seconds"] == 3.5
        assert world.model("vad").generation == 2


async def test_a_busy_model_fails_the_item_and_not_the_session(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket("/v1/realtime?model=ears&busy_timeout_ms=2000")
        async with world.runtime.use("ears", request="other"):
            socket.sound(1)
            socket.sound(1, loud=False)
            failed = await socket.saw(".failed")
        assert failed["error"]["code"] == "server_busy"
        kinds = socket.kinds()
        assert kinds.index("committed") < kinds.index("failed")
        socket.sound(1)
        socket.sound(1, loud=False)
        await socket.saw(".completed")


async def test_a_busy_detector_is_told_and_tried_again(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket("/v1/realtime?model=ears&busy_timeout_ms=1000")
        async with world.runtime.use("vad", request="other"):
            socket.sound(1)
            assert (await socket.saw("error"))["error"]["code"] == "server_busy"
        await trio.sleep(2)
        socket.sound(1)
        socket.sound(1, loud=False)
        await socket.saw(".completed")
        assert len(socket.of("error")) == 1


async def test_a_run_that_fails_fails_its_item_only(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    failing = spec(EARS, session_options={"fail_runs": 1})
    async with session(open_world, failing, VAD) as (_, open_socket):
        socket = await open_socket()
        for _ in range(2):
            socket.sound(0.5)
            socket.sound(0.6, loud=False)
        await socket.saw(".completed")
        [failed], [done] = socket.of(".failed"), socket.of(".completed")
        assert failed["error"]["type"] == "server_error"
        assert [one["item_id"] for one in (failed, done)] == [
            one["item_id"] for one in socket.of("committed")
        ]


async def test_a_worker_that_dies_costs_its_own_item_only(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 200})
    async with session(open_world, slow, VAD) as (world, open_socket):
        socket = await open_socket()
        await socket.speak(1)
        await _reach(world, "running")
        world.isolation.crash("ears")
        await socket.speak(1, loud=False)
        assert (await socket.saw(".failed"))["error"]["code"] == "backend_crashed"
        await socket.speak(1)
        await socket.speak(1, loud=False)
        await socket.saw(".completed")


async def test_a_detector_that_dies_is_told_of_and_another_listens_on(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(VAD, session_options={"run_ms": 20})
    async with session(open_world, EARS, slow) as (world, open_socket):
        socket = await open_socket()
        await socket.speak(1)
        world.isolation.crash("vad")
        socket.sound(0.5)
        assert (await socket.saw("error"))["error"]["code"] == "backend_crashed"
        await socket.saw(".completed")  # what was heard of what was being said
        await trio.sleep(2)
        await socket.speak(1)
        await socket.speak(1, loud=False)
        await socket.saw(".completed", 2)


# Bounds.


async def test_a_client_is_read_no_faster_than_the_models_work(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket()
        socket.say("session.update", session=MANUAL)
        async with world.runtime.use("ears", request="other"):
            for _ in range(40):
                socket.sound(
                    15, piece=1
                )  # small enough for no thread, which time would not wait for
                socket.say("input_audio_buffer.commit")
            await socket.saw("committed")
            await wait_all_tasks_blocked()
            read = len(socket.of("committed")) * 15
            assert AHEAD_S <= read <= AHEAD_S + 60
            assert socket.unread > 50
        await socket.saw(".completed", 40)


async def test_a_slow_reader_is_read_no_further(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket()
        await socket.saw("session.created")
        socket.slow = True
        for _ in range(4000):
            socket.say("nonsense")
        await wait_all_tasks_blocked()
        assert socket.unread > 2000
        socket.slow = False
        socket._announce()
        await socket.until(lambda: len(socket.events) == 4001)


@pytest.mark.parametrize("own", [False, True])
async def test_a_microphone_that_falls_silent_is_closed(
    open_world: OpenWorld, autojump_clock: MockClock, own: bool
) -> None:
    bound = {"idle_timeout_ms": 4000}
    ears = spec(EARS, live_ingest=bound) if own else EARS
    settings = {} if own else {"live_ingest": bound}
    async with session(open_world, ears, VAD, settings=settings) as (_, open_socket):
        socket, before = await open_socket(), trio.current_time()
        socket.sound(1)
        await trio.sleep(3)
        socket.sound(1)
        code, reason = await finished(socket)
        assert code == 1008
        assert trio.current_time() - before == pytest.approx(7)
        assert "live_ingest.idle_timeout_ms" in reason
        assert socket.of("error")[0]["error"]["code"] == "idle_timeout"
        assert len(socket.of(".completed")) == 1  # what was said is written down first


async def test_who_commits_by_himself_may_rest(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"live_ingest": {"idle_timeout_ms": 4000}}
    async with session(open_world, settings=settings) as (_, open_socket):
        socket, before = await open_socket(), trio.current_time()
        socket.say("session.update", session=MANUAL)
        await trio.sleep(100)
        socket.sound(1)
        code, _ = await finished(socket)
        assert code == 1008
        assert trio.current_time() - before == pytest.approx(104)


async def test_a_session_has_a_longest_time(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"live_ingest": {"total_timeout_ms": 20_000, "idle_timeout_ms": 0}}
    async with session(open_world, settings=settings) as (_, open_socket):
        socket, before = await open_socket(), trio.current_time()
        for _ in range(19):
            socket.sound(1, loud=False)
            await trio.sleep(1)
        code, reason = await finished(socket)
        assert code == 1008
        assert trio.current_time() - before == pytest.approx(20)
        assert "total_timeout_ms" in reason


# Its end.


@pytest.mark.parametrize("stage", ["idle", "detecting", "queued", "loading", "running"])
async def test_leaving_frees_everything_at_every_stage(
    open_world: OpenWorld, autojump_clock: MockClock, stage: str
) -> None:
    models = {
        "detecting": (EARS, spec(VAD, session_options={"run_ms": 50_000})),
        "loading": (spec(EARS, load_options={"load_ms": 50_000}), VAD),
        "running": (spec(EARS, session_options={"run_ms": 50_000}), VAD),
    }.get(stage, (EARS, VAD))
    async with session(open_world, *models) as (world, open_socket), AsyncExitStack() as others:
        if stage == "queued":
            await others.enter_async_context(world.runtime.use("ears", request="other"))
        socket = await open_socket()
        if stage != "idle":
            socket.sound(1)
        await _reach(world, stage)
        before = trio.current_time()
        socket.leave()
        await socket.ended.wait()
        assert trio.current_time() - before < 0.1
        assert not world.client.app.core.in_flight
        assert world.model("ears").queued_requests == 0


async def _reach(world: World, stage: str) -> None:
    waits = {
        "detecting": lambda: world.model("vad").active_slots == 1,
        "queued": lambda: world.model("ears").queued_requests == 1,
        "loading": lambda: world.model("ears").state == "loading",
        "running": lambda: bool([e for e in world.kinds(Kind.RUN_STARTED) if e.model == "ears"]),
    }
    if stage in waits:
        await world.wait_until(waits[stage])
    await wait_all_tasks_blocked()


async def test_a_session_is_listed_and_cancelled_by_its_id(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 50_000})
    async with session(open_world, slow, VAD) as (world, open_socket):
        socket = await open_socket(headers={"x-request-id": "mine"})
        assert (b"x-request-id", b"mine") in socket.accepted["headers"]
        socket.sound(1)
        await _reach(world, "running")
        [listed] = (await world.client.get("/v1/requests")).json()["data"]
        assert (listed["id"], listed["route"]) == ("mine", "GET /v1/realtime")
        assert (listed["model"], listed["slot"]) == ("ears", 0)
        assert (await world.client.call("DELETE", "/v1/requests/mine")).json()["ended"]
        code, reason = await finished(socket)
        assert code == 1008
        assert "cancelled" in reason
        assert world.free()


async def test_a_drain_lets_what_was_said_be_written_down_and_says_goodbye(
    open_world: OpenWorld,
    autojump_clock: MockClock,
) -> None:
    slow = spec(EARS, session_options={"run_ms": 1000})
    async with session(open_world, slow, VAD) as (world, open_socket):
        talking, silent = await open_socket(), await open_socket()
        await talking.speak(1.5)
        await _reach(world, "running")
        world.runtime.drain()
        assert await finished(silent) == (1001, "the server is shutting down")
        assert await finished(talking) == (1001, "the server is shutting down")
        [done] = talking.of(".completed")
        assert done["transcript"].startswith("word1")
        late = await open_socket()
        assert late.status == 503
        assert late.error()["code"] == "shutting_down"


async def test_a_drain_refuses_what_waits_for_a_slot(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, open_socket):
        socket = await open_socket()
        async with world.runtime.use("ears", request="other"):
            await socket.speak(1)
            await _reach(world, "queued")
            world.runtime.drain()
            failed = await socket.saw(".failed")
            assert failed["error"]["code"] == "shutting_down"
            assert (await finished(socket))[0] == 1001


# The way in.


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/nowhere", 404, "not_found"),
        ("/v1/audio/speech", 405, "method_not_allowed"),
        ("/health", 400, "invalid_request_error"),
        ("/v1/realtime?model=nobody", 404, "model_not_found"),
        ("/v1/realtime?model=vad", 400, "invalid_request_error"),
        ("/v1/realtime?model=ears&intent=conversation", 400, "invalid_request_error"),
        ("/v1/realtime?model=ears&busy_timeout_ms=-1", 400, "invalid_request_error"),
    ],
)
async def test_a_websocket_that_cannot_be_is_refused_as_a_request_is(
    open_world: OpenWorld, autojump_clock: MockClock, path: str, status: int, code: str
) -> None:
    async with session(open_world) as (_, open_socket):
        socket = await open_socket(path)
        await socket.ended.wait()
        assert (socket.status, socket.error()["code"]) == (status, code)
        assert not socket.accepted


async def test_a_plain_request_is_told_what_would_do(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with session(open_world) as (world, _):
        reply = await world.client.get("/v1/realtime?model=ears")
        assert (reply.status, reply.headers["upgrade"]) == (426, "websocket")
        assert "ws://" in reply.error()["message"]


KEY = "a-key"
AS_PROTOCOL = ("realtime", f"openai-insecure-api-key.{KEY}")


@pytest.mark.parametrize(
    ("headers", "protocols", "status"),
    [
        ({}, (), 401),
        ({"authorization": f"Bearer {KEY}"}, (), 0),
        ({"authorization": "Bearer other"}, (), 401),
        ({}, AS_PROTOCOL, 0),
        ({}, ("realtime", "openai-insecure-api-key.other"), 401),
        ({}, ("realtime", KEY), 401),
        ({"authorization": "Bearer other"}, AS_PROTOCOL, 401),
    ],
)
async def test_keys_are_asked_for_in_a_header_or_in_a_subprotocol(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    headers: dict[str, str],
    protocols: tuple[str, ...],
    status: int,
) -> None:
    async with session(open_world, settings={"api_keys": (KEY,)}) as (_, open_socket):
        socket = await open_socket(headers=headers, protocols=protocols)
        assert socket.status == status
        if not status:
            assert socket.accepted["subprotocol"] == ("realtime" if protocols else None)


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("", None, True),
        ("", "http://test", True),
        ("", "http://test:8080", False),
        ("", "https://evil.example", False),
        ("", "null", False),
        ("*", "https://evil.example", True),
        (("https://good.example",), "https://good.example", True),
        (("https://good.example",), "https://evil.example", False),
        (("https://good.example",), "http://test", True),
    ],
)
async def test_a_page_of_another_origin_needs_to_be_let_in(
    open_world: OpenWorld,
    autojump_clock: MockClock,
    origins: Any,
    origin: str | None,
    allowed: bool,
) -> None:
    async with session(open_world, settings={"cors_origins": origins}) as (_, open_socket):
        socket = await open_socket(headers={} if origin is None else {"origin": origin})
        assert bool(socket.accepted) == allowed
        assert socket.status == (0 if allowed else 403)
