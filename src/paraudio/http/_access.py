"""The end of a request: counted, traced and logged."""

import logging
from typing import Final

import trio

from paraudio.http._exchange import Exchange
from paraudio.http._logged import quoted
from paraudio.http._tracing import Told

log = logging.getLogger("paraudio.access")

_PROBES: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})


def _task(exchange: Exchange) -> str | None:
    """The task of the model that was asked for, if there is such a model."""
    models = exchange.core.runtime.snapshot().models
    return next((one.spec.task for one in models if one.spec.id == exchange.model), None)


def _told(exchange: Exchange, path: str, status: int) -> Told:
    error = exchange.error
    return Told(
        id=exchange.id,
        method=exchange.request.method,
        route=path,
        headers=dict(exchange.request.headers),
        started=exchange.started,
        ended=trio.current_time(),
        model=exchange.model,
        task=_task(exchange),
        status=status,
        code=None if error is None else str(error.error["code"]),
        fault=max(status, 0 if error is None else error.status) >= 500,
        cancelled=exchange.cancelled,
    )


def note_end(exchange: Exchange) -> None:
    """Count and log how a request ended; probes and scrapers are logged to debug only.

    ``status`` is 0 where no byte of an answer was sent, because the client had left.
    """
    path, seconds = exchange.path, trio.current_time() - exchange.started
    status = exchange.sender.status
    exchange.core.meters.answered(exchange.request.method, path, status, seconds)
    if exchange.core.tracing is not None:
        exchange.core.tracing.ended(_told(exchange, path, status))
    level = logging.DEBUG if path in _PROBES else logging.INFO
    if log.isEnabledFor(level):
        log.log(
            level,
            "request id=%s route=%s model=%s status=%d ms=%.1f",
            exchange.id,
            quoted(f"{exchange.request.method} {path}"),
            quoted(exchange.model),
            status,
            seconds * 1000,
        )
