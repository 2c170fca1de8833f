"""What only a strange family, a strange file system or a strange client brings about."""

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.http.client import form
from tests.http.conftest import EARS, VOICE, OpenWorld, World
from tests.http.family import ScriptedFamily, ScriptedSession
from tests.http.sounds import RATE, sound_file, tone
from werkzeug.exceptions import BadGateway, Gone, ImATeapot

from paraudio.engines import Audio, Job, Load, Result, Stop, StreamEvent
from paraudio.errors import InvalidRequestError, ModelNotFoundError, PayloadTooLargeError
from paraudio.http._errors import answer_to
from paraudio.http._paths import read_allowed
from paraudio.spec import Json

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
    open_scripted: OpenWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_scripted(StreamingFamily(PIECE), VOICE) as world:
        events = (await speak(world, stream_format="sse")).events()
        assert [event["type"] for event in events] == ["speech.audio.delta", "error"]
        call = world.client.start("POST", "/v1/audio/speech", {**SPEECH, "stream_format": "audio"})
        await call.ended.wait()
        assert not call.reply.complete
        assert "was cut off: the model ended its stream before the result" in caplog.text
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


def make_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place / "strange"))


def link(target: str) -> Callable[[Path], None]:
    return lambda place: (place / "strange").symlink_to(target)


def two_links(place: Path) -> None:
    (place / "step").symlink_to("..")
    (place / "strange").symlink_to("step/secret.wav")


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": lambda place: os.mkfifo(place / "strange"),
    "socket": make_socket,
    "folder": lambda place: (place / "strange").mkdir(),
    "nothing": lambda _: None,
    "link to a device": link("/dev/zero"),
    "link to the terminal": link("/dev/tty"),
    "link to memory": link("/proc/self/mem"),
    "link to a secret": link("../secret.wav"),
    "link that leads nowhere": link("nowhere"),
    "link to itself": link("strange"),
    "link through a link": two_links,
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("field", ["audio", "voice_ref"])
async def test_only_ordinary_files_within_the_allowed_folders_are_read(
    open_world: OpenWorld, tmp_path: Path, what: str, field: str
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "secret.wav").write_bytes(sound_file())
    STRANGE[what](allowed)
    model = EARS if field == "audio" else VOICE
    body = {"model": model.id, "text": "a", field: str(allowed / "strange")}
    async with open_world(
        model, settings={"allowed_paths": (str(allowed),)}, threads=True
    ) as world:
        with trio.fail_after(10):
            reply = await world.client.post("/v1/tasks/run", body)
        assert (reply.status, reply.error()["param"]) == (400, field)
        # In one and the same word, so that nobody learns what there is.
        assert reply.error()["message"] == (
            f"{field} must be the absolute path of a file inside a folder that this server allows "
            "(allowed_paths)"
        )
        assert world.idle()


@pytest.mark.parametrize(
    "path",
    [
        "{allowed}/../secret.wav",
        "{allowed}/./../secret.wav",
        "{allowed}//..//secret.wav",
        "{allowed}/a.wav/../../secret.wav",
        "{allowed}-not/a.wav",
        "{allowed}/a.wav\0",
        "file://{allowed}/a.wav",
        "~/a.wav",
        "a.wav",
        "/",
        "//",
        "/dev/stdin",
        "/dev/zero",
        "/proc/self/environ",
        "{allowed}/" + "x" * 5000,
        "{allowed}/" + "x/" * 3000,
    ],
)
def test_a_path_that_leads_out_of_the_allowed_folders_is_refused(tmp_path: Path, path: str) -> None:
    allowed = tmp_path / "allowed"
    for folder in (allowed, tmp_path / "allowed-not"):
        folder.mkdir()
        (folder / "a.wav").write_bytes(b"1")
    (tmp_path / "secret.wav").write_bytes(b"secret")
    assert read_allowed(str(allowed / "a.wav"), [str(allowed)], limit=0, param="audio") == b"1"
    with pytest.raises(InvalidRequestError) as caught:
        read_allowed(path.format(allowed=allowed), [str(allowed)], limit=0, param="audio")
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/dev/null", "/dev/fd/0"])
def test_a_device_is_no_file_even_where_its_folder_is_allowed(path: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_allowed(path, ["/dev", "/proc"], limit=1000, param="audio")


def test_an_allowed_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.wav").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    path = str(tmp_path / "link" / "a.wav")
    assert read_allowed(path, [str(tmp_path / "link")], limit=0, param="audio") == b"1"


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


class Seen(Misplaced):
    """A family that sees that already where it only looks."""

    def inspect(self, load: Load) -> Mapping[str, Json]:
        raise InvalidRequestError(f"path must be a folder, not {load.path!r}", param="path")


@pytest.mark.contract("fail/invalid_before_live_change", "fail/load_failure_after_commit")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seen", [True, False])
async def test_a_wrong_path_is_400_only_where_nothing_has_changed(
    open_scripted: OpenWorld, *, known: bool, seen: bool
) -> None:
    """What is found by the load is found with the new configuration in force, and says so: 500."""
    family = (Seen if seen else Misplaced)(lambda job: Result(text=job.text))
    models = [replace(EARS, id="new")] if known else [EARS]
    async with open_scripted(family, *models, ui_management=True) as world:
        before = (await world.client.get("/v1/models")).json()["data"]
        body = {"id": "new", "family": "scripted", "path": "/nowhere", "task": "tts"}
        reply = await world.client.post("/v1/models/load", body)
        after = (await world.client.get("/v1/models")).json()["data"]
        told = (reply.status, reply.error()["code"], reply.error()["param"])
        if seen:
            assert told == (400, "invalid_request_error", "path")
            assert after == before
        else:
            assert told == (500, "load_failed", None)
            assert [one["path"] for one in after if one["id"] == "new"] == ["/nowhere"]


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
