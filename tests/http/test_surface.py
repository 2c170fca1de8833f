"""What all routes of a kind have in common, asked of each of them."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from tests.http.client import Call, form
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.sounds import RATE, sound_file, tone
from trio.testing import MockClock

from paraudio.config import load
from paraudio.engines import Audio, Option, Result
from paraudio.http import _body

SOUND: Final = base64.b64encode(sound_file()).decode()

Fields = Mapping[str, Any]

JSON_ROUTES: Final[dict[str, tuple[str, Fields]]] = {
    "speech": ("/v1/audio/speech", {"model": "voice", "input": "a"}),
    "speech sse": ("/v1/audio/speech", {"model": "voice", "input": "a", "stream": True}),
    "speech audio": (
        "/v1/audio/speech",
        {"model": "voice", "input": "a", "stream_format": "audio"},
    ),
    "transcription": ("/v1/audio/transcriptions", {"model": "ears", "audio_base64": SOUND}),
    "transcription sse": (
        "/v1/audio/transcriptions",
        {"model": "ears", "audio_base64": SOUND, "stream": True},
    ),
    "details": ("/v1/audio/transcriptions/details", {"model": "ears", "audio_base64": SOUND}),
    "run": ("/v1/tasks/run", {"model": "voice", "text": "a"}),
    "stream": ("/v1/tasks/stream", {"model": "voice", "text": "a"}),
    "batch": ("/v1/tasks/batch", {"model": "voice", "requests": [{"text": "a"}]}),
}
FORM_ROUTES: Final[dict[str, tuple[str, Fields]]] = {
    "form": ("/v1/audio/transcriptions", {"model": "ears"}),
    "form sse": ("/v1/audio/transcriptions", {"model": "ears", "stream": "true"}),
    "form details": ("/v1/audio/transcriptions/details", {"model": "ears"}),
    "form batch": ("/v1/batches/transcriptions", {"model": "ears"}),
}
LIVE_ROUTES: Final[dict[str, tuple[str, Fields]]] = {
    "live": ("/v1/audio/transcriptions/live", {"model": "ears"}),
    "live speech": ("/v1/audio/speech/live", {"model": "voice"}),
}
ROUTES: Final = {**JSON_ROUTES, **FORM_ROUTES, **LIVE_ROUTES}
STREAMS: Final = [
    name for name in ROUTES if "sse" in name or "batch" in name or name in LIVE_ROUTES
]
WHOLE: Final = [name for name in ROUTES if name not in STREAMS and name != "speech audio"]


def start(world: World, name: str, headers: Mapping[str, str] = {}, /, **more: Any) -> Call:
    """Ask a route for work, with further fields."""
    path, fields = ROUTES[name]
    fields = {**fields, **more}
    if name in JSON_ROUTES:
        return world.client.start("POST", path, fields, headers)
    if name in LIVE_ROUTES:
        query = "&".join(f"{key}={value}" for key, value in fields.items())
        live = {"transfer-encoding": "chunked", **headers}
        return world.client.start("POST", f"{path}?{query}", b"One more words. Two.", live)
    parts = [(key, None, str(value).encode()) for key, value in fields.items()]
    body, kind = form(("file", "a.wav", sound_file()), *parts)
    return world.client.start("POST", path, body, {**kind, **headers})


async def ended(call: Call) -> Call:
    await call.ended.wait()
    assert call.error is None, call.error
    return call


@pytest.mark.parametrize("name", ROUTES)
async def test_a_client_may_bound_its_own_wait_on_every_route_that_works(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    held = {"run_ms": 60_000}
    async with open_world(spec(session_options=held), spec(EARS, session_options=held)) as world:
        model = str(ROUTES[name][1]["model"])
        first = start(world, {"voice": "speech", "ears": "form"}[model])
        await world.wait_until(lambda: world.model(model).loaded)
        began = trio.current_time()
        second = await ended(start(world, name, busy_timeout_ms=50))
        assert (second.reply.status, second.reply.error()["code"]) == (503, "server_busy")
        assert int(second.reply.headers["retry-after"]) > 0
        assert trio.current_time() - began == pytest.approx(0.05)
        await ended(first)
        assert first.reply.status == 200
        assert world.idle()


@pytest.mark.parametrize("name", ROUTES)
async def test_a_bound_that_is_none_is_refused_on_every_route(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    async with open_world() as world:
        for wrong in (-1, 1.5, 2**31):
            call = await ended(start(world, name, busy_timeout_ms=wrong))
            assert (call.reply.status, call.reply.error()["param"]) == (400, "busy_timeout_ms")


@pytest.mark.parametrize("name", ROUTES)
async def test_a_load_that_fails_is_a_plain_error_on_every_route(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    broken = {"fail_loads": 1}
    async with open_world(spec(load_options=broken), spec(EARS, load_options=broken)) as world:
        call = await ended(start(world, name))
        assert (call.reply.status, call.reply.error()["code"]) == (500, "load_failed")
        assert call.reply.headers["content-type"] == "application/json"
        again = await ended(start(world, name))
        assert again.reply.status == 200
        assert world.idle()


@pytest.mark.parametrize("name", STREAMS)
async def test_every_stream_of_events_looks_the_same_and_ends_with_its_mark(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    async with open_world() as world:
        call = await ended(start(world, name, {"x-request-id": "mine"}))
        headers = call.reply.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-request-id"] == "mine"
        assert "content-length" not in headers
        *events, last = call.reply.events()
        assert last == "[DONE]"
        assert all(set(event) > {"type"} for event in events)
        kinds = [event["type"] for event in events]
        assert [kind for kind in kinds if kind.endswith(".done")] == kinds[-1:]
        assert {"wall_ms", "audio_duration_ms", "rtf"} <= set(events[-1]["timing"])


@pytest.mark.parametrize("name", WHOLE)
async def test_every_whole_answer_says_how_long_it_took(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    slow = {"run_ms": 500}
    async with open_world(spec(session_options=slow), spec(EARS, session_options=slow)) as world:
        reply = (await ended(start(world, name))).reply
        assert reply.headers["x-paraudio-wall-ms"] == "500.0"
        seconds = float(reply.headers["x-paraudio-audio-duration-ms"]) / 1000
        assert seconds > 0
        assert float(reply.headers["x-paraudio-rtf"]) == pytest.approx(0.5 / seconds, abs=1e-3)
        if reply.headers["content-type"] == "application/json":
            body = reply.json()
            assert body.get("result", body)["timing"]["wall_ms"] == 500.0


@pytest.mark.parametrize("name", [*JSON_ROUTES, *FORM_ROUTES])
async def test_fields_that_only_other_servers_have_are_ignored(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    async with open_world() as world:
        call = start(
            world, name, {}, user="me", chunking_strategy="auto", hotwords="", vad_filter=1
        )
        assert (await ended(call)).reply.status == 200


@pytest.mark.parametrize("name", ROUTES)
async def test_an_empty_language_is_none_and_another_word_is_refused(
    open_world: OpenWorld, autojump_clock: MockClock, name: str
) -> None:
    async with open_world() as world:
        if name != "batch":  # whose languages stand in its requests
            for language in ("", "auto", "en", "en-US"):
                assert (await ended(start(world, name, language=language))).reply.status == 200
            reply = (await ended(start(world, name, language="no!"))).reply
            assert (reply.status, reply.error()["param"]) == (400, "language")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_format_that_is_none_is_refused_also_for_a_stream(
    world: World, autojump_clock: MockClock, *, stream: bool
) -> None:
    for field, value in (("response_format", "docx"), ("timestamp_granularities", ["page"])):
        for name in ("transcription", "form"):
            flag = str(stream).lower() if name == "form" else stream
            given = value if name != "form" or isinstance(value, str) else value[0]
            assert (await ended(start(world, name, {}, stream=flag))).reply.status == 200
            call = start(world, name, {}, **{"stream": flag, field: given})
            reply = (await ended(call)).reply
            assert (reply.status, reply.error()["param"]) == (400, field)


@pytest.mark.parametrize(("has", "given"), [(True, {"instructions": "whisper"}), (False, {})])
async def test_instructions_reach_a_family_that_has_a_use_for_them(
    open_scripted: OpenWorld, has: bool, given: dict[str, str]
) -> None:
    family = ScriptedFamily(lambda _: Result(audio=Audio(tone(0.1), RATE)))
    option = Option(name="instructions", kind=str, default=None, doc="How to speak.")
    family.request_options = (option,) if has else ()
    async with open_scripted(family, VOICE) as world:
        body = {"model": "voice", "input": "a", "instructions": "whisper"}
        assert (await world.client.post("/v1/audio/speech", body)).status == 200
    assert [dict(job.options) for job in family.jobs] == [given]


@pytest.mark.parametrize("form", ["{}", '{{"type":"path","path":{}}}'])
async def test_a_recording_of_a_voice_may_lie_in_an_allowed_folder(
    open_scripted: OpenWorld, tmp_path: Path, form: str
) -> None:
    (tmp_path / "bob.wav").write_bytes(sound_file(tone(0.2)))
    family = ScriptedFamily(lambda _: Result(audio=Audio(tone(0.1), RATE)))
    async with open_scripted(family, VOICE, allowed_paths=(str(tmp_path),)) as world:
        reference = json.loads(form.format(json.dumps(str(tmp_path / "bob.wav"))))
        body = {"model": "voice", "input": "a", "voice_ref": reference, "reference_text": "b"}
        reply = await world.client.post("/v1/audio/speech", body)
        assert reply.status == 200, reply.body
    [job] = family.jobs
    assert job.voice.reference is not None
    assert job.voice.reference.seconds == pytest.approx(0.2)
    assert job.voice.reference_text == "b"


async def test_json_has_a_bound_of_its_own_and_is_refused_unread(
    open_world: OpenWorld, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_body, "JSON_BYTES", 1000)
    async with open_world() as world:
        body = {"model": "voice", "input": "a" * 1000}
        call = await ended(world.client.start("POST", "/v1/audio/speech", body, chunk=100))
        assert call.reply.status == 413
        assert "1000 bytes" in call.reply.error()["message"]
        assert call.unread == 11
        chunked = {"transfer-encoding": "chunked"}
        call = await ended(
            world.client.start("POST", "/v1/audio/speech", b"x" * 5000, chunked, chunk=100)
        )
        assert call.reply.status == 413
        big = await ended(start(world, "form"))
        assert big.reply.status == 200


SERVER: Final[dict[str, Any]] = {
    "host": "127.0.0.1",
    "port": 8080,
    "backend": "cpu",
    "device": 0,
    "threads": 2,
    "lazy_load": True,
    "log_request_body": False,
    "max_request_body_bytes": 2 * 2**30,
    "cors_origins": "",
    "ui_enabled": True,
    "ui_management": True,
    "busy_timeout_ms": 300_000,
    "max_loaded_models": 0,
    "idle_unload_ms": 0,
    "min_free_memory_mb": 0,
    "live_ingest": {
        "idle_timeout_ms": 30_000,
        "total_timeout_ms": 600_000,
        "max_body_bytes": 512 * 2**20,
        "max_chunk_bytes": 8 * 2**20,
        "send_timeout_ms": 30_000,
    },
}
"""What the configuration files of this family of servers hold; all but four are the defaults."""
CHANGED: Final = ("backend", "threads", "ui_enabled", "ui_management")


@pytest.mark.parametrize("toml", [False, True])
def test_a_configuration_of_this_family_of_servers_is_taken_as_it_is(
    tmp_path: Path, *, toml: bool
) -> None:
    model = {
        "id": "voice",
        "family": "piper_tts",
        "path": "voices/a.onnx",
        "task": "tts",
        "mode": "streaming",
        "slots": 2,
        "lazy": True,
        "busy_timeout_ms": 1000,
        "live_ingest": {"max_body_bytes": 5},
        "config": "a.json",
        "weight": "a.onnx",
        "load_options": {},
        "session_options": {"max_characters": 10},
        "default_request_options": {"noise_w": 0.5},
        "voice_presets": {"anna": {"voice_ref": "anna.wav", "reference_text": "hello"}},
        "default_voice_preset": "anna",
    }
    voices = tmp_path / "recordings"
    voices.mkdir()
    if toml:
        file = tmp_path / "server.toml"
        top = {**SERVER, "voice_dir": "recordings", "parallel_jobs": True}
        lines = [
            f"{key} = {json.dumps(value)}" for key, value in top.items() if key != "live_ingest"
        ]
        lines.append("[live_ingest]")
        lines += [f"{key} = {value}" for key, value in SERVER["live_ingest"].items()]
        lines += ["[[models]]", 'id = "voice"', 'family = "piper_tts"', 'task = "tts"']
        lines += ['path = "voices/a.onnx"', "slots = 2"]
        file.write_text("\n".join(lines))
    else:
        file = tmp_path / "server.json"
        whole = {**SERVER, "voice_dir": "recordings", "parallel_jobs": True, "models": [model]}
        file.write_text(json.dumps(whole))
    settings = load(config=file, environ={}, flags={}).settings
    assert {key: getattr(settings, key) for key in SERVER if key != "live_ingest"} == {
        key: value for key, value in SERVER.items() if key != "live_ingest"
    }
    assert settings.live_ingest.model_dump() == SERVER["live_ingest"]
    assert settings.voice_dir == str(voices)
    [known] = settings.models
    assert (known.path, known.slots) == (str(tmp_path / "voices" / "a.onnx"), 2)


def test_what_such_a_configuration_leaves_out_is_what_it_would_say(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    file.write_text("{}")
    settings = load(config=file, environ={}, flags={}).settings
    for key, value in SERVER.items():
        if key == "live_ingest":
            assert settings.live_ingest.model_dump() == value
        elif key not in CHANGED:
            assert getattr(settings, key) == value, key
    assert (settings.ui_enabled, settings.ui_management) == (False, False)
    assert settings.models == ()


async def test_files_in_the_folder_of_a_model_may_be_named_in_requests_to_it_alone(
    open_scripted: OpenWorld, tmp_path: Path
) -> None:
    for name in ("ears", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.wav").write_bytes(sound_file(tone(0.2)))
    family = ScriptedFamily(lambda _: Result(text="heard"))
    models = [
        spec(EARS, id=name, path=str(tmp_path / name) if name != "none" else "")
        for name in ("ears", "others", "none")
    ]
    async with open_scripted(family, *models) as world:
        for model in ("ears", "others", "none"):
            for name in ("ears", "others"):
                path = str(tmp_path / name / "a.wav")
                body = {"model": model, "audio": path}
                reply = await world.client.post("/v1/audio/transcriptions", body)
                assert reply.status == (200 if model == name else 400), (model, name)
