"""What the document says of one route, beside what the route itself says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paraudio.http.openapi._schema import Schema

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
EVENTS: Final = "text/event-stream"

BODY_ERRORS: Final = (400, 413, 415, 499)
"""What any route answers that reads a body."""

WORK_ERRORS: Final = (*BODY_ERRORS, 404, 500, 503, 504)
"""What any route answers that works with a model."""

UPLOAD_ERRORS: Final = (*WORK_ERRORS, 507)
"""What any route of these answers that takes files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One content type of an answer.

    Attributes:
        schema: The shape of the body; of a stream, that of the bare text.
        events: Of a stream of events, the shape of each kind by its ``type``.
    """

    schema: Schema
    events: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer.

    Attributes:
        doc: What it means.
        content: Its bodies by content type; none for an answer without one.
        headers: The names of its headers, as in `paraudio.http.openapi._headers`.
    """

    doc: str
    content: Mapping[str, Media] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the document says of one route.

    Attributes:
        answers: The good answers by status.
        notes: More than the handler's own first sentence.
        parameters: Of the path and of the query, as OpenAPI writes them.
        body: The shapes of the body by content type; empty where there is none.
        body_required: Whether there must be a body.
        errors: The statuses of its own errors; those of its gate come by themselves.
    """

    answers: Mapping[int, Answer]
    notes: str = ""
    parameters: tuple[Schema, ...] = ()
    body: Mapping[str, Schema] = field(default_factory=dict)
    body_required: bool = True
    errors: tuple[int, ...] = ()


def json(schema: Schema, doc: str, *, headers: tuple[str, ...] = ()) -> Mapping[int, Answer]:
    """A 200 with JSON, and no other good answer."""
    return {200: Answer(doc=doc, content={JSON: Media(schema=schema)}, headers=headers)}


def events(kinds: Mapping[str, Schema]) -> Media:
    """A stream of events, each one line of JSON."""
    names = ", ".join(f"`{kind}`" for kind in kinds)
    doc = f"Server-sent events, each one line `data: JSON`: {names}; at the end `data: [DONE]`."
    return Media(schema={"description": doc}, events=kinds)


def query(name: str, schema: Schema, *, required: bool = False) -> Schema:
    """A parameter of the query."""
    described = schema.get("description", "")
    plain = {key: value for key, value in schema.items() if key != "description"}
    made: Schema = {"name": name, "in": "query", "required": required}
    # An object is written as JSON.
    made |= {"content": {JSON: {"schema": plain}}} if _is_object(plain) else {"schema": plain}
    return {**made, "description": described} if described else made


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object"


def in_path(name: str, doc: str) -> Schema:
    """A parameter of the path."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "description": doc,
    }
