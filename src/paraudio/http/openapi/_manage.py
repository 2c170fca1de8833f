"""The routes that watch and manage the server."""

from typing import Final

from paraudio.config import Settings
from paraudio.http import _metrics, page
from paraudio.http.openapi import _asks as asks
from paraudio.http.openapi._audio import bare
from paraudio.http.openapi._components import picture
from paraudio.http.openapi._operation import (
    BODY_ERRORS,
    EVENTS,
    JSON,
    Answer,
    Media,
    Operation,
    events,
    in_path,
    json,
    query,
)
from paraudio.http.openapi._schema import (
    choice,
    exactly,
    flag,
    listed,
    mapping,
    ref,
    switch,
    text,
    thing,
    whole,
)
from paraudio.lifecycle import Phase

_SHOWN: Final = (
    query("include_session_options", switch("Whether to show them.", default=False)),
    query("include_params", switch("Whether to show what a request can set.", default=False)),
)
_MANAGED: Final = (*BODY_ERRORS, 500, 503, 504)


def _health() -> dict[str, Operation]:
    fine = thing({"status": exactly("ok")})
    about = thing(
        {
            "status": exactly("ok"),
            "backend": text(),
            "models": whole(0, doc="How many are registered."),
            "ui": flag(),
            "ui_management": flag(),
        }
    )
    readiness = thing(
        {
            "status": choice(("ready", "not_ready")),
            "phase": choice([phase.value for phase in Phase]),
            "unusable_models": listed(text()),
            "stuck_slots": mapping(whole(1)),
        }
    )
    body = {JSON: Media(schema=readiness)}
    return {
        "GET /health": Operation(answers=json(about, "It is there.")),
        "GET /health/live": Operation(answers=json(fine, "It is alive.")),
        "GET /health/ready": Operation(
            answers={
                200: Answer(doc="It is ready.", content=body),
                503: Answer(doc="It is not.", content=body, headers=("Retry-After",)),
            }
        ),
        "GET /": Operation(
            answers={
                200: Answer(
                    doc="The page.",
                    content={bare(page.CONTENT_TYPE): Media(schema={"type": "string"})},
                )
            },
            errors=(404,),
        ),
        "GET /openapi.json": Operation(
            answers=json({"type": "object"}, "This document."),
        ),
        "GET /metrics": Operation(
            answers={
                200: Answer(
                    doc="Prometheus' text format.",
                    content={bare(_metrics.CONTENT_TYPE): Media(schema={"type": "string"})},
                )
            }
        ),
    }


def _models(settings: Settings) -> dict[str, Operation]:
    loaded = thing({"id": text(), "loaded": {"const": True}, "reconfigured": flag()})
    listing = thing({"object": exactly("list"), "revision": whole(0), "data": listed(ref("Model"))})
    return {
        "GET /v1/models": Operation(
            parameters=_SHOWN, answers=json(listing, "The models."), errors=(400,)
        ),
        "GET /v1/models/{model_id}": Operation(
            parameters=(in_path("model_id", "The ID of a model."), *_SHOWN),
            answers=json(ref("Model"), "The model."),
            errors=(400, 404),
        ),
        "POST /v1/models/load": Operation(
            notes="The fields are those of a model in the configuration file; an unknown one is "
            "refused. A bare `id` loads a registered model as it is, or registers and loads one "
            "of the store's catalogue, which is fetched if need be.",
            body={JSON: asks.model_object(parallel=settings.parallel_jobs)},
            answers=json(loaded, "It is loaded."),
            errors=(*_MANAGED, 404),
        ),
        "POST /v1/models/unload": Operation(
            body={JSON: asks.unload()},
            answers=json(thing({"id": text(), "loaded": {"const": False}}), "It is not loaded."),
            errors=(*_MANAGED, 404),
        ),
    }


def _requests() -> dict[str, Operation]:
    listing = thing(
        {"object": exactly("list"), "revision": whole(0), "data": listed(ref("Request"))}
    )
    cancelled = thing(
        {"id": text(), "cancelled": {"const": True}, "ended": flag("Whether it is over already.")}
    )
    told = {
        "snapshot": picture("snapshot"),
        "gap": picture("gap"),
        "resumed": thing({"type": exactly("resumed"), "revision": whole(0)}),
        "change": ref("Change"),
    }
    since = whole(0, 2**53, "The last revision that the client knows.")
    return {
        "GET /v1/requests": Operation(answers=json(listing, "The requests, oldest first.")),
        "DELETE /v1/requests/{request_id}": Operation(
            parameters=(in_path("request_id", "The `X-Request-Id` of the request."),),
            answers=json(cancelled, "It is cancelled."),
            errors=(404,),
        ),
        "GET /v1/events": Operation(
            notes="The stream goes on until the server drains or the client leaves.",
            parameters=(query("since", since),),
            answers={200: Answer(doc="The changes.", content={EVENTS: events(told)})},
            errors=(400, 404),
        ),
    }


def _store() -> dict[str, Operation]:
    named = {JSON: asks.store_name()}
    errors = (*BODY_ERRORS, 404, 500)
    root = thing({"path": text(), "busy": flag()}, optional=("busy",))
    return {
        "GET /v1/ui/models-root": Operation(
            answers=json(root, "The folder, and whether something comes into it."), errors=(404,)
        ),
        "POST /v1/ui/models-root": Operation(
            notes="Wholly or not at all.",
            body={JSON: asks.store_root()},
            answers=json(thing({"path": text()}), "The folder."),
            errors=(*errors, 409),
        ),
        "POST /v1/ui/models/install": Operation(
            body=named, answers=json(ref("Install"), "How it stands."), errors=(*errors, 409)
        ),
        "POST /v1/ui/models/install/stop": Operation(
            body=named,
            answers=json(thing({"id": text(), "stopped": flag()}), "Whether one was stopped."),
            errors=errors,
        ),
        "GET /v1/ui/models/install-status": Operation(
            answers=json(
                thing({"object": exactly("list"), "data": listed(ref("Install"))}), "All of them."
            ),
            errors=(404,),
        ),
        "POST /v1/ui/models/delete": Operation(
            body=named,
            answers=json(thing({"id": text(), "deleted": flag()}), "Whether there was one."),
            errors=(*errors, 409),
        ),
    }


def operations(settings: Settings) -> dict[str, Operation]:
    """By method and path."""
    return {**_health(), **_models(settings), **_requests(), **_store()}
