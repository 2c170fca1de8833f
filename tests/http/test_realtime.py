"""Realtime sessions over simulated models, in virtual time: what is said of what was heard."""

import base64
from typing import Any

import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.realtime_sessions import MANUAL, VAD, session, talking
from trio.testing import MockClock

Way = tuple[str, dict[str, str], tuple[str, ...]]


async def test_speech_is_found_and_written_down_while_it_is_spoken(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (_, socket):
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
    async with talking(open_world, slow, VAD) as (_, socket):
        for _ in range(4):
            socket.sentence(0.4, 0.6)
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
    async with talking(open_world) as (_, socket):
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
    async with talking(open_world, path="/v1/realtime?intent=transcription", manual=True) as (
        _,
        socket,
    ):
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
    async with talking(open_world, path="/v1/realtime") as (_, socket):
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


async def test_items_are_retrieved_and_deleted(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, manual=True) as (_, socket):
        for count in range(1, 4):
            socket.sound(0.5)
            socket.say("input_audio_buffer.commit")
            await socket.saw(".completed", count)
        ids = [one["item_id"] for one in socket.of("committed")]
        socket.say("conversation.item.retrieve", item_id=ids[1])
        item = (await socket.saw("item.retrieved"))["item"]
        assert (item["id"], item["role"], item["status"]) == (ids[1], "user", "completed")
        text = socket.of(".completed")[1]["transcript"]
        assert item["content"] == [{"type": "input_audio", "transcript": text}]
        for count, item_id in enumerate((ids[0], ids[2]), 1):
            socket.say("conversation.item.delete", item_id=item_id)
            assert (await socket.saw("item.deleted", count))["item_id"] == item_id
        for kind in ("retrieve", "delete"):
            socket.say(f"conversation.item.{kind}", item_id=ids[2], event_id=kind)
            error = (await socket.saw("error", 1 + (kind == "delete")))["error"]
            assert (error["param"], error["event_id"]) == ("item_id", kind)
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        added = await socket.saw("item.added", 4)
        assert added["previous_item_id"] == ids[1], "the last one that is still there"


async def test_an_item_that_is_deleted_is_still_written_down(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 500})
    async with talking(open_world, slow, VAD, manual=True) as (_, socket):
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        item_id = (await socket.saw("committed"))["item_id"]
        socket.say("conversation.item.retrieve", item_id=item_id)
        item = (await socket.saw("item.retrieved"))["item"]
        assert item["content"] == [{"type": "input_audio", "transcript": None}]
        socket.say("conversation.item.delete", item_id=item_id)
        await socket.saw("item.deleted")
        assert (await socket.saw(".completed"))["item_id"] == item_id


async def test_a_commit_is_answered_with_a_transcript_though_nobody_spoke(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    """A client may leave the detection on and commit all the same, and wait for its transcript."""
    async with talking(open_world) as (_, socket):
        socket.sound(2, loud=False)
        socket.say("input_audio_buffer.commit")
        assert (await socket.saw(".completed"))["usage"]["seconds"] == 2
        assert not socket.of("speech_started", "error")
        # Nothing is left for another one.
        socket.say("input_audio_buffer.commit")
        error = (await socket.saw("error"))["error"]
        assert error["code"] == "input_audio_buffer_commit_empty"


async def test_an_append_of_nothing_is_nothing(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, manual=True) as (_, socket):
        socket.say("input_audio_buffer.append", audio="")
        socket.sound(0.5)
        socket.say("input_audio_buffer.append", audio="")
        socket.say("input_audio_buffer.commit")
        assert (await socket.saw(".completed"))["usage"]["seconds"] == 0.5
        assert not socket.of("error")


@pytest.mark.parametrize(
    ("form", "rate", "frame"),
    [
        ({"input_audio_format": "pcm16"}, 24_000, b"\0\x10"),
        ({"input_audio_format": "g711_ulaw"}, 8000, b"\x10"),
        ({"input_audio_format": "g711_alaw"}, 8000, b"\x10"),
        ({"audio": {"input": {"format": {"type": "audio/pcm"}}}}, 24_000, b"\0\x10"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}},
            16_000,
            b"\0\x10",
        ),
        ({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}, 8000, b"\x10"),
        ({"audio": {"input": {"format": {"type": "audio/pcma"}}}}, 8000, b"\x10"),
    ],
)
async def test_sound_comes_in_each_form(
    open_world: OpenWorld, autojump_clock: MockClock, form: Any, rate: int, frame: bytes
) -> None:
    async with talking(open_world) as (_, socket):
        flat = "audio" not in form
        kind = "transcription_session.update" if flat else "session.update"
        socket.say(kind, session=form)
        socket.say(kind, session={"turn_detection": None})
        await socket.saw(".updated", 2)
        second = base64.b64encode(frame * rate).decode()
        socket.say("input_audio_buffer.append", audio=second)
        socket.say("input_audio_buffer.commit")
        done = await socket.saw(".completed")
        assert done["usage"] == {"type": "duration", "seconds": 1}
        assert f"heard {rate} samples" in done["transcript"]


# What is wrong with an event.


@pytest.mark.parametrize(
    ("message", "param", "says"),
    [
        ("{", None, "the event is not valid JSON"),
        ("[]", None, "JSON object"),
        (b"\x00\x01", None, "text message"),
        ("{}", "type", "missing"),
        ('{"type": 1}', "type", "string"),
        ('{"type": "response.create"}', "type", "never answered"),
        ('{"type": "response.cancel"}', "type", "never answered"),
        ('{"type": "output_audio_buffer.clear"}', "type", "never answered"),
        ('{"type": "conversation.item.create", "item": {}}', "type", "never answered"),
        ('{"type": "conversation.item.truncate"}', "type", "never answered"),
        ('{"type": "conversation.item.delete"}', "item_id", "missing"),
        ('{"type": "conversation.item.retrieve", "item_id": 1}', "item_id", "string"),
        ('{"type": "nonsense"}', "type", "session.update"),
        ('{"type": "session.update"}', "session", "missing"),
        ('{"type": "session.update", "session": {"type": "realtime"}}', "session.type", "transc"),
        ('{"type": "input_audio_buffer.append"}', "audio", "missing"),
        ('{"type": "input_audio_buffer.append", "audio": null}', "audio", "missing"),
        ('{"type": "input_audio_buffer.append", "audio": " "}', "audio", "base64"),
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
    async with talking(open_world) as (_, socket):
        socket.put(message)
        error = (await socket.saw("error"))["error"]
        assert error["param"] == param
        assert says in error["message"]
        assert error["type"] == "invalid_request_error"
        assert set(error) == {"type", "code", "message", "param", "event_id"}
        socket.sentence(0.5, 0.5)
        await socket.saw(".completed")


async def test_an_error_names_the_event_that_is_at_fault(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world) as (_, socket):
        socket.say("input_audio_buffer.commit", event_id="mine")
        error = (await socket.saw("error"))["error"]
        assert (error["event_id"], error["code"]) == ("mine", "input_audio_buffer_commit_empty")


async def test_an_append_has_a_bound_and_what_is_within_is_taken(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    settings = {"live_ingest": {"max_chunk_bytes": 4800}}
    async with talking(open_world, settings=settings, manual=True) as (_, socket):
        socket.sound(0.2, piece=0.2)
        assert (await socket.saw("error"))["error"]["param"] == "audio"
        socket.sound(0.1, piece=0.1)
        socket.say("input_audio_buffer.commit")
        assert (await socket.saw(".completed"))["usage"]["seconds"] == 0.1


async def test_half_a_frame_waits_for_its_other_half(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with talking(open_world, manual=True) as (_, socket):
        for part in (b"\x01\x02\x03", b"\x04" + bytes(4796)):
            socket.say("input_audio_buffer.append", audio=base64.b64encode(part).decode())
        socket.say("input_audio_buffer.commit")
        assert "heard 2400 samples" in (await socket.saw(".completed"))["transcript"]


async def test_a_clear_stops_what_runs_for_what_is_cleared(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    slow = spec(EARS, session_options={"run_ms": 100_000})
    async with talking(open_world, slow, VAD) as (world, socket):
        socket.sound(1)
        await socket.saw("speech_started")
        await world.wait_until(lambda: world.model("ears").active_slots == 1)
        before = trio.current_time()
        socket.say("input_audio_buffer.clear")
        await socket.saw("cleared")
        await world.wait_until(lambda: world.model("ears").active_slots == 0)
        assert trio.current_time() - before < 1
        assert not socket.of("committed", ".failed", ".completed", "error")
