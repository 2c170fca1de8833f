"""``GET /openapi.json``."""

from quart.wrappers import Response

from paraudio.config import Settings
from paraudio.http._core import Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import JSON_TYPE, bytes_answer, dump
from paraudio.http.openapi._document import document


def documented(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """A table of routes, with the route that describes them all, and itself."""
    kept: tuple[Settings, bytes] | None = None

    def rendered(settings: Settings) -> bytes:
        """The document of a server, made once: anyone may ask for it, as often as they like."""
        nonlocal kept
        if kept is None or kept[0] is not settings:
            kept = settings, dump(document(table, settings))
        return kept[1]

    async def show_document(exchange: Exchange) -> Response:
        """This interface as an OpenAPI document."""
        return bytes_answer(rendered(exchange.core.settings), JSON_TYPE)

    table = (*routes, Route("GET", "/openapi.json", show_document, Gate.OPEN))
    return table
