"""The end of a request, counted and logged."""

import logging
from typing import Final

import trio

from paraudio.http._exchange import Exchange
from paraudio.http._logged import quoted

log = logging.getLogger("paraudio.access")

_PROBES: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})


def note_end(exchange: Exchange) -> None:
    """Count and log how a request ended; probes and scrapers are logged to debug only.

    ``status`` is 0 where no byte of an answer was sent, because the client had left.
    """
    path, seconds = exchange.path, trio.current_time() - exchange.started
    status = exchange.sender.status
    exchange.core.meters.answered(exchange.request.method, path, status, seconds)
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
