"""The document says what the handlers do: every route, field, word, answer, and nothing else."""

import base64
import json
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from openapi_spec_validator import validate
from tests.http.client import Reply
from tests.http.conftest import EARS, VOICE, OpenWorld, World, spec
from tests.http.family import ScriptedFamily
from tests.http.openapi import SOUND, WRONG, Document, alternatives, as_form, words
from tests.http.sounds import RATE, tone

from paraudio.config import Settings
from paraudio.config._model import ModelObject
from paraudio.engines import Audio, Result, Segment, SpeakerTurn, Word
from paraudio.http import ROUTES, Gate
from paraudio.http._fields import Fields
from paraudio.http.openapi import operations, path_of
from paraudio.spec import ModelSpec
from paraudio.store import Shelf, Store

SETTINGS: Final[Mapping[str, Any]] = {"ui_management": True, "parallel_jobs": True}
KEYS: Final = {"api_keys": ("a-key-that-is-long-enough",)}
DOCUMENT: Final = Document(SETTINGS)
JSON: Final = "application/json"

WORDS: Final = ModelSpec(id="words", family="scripted", path="/models/words", task="align")
HEARD: Final = Result(
    text="one two",
    language="en",
    audio=None,
    segments=(Segment(0, 4000, "one two", 0.5),),
    speaker_turns=(SpeakerTurn("a", 0, 4000),),
    words=(Word("one", 0, 2000, 0.5), Word("two", 2000, 4000)),
    sample_rate=RATE,
)

BASE64: Final = base64.b64encode(SOUND).decode()
FINE: Final[Mapping[str, object]] = {
    "model": "voice",
    "input": "hello",
    "text": "one two",
    "language": "en",
    "voice": {"id": "alloy"},
    "voice_id": "alloy",
    "voice_ref": {"type": "base64", "data": BASE64},
    "reference_text": "one two",
    "speed": 1.5,
    "seed": str(2**64 - 1),
    "options": {},
    "temperature": 0.5,
    "instructions": "slowly",
    "prompt": "numbers",
    "response_format": "json",
    "stream_format": None,
    "stream": False,
    "busy_timeout_ms": 60_000,
    "timestamp_granularities[]": ["word"],
    "timestamp_granularities": ["segment"],
    "audio": {"type": "base64", "data": BASE64},
    "audio_base64": BASE64,
    "file": SOUND,
    "request": None,
    "requests": [{"text": "hello"}],
    "model_ids": ["voice", "nobody"],
    "fence": True,
    "id": "voice",
    "family": "simulated",
    "path": "/models/voice",
    "task": "tts",
    "mode": "offline",
    "slots": 1,
    "lazy": True,
    "max_queued_requests": 5,
    "load_timeout_ms": 60_000,
    "isolation": "thread",
    "live_ingest": {"max_chunk_bytes": 1000},
    "config": "config.json",
    "weight": "weights.bin",
    "load_options": {},
    "session_options": {},
    "default_request_options": {},
    "voice_presets": {"anna": {"voice_id": "a"}},
    "default_voice_preset": "anna",
    "sample_rate": 8000,
    "channels": 2,
    "sample_format": "f32le",
}
"""A value of each field that every route takes that has it."""

MODELS: Final = {
    "POST /v1/audio/transcriptions": "ears",
    "POST /v1/audio/transcriptions/details": "ears",
    "POST /v1/audio/translations": "ears",
    "POST /v1/audio/alignments": "words",
    "POST /v1/batches/transcriptions": "ears",
}
"""The models of the routes that want another one than a voice."""

READING: Final = [
    (name, kind)
    for name, kind in DOCUMENT.bodies()
    if "/ui/" not in name and name != "POST /v1/models/load" and not name.endswith("/live")
]
"""The bodies whose fields the handlers read one by one."""
FIRST: Final = ("audio", "voice_id", "timestamp_granularities[]", "busy_timeout_ms")
"""Fields in whose stead others are read where they are missing."""
IN_FORMS: Final = {"file", "timestamp_granularities", "timestamp_granularities[]"}
"""What is read from the form itself: files, and what may come several times."""
JOBS: Final = ("", "request", "requests[0]")
"""Where the fields of a job stand."""
CLOSED: Final = [
    name
    for (name, _), schema in DOCUMENT.bodies().items()
    if schema.get("additionalProperties") is False
]


@asynccontextmanager
async def opened(open_world: OpenWorld, tmp_path: Path) -> AsyncIterator[World]:
    """A world with a model for every route."""
    scripted = ScriptedFamily(lambda _: HEARD)
    ears = spec(EARS, session_options={"chunks": 2})
    async with trio.open_nursery() as nursery:
        shelf = Shelf(Store(tmp_path / "store"), stage=Store, nursery=nursery)
        async with open_world(
            VOICE,
            ears,
            WORDS,
            settings=SETTINGS,
            families={"scripted": scripted},
            threads=True,
            shelf=shelf,
        ) as world:
            yield world
        nursery.cancel_scope.cancel()


def filled(name: str, schema: dict[str, Any], **changes: object) -> dict[str, object]:
    """A body with every field of a shape."""
    body = {field: FINE[field] for field in schema["properties"]}
    if "model" in body:
        body["model"] = MODELS.get(name, "voice")
    if "requests" in body:
        body["requests"] = [filled("", schema["properties"]["requests"]["items"])]
    if schema["properties"].get("request", {}).get("type") == "object":
        body["request"] = filled("", schema["properties"]["request"])
    return {**body, **changes}


def without(body: Mapping[str, object], *names: str) -> dict[str, object]:
    """A body without some fields, also within its jobs."""
    made: dict[str, object] = {}
    for field, value in body.items():
        if field in names:
            continue
        if field == "request" and isinstance(value, dict):
            made[field] = without(value, *names)
        elif field == "requests" and isinstance(value, list):
            made[field] = [without(one, *names) for one in value]
        else:
            made[field] = value
    return made


async def send(world: World, name: str, kind: str, body: Mapping[str, object]) -> Reply:
    """Send a body as JSON or as a form."""
    method, path = name.split(" ")
    if kind == JSON:
        return await world.client.call(method, path, dict(body))
    given = {field: value for field, value in body.items() if value is not None}
    return await world.client.call(method, path, *as_form(given))


@pytest.fixture
def read_fields(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The dotted paths of every field that was looked at."""
    seen: set[str] = set()
    for reader in ("get", "text"):
        real = getattr(Fields, reader)

        def note(self: Fields, name: str, real: Any = real) -> Any:
            seen.add(self.param(name))
            return real(self, name)

        monkeypatch.setattr(Fields, reader, note)
    return seen


def named_in(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted paths of every field of a shape."""
    for field, inner in schema.get("properties", {}).items():
        path = f"{prefix}{field}"
        yield path
        for one in (inner, *inner.get("anyOf", ())):
            yield from named_in(one, f"{path}.")
            yield from named_in(one.get("items", {}), f"{path}[0].")


def level(path: str) -> str:
    """Where a field stands."""
    return path.rpartition(".")[0]


@pytest.mark.parametrize("more", [{}, KEYS, {"parallel_jobs": False, "ui_management": False}])
def test_the_document_is_valid(more: dict[str, Any]) -> None:
    validate(Document({**SETTINGS, **more}).all)


def test_every_route_is_described_and_no_other() -> None:
    real = {f"{route.method} {path_of(route)}" for route in ROUTES}
    assert set(DOCUMENT.operations()) == real
    assert set(operations(Settings())) == real
    names = [one["operationId"] for one in DOCUMENT.operations().values()]
    assert len(names) == len(set(names))
    assert all(one["summary"] for one in DOCUMENT.operations().values())


def test_keys_are_asked_for_where_they_are_set_and_only_where_a_route_wants_them() -> None:
    keyed = Document(KEYS)
    assert "securitySchemes" not in DOCUMENT.all["components"]
    assert keyed.all["components"]["securitySchemes"] == {
        "key": {"type": "http", "scheme": "bearer"}
    }
    for route in ROUTES:
        operation = keyed.operations()[f"{route.method} {path_of(route)}"]
        assert operation["security"] == ([] if route.gate is Gate.OPEN else [{"key": []}])
        assert ("401" in operation["responses"]) == (route.gate is not Gate.OPEN)
        assert ("403" in operation["responses"]) == (route.gate is Gate.MANAGEMENT)


def test_every_reference_leads_somewhere_and_every_shape_is_used() -> None:
    text = json.dumps(DOCUMENT.all)
    for name in DOCUMENT.all["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, name


async def test_each_server_gives_anyone_its_own_document(open_world: OpenWorld) -> None:
    for settings in ({**SETTINGS, **KEYS}, SETTINGS, {"default_response_format": "pcm"}):
        async with open_world(VOICE, settings=settings) as world:
            told = json.loads(json.dumps(Document({"parallel_jobs": True, **settings}).all))
            for _ in range(2):
                reply = await world.client.get("/openapi.json")
                assert reply.status == 200
                assert reply.json() == told


@pytest.mark.parametrize(("name", "kind"), READING)
async def test_every_documented_field_is_taken_and_every_field_that_is_read_is_documented(
    open_world: OpenWorld, tmp_path: Path, read_fields: set[str], name: str, kind: str
) -> None:
    async with opened(open_world, tmp_path) as world:
        for schema in alternatives(DOCUMENT.bodies()[name, kind]):
            read_fields.clear()
            for body in (filled(name, schema), without(filled(name, schema), *FIRST)):
                problems = list(DOCUMENT.problems(schema, body)) if kind == JSON else []
                assert not problems
                reply = await send(world, name, kind, body)
                assert reply.status == (400 if name.endswith("translations") else 200), reply.body
                DOCUMENT.check(name, reply)
            documented = set(named_in(schema)) - (set() if kind == JSON else IN_FORMS)
            assert read_fields <= documented
            assert {path for path in documented if level(path) in JOBS} <= read_fields


@pytest.mark.parametrize(("name", "kind"), [one for one in READING if one[1] == JSON])
async def test_what_does_not_fit_a_documented_field_is_refused_by_its_name(
    open_world: OpenWorld, tmp_path: Path, name: str, kind: str
) -> None:
    async with opened(open_world, tmp_path) as world:
        for schema in alternatives(DOCUMENT.bodies()[name, kind]):
            fine = without(filled(name, schema), *FIRST)
            for field, shape in schema["properties"].items():
                tried = 0
                for value in (None, *WRONG):
                    body = {**fine, field: value}
                    if DOCUMENT.is_valid(DOCUMENT.bodies()[name, kind], body):
                        continue
                    reply = await send(world, name, kind, body)
                    assert reply.status == 400, (field, value)
                    param = str(reply.error()["param"])
                    # Without any sound it is the first of its two fields that is missed.
                    expected = "audio" if field == "audio_base64" and value is None else field
                    assert param.startswith(expected.removesuffix("[]")), (field, value)
                    tried += 1
                assert tried or not shape.keys() - {"description"}


@pytest.mark.parametrize(("name", "kind"), READING)
async def test_every_word_that_the_document_names_is_taken(
    open_world: OpenWorld, tmp_path: Path, name: str, kind: str
) -> None:
    async with opened(open_world, tmp_path) as world:
        for schema in alternatives(DOCUMENT.bodies()[name, kind]):
            for field, shape in schema["properties"].items():
                for word in words(shape):
                    reply = await send(world, name, kind, filled(name, schema, **{field: word}))
                    assert reply.status == 200, (field, word, reply.body)
                    DOCUMENT.check(name, reply)


LIVE: Final = ("POST /v1/audio/transcriptions/live", "POST /v1/audio/speech/live")


async def ask_live(world: World, name: str, fields: Mapping[str, object]) -> Reply:
    """Send a little of what is still being made, with fields in the query."""
    pairs = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in fields.items()
        if value is not None
    }
    method, path = name.split(" ")
    body = b"Good morning. " if "speech" in name else bytes(800)
    kind = "text/plain" if "speech" in name else "application/octet-stream"
    query = urllib.parse.urlencode(pairs)
    return await world.client.call(method, f"{path}?{query}", body, {"content-type": kind})


def live_fields(name: str) -> dict[str, dict[str, Any]]:
    """The documented fields of the query of a live route, by name."""
    return {
        parameter["name"]: parameter.get("schema", {"type": "object"})
        for parameter in DOCUMENT.operations()[name]["parameters"]
    }


@pytest.mark.parametrize("name", LIVE)
async def test_every_field_of_a_live_route_is_documented_taken_and_refused_where_it_is_wrong(
    open_world: OpenWorld, tmp_path: Path, read_fields: set[str], name: str
) -> None:
    fields = live_fields(name)
    fine = {field: FINE[field] for field in fields}
    fine |= {"model": "voice" if "speech" in name else "ears"}
    for field in ("voice", "voice_ref"):
        if field in fine:
            fine[field] = {"voice": "alloy", "voice_ref": f"data:audio/wav;base64,{BASE64}"}[field]
    fine |= {"response_format": "wav"} if "response_format" in fine else {}
    async with opened(open_world, tmp_path) as world:
        reply = await ask_live(world, name, fine)
        assert reply.status == 200, reply.body
        DOCUMENT.check(name, reply)
        assert read_fields == set(fields)
        for field, schema in fields.items():
            for word in words(schema):
                reply = await ask_live(world, name, {**fine, field: word})
                assert reply.status == 200, (field, word, reply.body)
                DOCUMENT.check(name, reply)
            tried = ["maybe", "-1", "1.5", "1e99", "a/b", "no such thing!!", "[]"]
            kinds = {one.get("type") for one in (schema, *schema.get("anyOf", ()))}
            for value in tried if kinds <= {"integer", "number", "boolean"} else ():
                if DOCUMENT.is_valid(schema, json.loads(value) if value[-1].isdigit() else value):
                    continue
                reply = await ask_live(world, name, {**fine, field: value})
                assert (reply.status, reply.error()["param"]) == (400, field), value


async def test_a_plain_request_to_a_websocket_is_answered_as_documented(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as world:
        reply = await world.client.get("/v1/realtime?model=ears")
        assert reply.status == 426
        DOCUMENT.check("GET /v1/realtime", reply)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("route", ["GET /v1/models", "GET /v1/models/{model_id}"])
async def test_every_flag_of_a_query_is_taken_and_nothing_else(
    open_world: OpenWorld, tmp_path: Path, route: str, *, flag: bool
) -> None:
    async with opened(open_world, tmp_path) as world:
        path = route.removeprefix("GET ").format(model_id="voice")
        for parameter in DOCUMENT.operations()[route]["parameters"]:
            if parameter["in"] == "query":
                name = parameter["name"]
                reply = await world.client.get(f"{path}?{name}={str(flag).lower()}")
                assert reply.status == 200
                DOCUMENT.check(route, reply)
                wrong = await world.client.get(f"{path}?{name}=perhaps")
                assert (wrong.status, wrong.error()["param"]) == (400, name)


@pytest.mark.parametrize("name", CLOSED)
async def test_a_field_that_a_managing_route_does_not_document_is_refused(
    open_world: OpenWorld, tmp_path: Path, name: str
) -> None:
    schema = DOCUMENT.bodies()[name, JSON]
    fine = {"id": "silero-vad"} if "/ui/" in name else filled(name, schema)
    if name.endswith("models-root"):
        fine = {"path": str(tmp_path / "new")}
    async with opened(open_world, tmp_path) as world:
        reply = await send(world, name, JSON, {**fine, "undocumented": 1})
        assert (reply.status, reply.error()["param"]) == (400, "undocumented")
        assert "undocumented" in reply.error()["message"]


def test_every_body_of_a_managing_route_is_closed() -> None:
    managing = {
        f"{route.method} {path_of(route)}"
        for route in ROUTES
        if route.gate is Gate.MANAGEMENT or "/unload" in route.path
    }
    assert set(CLOSED) == managing & {name for name, _ in DOCUMENT.bodies()}


async def test_a_registration_takes_every_documented_field_and_no_other(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    name = "POST /v1/models/load"
    schema = DOCUMENT.bodies()[name, JSON]
    assert set(schema["properties"]) == set(ModelObject.model_fields)
    serial = Document({**SETTINGS, "parallel_jobs": False}).bodies()[name, JSON]
    assert set(schema["properties"]) - set(serial["properties"]) == {"slots"}
    fine = filled(name, schema)
    assert DOCUMENT.is_valid(schema, fine)
    async with opened(open_world, tmp_path) as world:
        DOCUMENT.check(name, await send(world, name, JSON, fine))
        for field, shape in schema["properties"].items():
            for word in words(shape):
                reply = await send(world, name, JSON, {**fine, field: word})
                # Not every task is one of the simulated family, nor every isolation one of these.
                assert reply.status == 200 or reply.error()["param"] in {"task", "isolation"}
            for value in WRONG:
                body = {**fine, field: value}
                if not DOCUMENT.is_valid(schema, body):
                    reply = await send(world, name, JSON, body)
                    assert reply.status == 400, (field, value)
                    assert str(reply.error()["param"]).startswith(field), (field, value)
        for missing in schema["required"]:
            reply = await send(world, name, JSON, without(fine, missing))
            assert (reply.status, reply.error()["param"]) == (400, missing)


PLAIN: Final = (
    ("GET /health", "/health"),
    ("GET /health/live", "/health/live"),
    ("GET /health/ready", "/health/ready"),
    ("GET /metrics", "/metrics"),
    ("GET /openapi.json", "/openapi.json"),
    ("GET /v1/models", "/v1/models"),
    ("GET /v1/models/{model_id}", "/v1/models/voice"),
    ("GET /v1/models/{model_id}", "/v1/models/nobody"),
    ("GET /v1/audio/voices", "/v1/audio/voices"),
    ("GET /v1/audio/voices", "/v1/audio/voices?model=voice"),
    ("GET /v1/audio/voices", "/v1/audio/voices?model=nobody"),
    ("GET /v1/audio/voices", "/v1/audio/voices?objects=true"),
    ("GET /v1/audio/models", "/v1/audio/models"),
    ("GET /v1/requests", "/v1/requests"),
    ("GET /v1/events", "/v1/events?since=x"),
    ("GET /v1/ui/models-root", "/v1/ui/models-root"),
    ("GET /v1/ui/models/install-status", "/v1/ui/models/install-status"),
)


@pytest.mark.parametrize(("name", "path"), PLAIN)
async def test_what_is_asked_for_looks_as_documented(
    open_world: OpenWorld, tmp_path: Path, name: str, path: str
) -> None:
    async with opened(open_world, tmp_path) as world:
        DOCUMENT.check(name, await world.client.get(path))


async def test_a_request_that_is_listed_and_cancelled_looks_as_documented(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as world:
        body = {"model": "voice", "input": "a", "options": {"run_ms": 60_000}}
        call = world.client.start("POST", "/v1/audio/speech", body, {"x-request-id": "mine"})
        await world.wait_until(lambda: world.model().active_slots == 1)
        listed = await world.client.get("/v1/requests")
        assert [one["id"] for one in listed.json()["data"]] == ["mine"]
        DOCUMENT.check("GET /v1/requests", listed)
        name = "DELETE /v1/requests/{request_id}"
        DOCUMENT.check(name, await world.client.call("DELETE", "/v1/requests/mine"))
        await call.ended.wait()
        DOCUMENT.check("POST /v1/audio/speech", call.reply)
        assert call.reply.status == 499
        DOCUMENT.check(name, await world.client.call("DELETE", "/v1/requests/mine"))


async def test_changes_look_as_documented(open_world: OpenWorld, tmp_path: Path) -> None:
    async with opened(open_world, tmp_path) as world:
        watch = world.client.start("GET", "/v1/events")
        await world.client.post("/v1/audio/speech", {"model": "voice", "input": "a"})
        world.runtime.drain()
        await watch.ended.wait()
        kinds = {event["type"] for event in watch.reply.events() if event != "[DONE]"}
        assert kinds == {"snapshot", "change"}
        DOCUMENT.check("GET /v1/events", watch.reply)
        ready = await world.client.get("/health/ready")
        assert ready.status == 503
        DOCUMENT.check("GET /health/ready", ready)


async def test_a_stream_that_fails_looks_as_documented(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as world:
        body = {"model": "voice", "input": "a", "stream": True, "options": {"fail": True}}
        reply = await world.client.post("/v1/audio/speech", body)
        assert reply.events()[-1]["type"] == "error"
        DOCUMENT.check("POST /v1/audio/speech", reply)


async def test_a_sound_in_an_answer_looks_as_documented(open_scripted: OpenWorld) -> None:
    sound = Result(text="a", audio=Audio(tone(), RATE), sample_rate=RATE)
    async with open_scripted(ScriptedFamily(lambda _: sound), VOICE) as world:
        for route in ("run", "stream"):
            reply = await world.client.post(f"/v1/tasks/{route}", {"model": "voice", "text": "a"})
            assert reply.status == 200
            DOCUMENT.check(f"POST /v1/tasks/{route}", reply)


async def test_an_unload_that_fails_looks_as_documented(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    name = "POST /v1/models/unload"
    async with opened(open_world, tmp_path) as world:
        DOCUMENT.check(name, await world.client.post("/v1/models/unload", {"id": "nobody"}))
        for path in ("install", "install/stop", "delete"):
            reply = await world.client.post(f"/v1/ui/models/{path}", {"id": "nobody"})
            assert reply.status == 404
            DOCUMENT.check(f"POST /v1/ui/models/{path}", reply)
        new = {"path": str(tmp_path / "new")}
        name = "POST /v1/ui/models-root"
        DOCUMENT.check(name, await world.client.post("/v1/ui/models-root", new))


async def test_a_method_that_is_not_documented_is_405_with_those_that_are(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as world:
        for path, item in DOCUMENT.all["paths"].items():
            documented = {method.upper() for method in item}
            if path in {"/v1/models/load", "/v1/models/unload"}:
                documented.add("GET")  # of a model with that ID
            more = {"OPTIONS", "HEAD"} if "GET" in documented else {"OPTIONS"}
            real = path.format(model_id="voice", request_id="x")
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - documented:
                reply = await world.client.call(method, real)
                assert reply.status == 405, (method, path)
                assert set(reply.headers["allow"].split(", ")) == documented | more
