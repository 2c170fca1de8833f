"""Realtime events beside those that OpenAI's own package knows: each field that it requires."""

from typing import Any, get_args

import pytest
from openai.types.realtime import (
    RealtimeClientEvent,
    RealtimeServerEvent,
    RealtimeTranscriptionSessionCreateResponse,
    realtime_client_event,
)
from pydantic import BaseModel, TypeAdapter
from tests.http.conftest import EARS, OpenWorld, spec
from tests.http.realtime_sessions import MANUAL, VAD, talking
from trio.testing import MockClock

SERVER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
COMMON = "conversation.item.input_audio_transcription"


def known(model: type[BaseModel]) -> str:
    """The kind of an event by its class."""
    (kind,) = get_args(model.model_fields["type"].annotation)
    return str(kind)


UNION, *_ = get_args(realtime_client_event.RealtimeClientEvent)
CLIENT_KINDS = sorted(known(model) for model in get_args(UNION))


async def test_every_event_is_one_that_the_package_knows(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    failing = spec(EARS, session_options={"fail_runs": 1})
    async with talking(open_world, failing, VAD) as (_, socket):
        for count in (1, 2):
            await socket.speak(1)
            await socket.speak(1, loud=False)
            await socket.saw("committed", count)
        item_id = (await socket.saw(".completed"))["item_id"]
        socket.say("session.update", session=MANUAL)
        socket.say("conversation.item.retrieve", item_id=item_id)
        socket.say("conversation.item.delete", item_id=item_id)
        socket.say("input_audio_buffer.clear")
        socket.say("input_audio_buffer.commit", event_id="mine")
        await socket.saw("error")
    for event in socket.events:
        SERVER.validate_python(event)
    assert {event["type"] for event in socket.events} == {
        "session.created",
        "session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "input_audio_buffer.cleared",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.retrieved",
        "conversation.item.deleted",
        f"{COMMON}.delta",
        f"{COMMON}.completed",
        f"{COMMON}.failed",
        "error",
    }
    for event in socket.of("session.created", "session.updated"):
        RealtimeTranscriptionSessionCreateResponse.model_validate(event["session"])


@pytest.mark.parametrize("kind", CLIENT_KINDS)
async def test_every_event_that_the_package_sends_is_taken_or_refused_for_what_it_is(
    open_world: OpenWorld, autojump_clock: MockClock, kind: str
) -> None:
    """A kind that a later package has and this server knows nothing of fails here."""
    fields: dict[str, Any] = {"audio": "AAAA", "item_id": "item_1", "session": {}, "item": {}}
    async with talking(open_world) as (_, socket):
        socket.say(kind, **fields)
        socket.say("session.update", session=MANUAL)
        await socket.saw("session.updated", 1 + (kind == "session.update"))
        for event in socket.of("error"):
            error = event["error"]
            assert (
                "never answered" in error["message"]
                or error["param"] != "type"
                or (error["code"] == "input_audio_buffer_commit_empty")
            )
        conversation = kind.startswith(("response.", "output_")) or kind.endswith(
            ("item.create", "item.truncate")
        )
        refused = [one for one in socket.of("error") if "never" in one["error"]["message"]]
        assert len(refused) == conversation


def test_the_kinds_are_those_of_the_package() -> None:
    assert RealtimeClientEvent is realtime_client_event.RealtimeClientEvent
    assert {"session.update", "input_audio_buffer.append", "response.create"} <= set(CLIENT_KINDS)
