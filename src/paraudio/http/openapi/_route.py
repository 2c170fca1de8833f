"""``GET /openapi.json``."""

from quart.wrappers import Response

from paraudio.http._core import Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import json_answer
from paraudio.http.openapi._document import document


def documented(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """A table of routes, with the route that describes them all, and itself."""

    async def show_document(exchange: Exchange) -> Response:
        """This interface as an OpenAPI document."""
        return json_answer(document(table, exchange.core.settings))

    table = (*routes, Route("GET", "/openapi.json", show_document, Gate.OPEN))
    return table
