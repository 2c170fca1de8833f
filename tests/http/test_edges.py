"""What only a strange family, a strange file system or a strange client brings about."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.http.client import form
from tests.http.conftest import EARS, VOICE, OpenWorld, World
from tests.http.family import ScriptedFamily, ScriptedSession
from tests.http.sounds import RATE, sound_file, tone
from werkzeug.exceptions import BadGateway, Gone, ImATeapot

from paraudio.engines import Audio, Job, Load, Result, Stop, StreamEvent
from paraudio.errors import InvalidRequestError, ModelNotFoundError, PayloadTooLargeError
from paraudio.http._errors import answer_to
from paraudio.http._paths import read_allowed

SPEECH = {"model": "voice", "input": "a"}


class Streaming(ScriptedSession):
    """A session that streams what the test says, in batches too."""

    def __init__(self, *events: StreamEvent | Exception) -> None:
        super().__init__(lambda job: Result(text=job.text))
        self._events = events

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        assert prepared
        stop.check()
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def run_batch(self, prepared: Sequence[object], stop: Stop) -> Iterator[tuple[int, Result]]:
        assert prepared
        stop.check()
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield 0, Result(audio=Audio(tone(0.1), RATE))


class StreamingFamily(ScriptedFamily):
    def __init__(self, *events: StreamEvent | Exception) -> None:
        super().__init__(lambda job: Result(text=job.text))
        self._events = events

    def session(self) -> ScriptedSession:
        return Streaming(*self._events)


PIECE = StreamEvent(audio=Audio(tone(0.1), RATE))


async def speak(world: World, **more: Any) -> Any:
    return await world.client.post("/v1/audio/speech", {**SPEECH, **more})


async def test_a_stream_without_anything_is_a_plain_500(open_scripted: OpenWorld) -> None:
    async with open_scripted(StreamingFamily(), VOICE) as world:
        for path, body in (
            ("/v1/audio/speech", {**SPEECH, "stream_format": "sse"}),
            ("/v1/audio/speech", {**SPEECH, "stream_format": "audio"}),
            ("/v1/tasks/stream", {"model": "voice", "text": "a"}),
            ("/v1/tasks/batch", {"model": "voice", "requests": [{"text": "a"}]}),
        ):
            reply = await world.client.post(path, body)
            assert (reply.status, reply.error()["type"]) == (500, "server_error"), path
            assert world.idle()


async def test_a_stream_that_ends_without_its_result_is_an_error(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(StreamingFamily(PIECE), VOICE) as world:
        events = (await speak(world, stream_format="sse")).events()
        assert [event["type"] for event in events] == ["speech.audio.delta", "error"]
        call = world.client.start("POST", "/v1/audio/speech", {**SPEECH, "stream_format": "audio"})
        await call.ended.wait()
        assert not call.reply.complete
        assert call.error is not None
        body = {"model": "voice", "requests": [{"text": "a"}, {"text": "b"}]}
        events = (await world.client.post("/v1/tasks/batch", body)).events()
        assert [event["type"] for event in events] == ["task.batch.result", "error"]
        reply = await world.client.post("/v1/tasks/stream", {"model": "voice", "text": "a"})
        assert reply.status == 500
        assert world.idle()


async def test_a_streamed_transcription_that_ends_early_is_an_error(
    open_scripted: OpenWorld,
) -> None:
    async with open_scripted(StreamingFamily(StreamEvent(text="a")), EARS) as world:
        body, headers = form(
            ("model", None, b"ears"), ("stream", None, b"true"), ("file", "a", sound_file())
        )
        events = (await world.client.post("/v1/audio/transcriptions", body, headers)).events()
        assert [event["type"] for event in events] == ["transcript.text.delta", "error"]


async def test_a_result_that_came_whole_frees_the_model_before_it_is_read(
    open_scripted: OpenWorld,
) -> None:
    family = ScriptedFamily(lambda job: Result(text=job.text, audio=Audio(tone(), RATE)))
    async with open_scripted(family, VOICE) as world:
        call = world.client.start("POST", "/v1/audio/speech", {**SPEECH, "stream_format": "sse"})
        call.take(1)
        await call.wait_bytes()
        assert not call.ended.is_set()
        assert world.model().active_slots == 0
        call.take()
        await call.ended.wait()
        assert call.reply.events()[-1] == "[DONE]"


def refusing(param: str) -> Callable[[Job], Result]:
    def make(_: Job) -> Result:
        raise InvalidRequestError(f"{param} is not to the family's taste", param=param)

    return make


@pytest.mark.parametrize(
    ("said", "told"), [("text", "input"), ("voice", "voice"), ("options.x", "options.x")]
)
@pytest.mark.parametrize("more", [{}, {"stream_format": "sse"}])
async def test_what_a_family_refuses_is_said_in_the_routes_own_words(
    open_scripted: OpenWorld, said: str, told: str, more: dict[str, str]
) -> None:
    async with open_scripted(ScriptedFamily(refusing(said)), VOICE) as world:
        reply = await speak(world, **more)
        assert (reply.status, reply.error()["param"]) == (400, told)
        assert world.idle()


class Batching(Streaming):
    """A session with a native batch that refuses every job."""

    def prepare(self, job: Job) -> object:
        return refusing("text")(job)


class BatchingFamily(ScriptedFamily):
    def session(self) -> ScriptedSession:
        return Batching()


@pytest.mark.parametrize(
    ("family", "param"), [(ScriptedFamily, "requests[0].text"), (BatchingFamily, "text")]
)
async def test_a_refused_job_of_a_batch_is_named_where_its_place_is_known(
    open_scripted: OpenWorld, family: type[ScriptedFamily], param: str
) -> None:
    async with open_scripted(family(refusing("text")), VOICE) as world:
        for count, told in ((1, "requests[0].text"), (2, param)):
            body = {"model": "voice", "requests": [{"text": "a"}] * count}
            reply = await world.client.post("/v1/tasks/batch", body)
            assert (reply.status, reply.error()["param"]) == (400, told)
        assert world.idle()


def test_a_file_over_the_bound_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"12345")
    roots = [str(tmp_path / "nowhere"), "relative", str(tmp_path)]
    assert read_allowed(str(path), roots, limit=5, param="audio") == b"12345"
    assert read_allowed(str(path), roots, limit=0, param="audio") == b"12345"
    with pytest.raises(PayloadTooLargeError) as caught:
        read_allowed(str(path), roots, limit=4, param="audio")
    assert caught.value.param == "audio"
    assert str(tmp_path) not in caught.value.message


def test_a_pipe_is_no_file_and_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidRequestError):
        read_allowed(str(tmp_path / "pipe"), [str(tmp_path)], limit=0, param="audio")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ImATeapot(), 418, "invalid_request_error"),
        (Gone(), 410, "invalid_request_error"),
        (BadGateway(), 502, "server_error"),
    ],
)
def test_errors_of_the_framework_have_the_same_shape(
    error: Exception, status: int, kind: str
) -> None:
    answer = answer_to(error, "r")
    assert (answer.status, answer.error["type"]) == (status, kind)
    assert set(answer.error) == {"message", "type", "code", "param"}


class Misplaced(ScriptedFamily):
    """A family whose files are not where the registration says."""

    def load(self, load: Load, stop: Stop) -> ScriptedFamily:
        del stop
        raise InvalidRequestError(f"path must be a folder, not {load.path!r}", param="path")


@pytest.mark.parametrize("more", [{}, {"stream_format": "sse"}, {"stream_format": "audio"}])
async def test_a_wrong_path_is_no_fault_of_the_request_that_loads(
    open_scripted: OpenWorld, more: dict[str, str]
) -> None:
    async with open_scripted(Misplaced(lambda job: Result(text=job.text)), VOICE) as world:
        reply = await speak(world, **more)
        error = reply.error()
        assert (reply.status, error["type"], error["code"]) == (500, "server_error", "load_failed")
        assert error["param"] is None
        assert error["message"] == (
            "model 'voice' could not be loaded: path must be a folder, not '/models/voice'"
        )
        assert world.idle()


async def test_a_wrong_path_is_the_fault_of_who_registers_it(open_scripted: OpenWorld) -> None:
    family = Misplaced(lambda job: Result(text=job.text))
    async with open_scripted(family, EARS, ui_management=True) as world:
        body = {"id": "new", "family": "scripted", "path": "/nowhere", "task": "tts"}
        reply = await world.client.post("/v1/models/load", body)
        assert (reply.status, reply.error()["param"]) == (400, "path")


async def test_an_unknown_model_is_answered_with_those_that_there_are(
    open_world: OpenWorld,
) -> None:
    models = [replace(VOICE, id=f"model-{number}") for number in range(20)]
    async with open_world(*models, replace(VOICE, id="piper-joe")) as world:
        reply = await world.client.post("/v1/audio/speech", {**SPEECH, "model": "Piper_Joe"})
        assert (reply.status, reply.error()["code"]) == (404, "model_not_found")
        message = reply.error()["message"]
        assert message.startswith(
            "no model is registered as 'Piper_Joe'; registered: 'piper-joe', 'model-"
        )
        assert message.endswith(", …")
        assert message.count("'model-") == 7
        long = await world.client.post("/v1/audio/speech", {**SPEECH, "model": "x" * 10**6})
        assert len(long.error()["message"]) < 500


def test_where_nothing_is_registered_an_unknown_model_is_told_so() -> None:
    error = ModelNotFoundError.among("a", [], param="id")
    assert error.message == "no model is registered as 'a'; none is registered"
    assert error.param == "id"
    assert ModelNotFoundError.among("a", ["b"], param="id").message.endswith("; registered: 'b'")
