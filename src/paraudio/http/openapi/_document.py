"""The document itself: every route of the table, and what its operation says."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from paraudio import __version__
from paraudio.config import Settings
from paraudio.http._core import Gate, Route
from paraudio.http.openapi import _audio, _live, _manage, _tasks
from paraudio.http.openapi._components import schemas
from paraudio.http.openapi._operation import FORM, JSON, Answer, Media, Operation
from paraudio.http.openapi._schema import Schema

VERSION: Final = "3.1.0"

_VARIABLE: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_ALWAYS: Final = (400, 405, 408, 431)
"""What any request can be answered before its route is looked at, or by it."""

_OF_GATE: Final[Mapping[Gate, tuple[int, ...]]] = {
    Gate.OPEN: (),
    Gate.KEYED: (401,),
    Gate.MANAGEMENT: (401, 403),
}
_ERRORS: Final[Mapping[int, str]] = {
    400: "The request is wrong: in the field that `param` names, or as HTTP.",
    401: "A key is needed, and none, or a wrong one, was given.",
    403: "Management is off here; `ui_management` turns it on.",
    404: "There is no such model or thing.",
    405: "The route does not take that method.",
    408: "The head, or the body of a live upload, did not come in time.",
    409: "Something that is under way does not allow it.",
    413: "The body, or a part of it, is too large.",
    415: "The route does not take that content type.",
    426: "The route is a websocket, and the request was none.",
    431: "The head of the request is too large.",
    499: "Somebody cancelled the request by its ID.",
    500: "A load, a preparation or a run failed.",
    503: "Another try later can succeed.",
    504: "A load did not end in time.",
    507: "The server's folder for temporary files has no room for the upload.",
}
_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "X-Request-Id": ("string", "The ID of the request, for its log and its cancel."),
    "X-Paraudio-Wall-Ms": ("string", "`timing.wall_ms`; not of a stream."),
    "X-Paraudio-Audio-Duration-Ms": ("string", "`timing.audio_duration_ms`; not of a stream."),
    "X-Paraudio-RTF": ("string", "`timing.rtf`; not of a stream."),
    "X-Paraudio-Sample-Rate": ("string", "Samples a second of the sound as the model makes it."),
    "Retry-After": ("string", "Seconds after which another try makes sense."),
    "WWW-Authenticate": ("string", "`Bearer`."),
    "Allow": ("string", "The methods that the route takes."),
    "Upgrade": ("string", "`websocket`."),
    "X-Should-Retry": ("string", "`false`: client libraries are not to send it again."),
}
_HEADERS_OF_ERRORS: Final[Mapping[int, str]] = {
    401: "WWW-Authenticate",
    405: "Allow",
    426: "Upgrade",
    503: "Retry-After",
    507: "X-Should-Retry",
}


def operations(settings: Settings) -> dict[str, Operation]:
    """Every operation by method and path."""
    return {
        **_manage.operations(settings),
        **_audio.operations(settings),
        **_live.operations(),
        **_tasks.operations(),
    }


def path_of(route: Route) -> str:
    """The path of a route as documents write it."""
    return _VARIABLE.sub(r"{\1}", route.path)


def summary_of(route: Route) -> str:
    """What a route does: the first sentence of its handler."""
    first = (route.handler.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.split()).replace("``", "`").removesuffix(".")


def document(routes: Iterable[Route], settings: Settings) -> Schema:
    """Make the document of a server.

    Args:
        routes: The table of routes.
        settings: The server's: keys, slots and defaults differ from server to server.

    Returns:
        An OpenAPI 3.1 document.
    """
    told = operations(settings)
    paths: dict[str, Schema] = {}
    for route in routes:
        path = path_of(route)
        operation = told.get(f"{route.method} {path}") or Operation(answers={200: _plain()})
        item = _operation(route, operation, keyed=bool(settings.api_keys))
        paths.setdefault(path, {})[route.method.lower()] = item
    components: Schema = {
        "schemas": schemas(),
        "responses": {str(status): _error(status) for status in _ERRORS},
        "headers": {name: _header(*about) for name, about in _HEADERS.items()},
    }
    if settings.api_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": VERSION,
        "info": {
            "title": "paraudio",
            "version": __version__,
            "description": "A local server for audio models.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
    }


def _plain() -> Answer:
    return Answer(doc="It was done.")


def _operation(route: Route, operation: Operation, *, keyed: bool) -> Schema:
    made: Schema = {
        "operationId": route.handler.__name__,
        "summary": summary_of(route),
        "tags": [_tag(route)],
    }
    if notes := _notes(route, operation):
        made["description"] = notes
    if operation.parameters:
        made["parameters"] = list(operation.parameters)
    if operation.body:
        made["requestBody"] = {
            "required": operation.body_required,
            "content": {kind: _body(kind, schema) for kind, schema in operation.body.items()},
        }
    good = {str(status): _answer(answer) for status, answer in operation.answers.items()}
    bad = (*_ALWAYS, *_OF_GATE[route.gate], *operation.errors)
    errors = {str(status): _reference(status) for status in sorted({*bad})}
    made["responses"] = {**errors, **good}
    if keyed:
        made["security"] = [] if route.gate is Gate.OPEN else [{"key": []}]
    return made


def _tag(route: Route) -> str:
    parts = [part for part in route.path.split("/") if part not in {"", "v1"}]
    return parts[0].partition(".")[0] if parts else "page"


def _notes(route: Route, operation: Operation) -> str:
    managed = "Only with `ui_management`." if route.gate is Gate.MANAGEMENT else ""
    return " ".join(note for note in (operation.notes, managed) if note)


def _body(kind: str, schema: Schema) -> Schema:
    made: Schema = {"schema": schema}
    if kind == FORM:
        files = [name for name in schema["properties"] if name == "file"]
        made["encoding"] = {name: {"contentType": "audio/*, */*"} for name in files}
    return made


def _answer(answer: Answer) -> Schema:
    made: Schema = {"description": answer.doc, "headers": _headers("X-Request-Id", *answer.headers)}
    if answer.content:
        made["content"] = {kind: _media(media) for kind, media in answer.content.items()}
    return made


def _media(media: Media) -> Schema:
    return {"schema": media.schema, **({"x-events": dict(media.events)} if media.events else {})}


def _headers(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(kind: str, doc: str) -> Schema:
    return {"description": doc, "schema": {"type": kind}}


def _error(status: int) -> Schema:
    own = _HEADERS_OF_ERRORS.get(status)
    made: Schema = {
        "description": _ERRORS[status],
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    return {**made, "headers": _headers(own)} if own else made


def _reference(status: int) -> Schema:
    return {"$ref": f"#/components/responses/{status}"}
