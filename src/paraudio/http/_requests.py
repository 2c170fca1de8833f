"""``/v1/requests``: what is in progress, where each request stands, and an end to any of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import trio
from quart.wrappers import Response

from paraudio.errors import NotFoundError
from paraudio.http._core import Core, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import json_answer
from paraudio.lifecycle import Place, State
from paraudio.spec import Json

STALL_S: Final = 0.25
"""A cancelled request that ends later than this may hang on a client that takes nothing."""
WAIT_S: Final = 2.0
"""How much longer the answer to a cancel waits for the end of the cancelled request."""

_AT_WORK: Final = frozenset({State.LOADING, State.RECONFIGURING, State.UNLOADING})


async def list_requests(exchange: Exchange) -> Response:
    """Every request in progress but this one, oldest first, at one moment."""
    core = exchange.core
    places = places_by_request(core)
    data = [
        request_json(one, places.get(one.id, ()))
        for one in core.in_flight.values()
        if one is not exchange
    ]
    return json_answer(
        {"object": "list", "revision": core.runtime.snapshot().revision, "data": data}
    )


async def cancel_request(exchange: Exchange, request_id: str) -> Response:
    """End a request as if its client had left, and tell whether it has ended already.

    It is cancelled before this waits. One that is slow to end (a backend that ignores its stop)
    goes on to its end when this has been answered.
    """
    found = exchange.core.in_flight.get(request_id)
    if found is None or found is exchange:
        raise NotFoundError(f"no request {request_id!r} is in progress", param="id")
    if not found.cancelled:
        found.cancel()
        exchange.core.meters.cancelled()
    with trio.move_on_after(STALL_S):
        await found.ended.wait()
    if not found.ended.is_set():
        found.cut_stalled()
        with trio.move_on_after(WAIT_S):
            await found.ended.wait()
    return json_answer({"id": request_id, "cancelled": True, "ended": found.ended.is_set()})


def places_by_request(core: Core) -> Mapping[str, Sequence[Place]]:
    """Where each request stands with models, by its ID."""
    found = defaultdict[str, list[Place]](list)
    for place in core.runtime.places():
        found[place.request].append(place)
    return found


def request_json(exchange: Exchange, places: Sequence[Place]) -> dict[str, Json]:
    """One request as clients see it.

    ``position`` is how many stand before it, for one that waits; of a bulk operation, which stands
    in several lines, the longest. ``slot`` is the one that it holds.
    """
    positions = [place.position for place in places if place.position is not None]
    slots = [place.slots[0] for place in places if place.slots and not place.manager]
    models = {place.model for place in places}
    return {
        "id": exchange.id,
        "route": f"{exchange.request.method} {exchange.path}",
        "model": exchange.model or (models.pop() if len(models) == 1 else None),
        "phase": phase_of(exchange, places),
        "position": max(positions, default=None),
        "slot": slots[0] if slots else None,
        "age_ms": round((trio.current_time() - exchange.started) * 1000, 1),
        "client": exchange.client,
        "places": [_place_json(place) for place in places],
    }


def _place_json(place: Place) -> dict[str, Json]:
    return {
        "model": place.model,
        "manager": place.manager,
        "position": place.position,
        "slots": list(place.slots),
    }


def phase_of(exchange: Exchange, places: Sequence[Place]) -> str:
    """What a request is doing, in one word.

    ``reading`` its body, ``preparing`` what the model needs, ``queued``, ``loading``, ``running``,
    ``streaming`` its answer in pieces, ``answering`` at once, ``managing`` a model (or, in its
    stead, what the model is doing), ``cancelling``.
    """
    if exchange.cancelled:
        return "cancelling"
    if exchange.sender.started:
        return "streaming" if exchange.sender.streamed else "answering"
    if any(place.position is not None for place in places):
        return "queued"
    if places:
        return _holding(exchange, places[0])
    return "reading" if exchange.reading else "preparing"


def _holding(exchange: Exchange, place: Place) -> str:
    if place.manager:
        return str(place.state) if place.state in _AT_WORK else "managing"
    if exchange.use is not None and exchange.use.loading:
        return "loading"
    if exchange.use is not None and exchange.use.running:
        return "running"
    return "preparing"


ROUTES = (
    Route("GET", "/v1/requests", list_requests),
    Route("DELETE", "/v1/requests/<path:request_id>", cancel_request),
)
