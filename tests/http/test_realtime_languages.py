"""What a realtime session says to a language that its model does not have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from tests.http.conftest import EARS, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.realtime_sessions import MANUAL, VAD, talking
from tests.http.realtimekit import Socket

from paraudio.engines import Result

NESTED = "session.audio.input.transcription.language"
FLAT = "session.input_audio_transcription.language"


@asynccontextmanager
async def listening(
    open_world: OpenWorld, *, surveyed: bool = True
) -> AsyncIterator[tuple[World, Socket, ScriptedFamily]]:
    """A client of a model whose files say that it has German and Swiss Italian."""
    family = ScriptedFamily(
        lambda job: Result(text=f"in {job.language}"), facts={"languages": ["it-CH", "de"]}
    )
    more: dict[str, Any] = {"families": {"scripted": family}, "threads": True, "manual": True}
    ears = spec(EARS, family="scripted")
    with trio.fail_after(60):
        async with talking(open_world, ears, VAD, **more) as (world, socket):
            await socket.saw("session.updated")
            if surveyed:
                await world.runtime.survey()
            yield world, socket, family


def wanted(language: str, kind: str = "session.update", **more: Any) -> dict[str, Any]:
    """An update that names a language, in the spelling of its kind."""
    hearing = {"language": language}
    if kind == "transcription_session.update":
        return {"input_audio_transcription": hearing, **more}
    return {"type": "transcription", "audio": {"input": {"transcription": hearing, **more}}}


async def transcript(socket: Socket, count: int = 1) -> str:
    socket.sound(0.5)
    socket.say("input_audio_buffer.commit")
    return str((await socket.saw(".completed", count))["transcript"])


@pytest.mark.parametrize(
    ("kind", "param"),
    [("session.update", NESTED), ("transcription_session.update", FLAT)],
)
async def test_a_language_that_the_model_has_not_is_an_error_of_the_update(
    open_world: OpenWorld, kind: str, param: str
) -> None:
    async with listening(open_world) as (world, socket, _):
        socket.say(kind, event_id="mine", session=wanted("en-US", kind))
        error = (await socket.saw("error"))["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error",) * 2
        assert (error["param"], error["event_id"]) == (param, "mine")
        assert error["message"] == f'{param} must be one of de, it-CH, not "en-US"'
        assert len(socket.of("session.updated")) == 1
        assert not world.model("ears").loaded


async def test_what_held_before_holds_on_behind_a_wrong_language(open_world: OpenWorld) -> None:
    async with listening(open_world) as (_, socket, family):
        socket.say("session.update", session=wanted("de"))
        await socket.saw("session.updated", 2)
        more: dict[str, Any] = {
            "format": {"type": "audio/pcmu"},
            "turn_detection": {"type": "server_vad"},
        }
        socket.say("session.update", session=wanted("en", **more))
        await socket.saw("error")
        assert await transcript(socket) == "in de"
        socket.say("session.update", session=wanted("it"))
        held = (await socket.saw("session.updated", 3))["session"]["audio"]["input"]
        assert held["format"] == MANUAL["audio"]["input"]["format"]
        assert held["turn_detection"] is None
        assert held["transcription"] == {"model": "ears", "language": "it"}
        assert await transcript(socket, 2) == "in it"
        assert [job.language for job in family.jobs] == ["de", "it"]


async def test_a_language_is_taken_before_anybody_knows_and_the_commit_says_what_is_wrong(
    open_world: OpenWorld,
) -> None:
    async with listening(open_world, surveyed=False) as (_, socket, family):
        socket.say("session.update", session=wanted("en"))
        await socket.saw("session.updated", 2)
        socket.sound(0.5)
        socket.say("input_audio_buffer.commit")
        error = (await socket.saw(".failed"))["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", "language")
        # The load has looked at the files.
        socket.say("session.update", session=wanted("en"))
        assert (await socket.saw("error"))["error"]["param"] == NESTED
        assert not family.jobs
