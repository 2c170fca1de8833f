"""One line a request in the log."""

import logging
from typing import Final

import trio

from paraudio.http._exchange import Exchange
from paraudio.http._respond import dumps

log = logging.getLogger("paraudio.access")

_PROBES: Final = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})


def note_end(exchange: Exchange) -> None:
    """Log how a request ended; what probes and scrapers ask is only worth a line to debug.

    ``status`` is 0 where no byte of an answer was sent, because the client had left.
    """
    path = exchange.path
    level = logging.DEBUG if path in _PROBES else logging.INFO
    if log.isEnabledFor(level):
        log.log(
            level,
            "request id=%s route=%s model=%s status=%d ms=%.1f",
            exchange.id,
            dumps(f"{exchange.request.method} {path}"),
            dumps(exchange.model),
            exchange.sender.status,
            (trio.current_time() - exchange.started) * 1000,
        )
