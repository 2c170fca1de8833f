"""The document as the tests use it: shapes to judge with, and values to fill them with."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs
from tests.http.client import Reply, form
from tests.http.sounds import sound_file

from paraudio.config import Settings
from paraudio.http import ROUTES
from paraudio.http.openapi import Schema, document

WRONG: Final[tuple[object, ...]] = (
    True,
    -1,
    10**12,
    0.5,
    "no such value",
    "",
    " ",
    [],
    ["x"],
    {},
    {"type": "x"},
)
"""Values of every kind, each of which is wrong for most fields."""

METHODS: Final = {"get": "GET", "post": "POST", "delete": "DELETE"}


class Document:
    """The document of one server."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.all = document(ROUTES, Settings(**settings))
        self._validators: dict[tuple[str, bool], Any] = {}

    def operations(self) -> dict[str, Schema]:
        """Every operation by ``METHOD /path``."""
        return {
            f"{METHODS[method]} {path}": operation
            for path, item in self.all["paths"].items()
            for method, operation in item.items()
        }

    def bodies(self) -> dict[tuple[str, str], Schema]:
        """The shape of each body, by operation and content type."""
        return {
            (name, kind): media["schema"]
            for name, operation in self.operations().items()
            for kind, media in operation.get("requestBody", {}).get("content", {}).items()
        }

    def is_valid(self, schema: Schema, value: object, *, closed: bool = False) -> bool:
        """Whether a value has a shape; ``closed`` allows no field that the shape does not name."""
        return not list(self.problems(schema, value, closed=closed))

    def problems(self, schema: Schema, value: object, *, closed: bool = False) -> Iterator[str]:
        """What is wrong with a value."""
        key = json.dumps(schema), closed
        if key not in self._validators:
            whole = {**schema, "components": self.all["components"]}
            made = jsonschema_rs.validator_for(_closed(whole) if closed else whole)
            self._validators[key] = made
        for error in self._validators[key].iter_errors(value):
            yield f"{list(error.instance_path)}: {error.message}"

    def check(self, name: str, reply: Reply) -> None:
        """Hold an answer to the document: its status, its content type, its body.

        Raises:
            AssertionError: The document says something else.
        """
        answers = self.operations()[name]["responses"]
        assert str(reply.status) in answers, (name, reply.status, reply.body[:300])
        answer = self._resolved(answers[str(reply.status)])
        for header in answer.get("headers", {}):
            given = reply.headers.get(header.lower())
            streamed = reply.headers.get("content-type", "").startswith("text/event-stream")
            assert given is not None or streamed, (name, header)
        kind = reply.headers["content-type"].partition(";")[0]
        assert kind in answer["content"], (name, kind)
        media = answer["content"][kind]
        if kind == "application/json":
            problems = list(self.problems(media["schema"], reply.json(), closed=True))
            assert not problems, (name, problems)
        for event in reply.events() if "x-events" in media else []:
            if event == "[DONE]":
                continue
            assert event["type"] in media["x-events"], (name, event)
            schema = media["x-events"][event["type"]]
            assert not list(self.problems(schema, event)), (name, event)

    def _resolved(self, answer: Schema) -> Schema:
        if "$ref" not in answer:
            return answer
        status = answer["$ref"].rpartition("/")[2]
        found: Schema = self.all["components"]["responses"][status]
        return found


def _closed(schema: Any) -> Any:
    """The same shapes, without room for fields that they do not name."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


def alternatives(schema: Schema) -> list[Schema]:
    """The shapes of a body that is one of several objects; itself, where it is one."""
    return [one for one in schema.get("anyOf", ()) if "properties" in one and "type" in one] or [
        schema
    ]


def words(schema: Schema) -> list[Any]:
    """Every value that a shape names, within lists and alternatives as well."""
    found = list(schema.get("enum", ()))
    for one in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        found += words(one)
    return [word for word in dict.fromkeys(found) if word is not None]


def as_form(values: Mapping[str, object]) -> tuple[bytes, dict[str, str]]:
    """Fields as a form; bytes are files, lists come several times, objects are JSON."""
    parts: list[tuple[str, str | None, bytes]] = []
    for name, value in values.items():
        for one in value if isinstance(value, list) and value else [value]:
            if isinstance(one, bytes):
                parts.append((name, "a.wav", one))
            else:
                text = one if isinstance(one, str) else json.dumps(one)
                parts.append((name, None, text.encode()))
    return form(*parts)


SOUND: Final = sound_file()
