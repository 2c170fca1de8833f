"""schemathesis against our own transport on a socket: what the document promises, it tries.

It runs as a program of its own, so that its requests are as foreign as a client's. It is given the
served document with the names of the models that there are, so that it gets past their lookup.
``PARAUDIO_FUZZ_S`` lets it go on for so many seconds, with other data in each run.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from tests.http.conftest import EARS, VOICE, OpenWorld, World
from tests.http.family import ScriptedFamily
from tests.http.openapi import SOUND, Document
from tests.http.test_openapi import HEARD, MODELS, WORDS

from paraudio.store import Shelf, Store
from paraudio.transport import Server, open_tcp

SECONDS: Final = float(os.environ.get("PARAUDIO_FUZZ_S", "0"))
KEY: Final = "a-key-that-is-long-enough"
SETTINGS: Final[Mapping[str, Any]] = {
    "ui_management": True,
    "parallel_jobs": True,
    "api_keys": (KEY,),
}
EXAMPLES: Final = 5
"""How much of each operation is tried where no time is given."""

LEFT_OUT: Final = (
    "/v1/events",  # goes on for ever
    "/v1/ui/models-root",  # makes folders wherever it is told to
)
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


CONFIG: Final = """
[[operations]]
include-name = "POST /v1/models/load"
checks.negative_data_rejection.enabled = false
"""
"""Another ID than those that are put in its place is no wrong one where a model is registered."""


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with words in the place of what only this server knows."""
    made: dict[str, Any] = json.loads(json.dumps(document))
    for path, item in made["paths"].items():
        for method, operation in item.items():
            model = MODELS.get(f"{method.upper()} {path}", "voice")
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "model_id":
                    parameter["schema"] = {"enum": ["voice", "ears", "a/b", "nobody"]}
            for media in operation.get("requestBody", {}).get("content", {}).values():
                media["schema"] = _narrow(media["schema"], model)
    paths = {path: item for path, item in made["paths"].items() if path not in LEFT_OUT}
    for path in ("/v1/models/load", "/v1/models/unload"):
        # A model may have that name, as far as GET is concerned.
        paths[path]["get"] = {**paths["/v1/models/{model_id}"]["get"], "parameters": []}
        paths[path]["get"]["operationId"] = f"{path} as a model"
    # Whatever a plain request says to a websocket, it is told that it is one.
    paths["/v1/realtime"]["get"]["parameters"] = []
    return {**made, "paths": paths}


def _narrow(schema: Any, model: str) -> Any:
    if isinstance(schema, list):
        return [_narrow(one, model) for one in schema]
    if not isinstance(schema, dict):
        return schema
    # A thousand parts of a form are a test of their own, and nothing to be made again and again.
    made = {key: _narrow(value, model) for key, value in schema.items() if key != "maxItems"}
    fields = made.get("properties")
    if isinstance(fields, dict):
        known = {
            "model": [model],
            "id": ["voice", "ears"],
            "family": ["simulated"],
            "audio_base64": [base64.b64encode(SOUND).decode(), None],
            "options": [{}, {"run_ms": 1}, None],
            "load_options": [{}, {"capacity": 3}],
            "session_options": [{}, {"chunks": 2}],
            "default_request_options": [{}],
        }
        for name, words in known.items():
            if name in fields and fields[name].get("type") != "null":
                fields[name] = {"enum": words}
    return made


@asynccontextmanager
async def served(open_world: OpenWorld, tmp_path: Path) -> AsyncIterator[tuple[World, str]]:
    """A world behind a port, with a model for every route."""
    async with trio.open_nursery() as nursery:
        shelf = Shelf(Store(tmp_path / "store"), stage=Store, nursery=nursery)
        async with open_world(
            VOICE,
            EARS,
            WORDS,
            settings=SETTINGS,
            families={"scripted": ScriptedFamily(lambda _: HEARD)},
            threads=True,
            shelf=shelf,
        ) as world:
            server = Server(world.client.app)
            [listener] = await open_tcp("127.0.0.1", 0)
            await nursery.start(server.serve, [listener])
            yield world, f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
            await server.wait_idle()
            assert world.idle()
            server.stop()
        nursery.cancel_scope.cancel()


@pytest.mark.process
async def test_schemathesis_finds_nothing(open_world: OpenWorld, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(narrowed(Document(SETTINGS).all)))
    if SECONDS:
        much = [f"--max-time={SECONDS:.0f}", "--max-examples=1000", "--generation-database=none"]
    else:
        much = ["--generation-deterministic", f"--max-examples={EXAMPLES}"]
    async with served(open_world, tmp_path) as (_, url):
        done = await trio.run_process(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", str(document), f"--url={url}"),
                f"--checks={','.join(CHECKS)}",
                f"--header=Authorization: Bearer {KEY}",
                "--phases=coverage,fuzzing",
                "--suppress-health-check=all",
                "--warnings=off",
                "--request-timeout=20",
                "--no-color",
                "--continue-on-failure",
                *much,
            ],
            cwd=tmp_path,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    told = (done.stdout or b"").decode()
    (tmp_path / "told.txt").write_text(told)
    assert done.returncode == 0, told[-20_000:]
