"""``/metrics``: everything that is counted, as Prometheus reads it."""

from typing import Final

from prometheus_client import generate_latest
from quart.wrappers import Response

from paraudio.http._core import Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import bytes_answer

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


async def show_metrics(exchange: Exchange) -> Response:
    """The text format, version 0.0.4, which every scraper reads."""
    return bytes_answer(generate_latest(exchange.core.meters.registry), CONTENT_TYPE)


ROUTES = (Route("GET", "/metrics", show_metrics),)
