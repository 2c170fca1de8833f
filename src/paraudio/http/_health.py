"""Probes: they look at one snapshot, and answer whatever the models do."""

from quart.wrappers import Response

from paraudio.http._core import Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import json_answer
from paraudio.lifecycle import MOST_ABANDONED, ModelSnapshot
from paraudio.spec import Json


async def health(exchange: Exchange) -> Response:
    """What this server is."""
    settings = exchange.core.settings
    return json_answer(
        {
            "status": "ok",
            "backend": settings.backend,
            "models": len(exchange.core.runtime.snapshot().models),
            "ui": settings.ui_enabled,
            "ui_management": settings.ui_management,
        }
    )


async def live(exchange: Exchange) -> Response:
    """Whether the process turns its event loop."""
    del exchange
    return json_answer({"status": "ok"})


async def ready(exchange: Exchange) -> Response:
    """Whether new work is welcome: the server is not leaving, and every model has a usable slot."""
    snapshot = exchange.core.runtime.snapshot()
    phase = str(snapshot.phase)
    stuck: dict[str, Json] = {
        model.spec.id: model.stuck_slots for model in snapshot.models if model.stuck_slots
    }
    unusable: list[Json] = [model.spec.id for model in snapshot.models if not is_usable(model)]
    good = phase == "running" and not unusable
    return json_answer(
        {
            "status": "ready" if good else "not_ready",
            "phase": phase,
            "unusable_models": unusable,
            "stuck_slots": stuck,
        },
        status=200 if good else 503,
        headers={} if good else {"Retry-After": "1"},
    )


def is_usable(model: ModelSnapshot) -> bool:
    """Whether a request to the model can ever be served as things are."""
    loadable = model.loaded or model.abandoned_calls < MOST_ABANDONED
    return loadable and model.stuck_slots < model.slots


ROUTES = (
    Route("GET", "/health", health, Gate.OPEN),
    Route("GET", "/health/live", live, Gate.OPEN),
    Route("GET", "/health/ready", ready, Gate.OPEN),
)
