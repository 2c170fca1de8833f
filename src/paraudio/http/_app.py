"""The application: quart with our connection, our errors, and a table of routes."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from quart import Quart
from quart.sessions import NullSession, SecureCookieSessionInterface
from quart.typing import ResponseTypes
from quart.wrappers import Request, Response, Websocket
from quart.wrappers.base import BaseRequestWebsocket
from quart_trio import QuartTrio
from quart_trio.wrappers import TrioRequest
from werkzeug.routing.exceptions import WebsocketMismatch
from werkzeug.wrappers import Response as WerkzeugResponse

from paraudio.config import Settings
from paraudio.engines import Family
from paraudio.errors import (
    InvalidRequestError,
    RequestCancelledError,
)
from paraudio.http import (
    _batch,
    _events,
    _health,
    _live,
    _metrics,
    _models,
    _realtime,
    _requests,
    _shelf,
    _speech,
    _tasks,
    _transcriptions,
    _voice_list,
    page,
)
from paraudio.http._access import note_end
from paraudio.http._core import Core, Gate, Route
from paraudio.http._errors import Answer, blamed, split_cancelled
from paraudio.http._exchange import Exchange
from paraudio.http._gate import (
    check_origin,
    cors_headers,
    is_preflight,
    pass_gate,
    preflight_headers,
)
from paraudio.http._meters import Meters
from paraudio.http._respond import empty_answer, error_answer
from paraudio.http._sending import Sender
from paraudio.http._sse import sse_error
from paraudio.http._tracing import Tracing
from paraudio.http._upgrade import FAILED, Socket, Upgrade
from paraudio.http.openapi import documented
from paraudio.journal import Journal, Recorder, no_record
from paraudio.lifecycle import Runtime
from paraudio.store import Shelf
from paraudio.transport import (
    HttpConnection,
    PullRequest,
    send_response,
)

log = logging.getLogger(__name__)

ROUTES: Final[tuple[Route, ...]] = documented(
    (
        *_health.ROUTES,
        *_models.ROUTES,
        *_speech.ROUTES,
        *_transcriptions.ROUTES,
        *_live.ROUTES,
        *_batch.ROUTES,
        *_realtime.ROUTES,
        *_voice_list.ROUTES,
        *_tasks.ROUTES,
        *_requests.ROUTES,
        *_events.ROUTES,
        *_metrics.ROUTES,
        *_shelf.ROUTES,
        *page.ROUTES,
    )
)


def create_app(
    runtime: Runtime,
    settings: Settings,
    *,
    families: Mapping[str, Family],
    record: Recorder = no_record,
    journal: Journal | None = None,
    shelf: Shelf | None = None,
    tracing: Tracing | None = None,
) -> "Api":
    """Make the ASGI application over a runtime.

    Args:
        runtime: Registered models; it outlives the application's last request.
        settings: The whole configuration.
        families: The families that the runtime knows, by name.
        record: Takes journal events, where there is no journal.
        journal: The journal, which events and metrics are read from; without one, ``/v1/events`` is
            not found and ``/metrics`` knows only what passes through here.
        shelf: Holds the store of models; without one its routes are not found.
        tracing: Takes the spans of requests; see `open_tracing`.

    Returns:
        An ASGI application that serves HTTP through ``paraudio.transport``.
    """
    meters = Meters(runtime)
    if journal is not None:
        journal.follow(meters.observe)
        if tracing is not None:
            journal.follow(tracing.observe)
    record = record if journal is None else journal
    return Api(Core(runtime, settings, families, record, journal, meters, shelf, tracing))


def _noted(error: BaseException, exchange: Exchange) -> Answer:
    """The answer to what a handler raised, which its request remembers.

    Raises:
        BaseException: The error itself, where it is no answer or nobody is there to hear it.
    """
    cancelled, ours = split_cancelled(error)
    if ours is None:
        raise error
    answer = exchange.answer_to(ours)
    if cancelled:
        raise error
    return answer


class ApiRequest(PullRequest):
    """A request that knows the scope that it is served in."""

    exchange: Exchange


class Connection(HttpConnection):
    """One request in quart, within its own exchange."""

    async def serve(self, request: TrioRequest, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer a request; what it holds is released when the answer is sent, or cut off."""
        ours = cast("ApiRequest", request)
        exchange = ours.exchange = Exchange(self.api.core, request, Sender(send))
        try:
            await self._answer(exchange, request)
        finally:
            note_end(exchange)

    @property
    def api(self) -> "Api":
        """The application."""
        return cast("Api", self.app)

    async def _answer(self, exchange: Exchange, request: Request) -> None:
        sender = exchange.sender
        try:
            async with exchange:
                await send_response(sender, await self.api.handle_request(request))
        except (Exception, BaseExceptionGroup) as error:
            cancelled, ours = split_cancelled(error)
            if cancelled or ours is None:
                raise
            # What the handler raised on its way out was logged; the client hears of the cancel.
            if not exchange.cancelled:
                _note_cut(ours, exchange)
        if exchange.cancelled and not sender.complete:
            await self.api.tell_cancelled(exchange)


def _note_cut(error: BaseException, exchange: Exchange) -> None:
    """Log why an answer ends in the middle; the transport breaks off what is not complete."""
    if exchange.error is None:
        exchange.answer_to(error)
    log.info("request %s was cut off: %s", exchange.id, blamed(error))


class NoSessions(SecureCookieSessionInterface):
    """There are no cookies here, so there is nothing to open or to save."""

    _null: Final = NullSession()

    async def open_session(self, app: Quart, request: BaseRequestWebsocket) -> NullSession:
        """The one session that holds nothing."""
        del app, request
        return self._null

    async def save_session(
        self, app: Quart, session: object, response: Response | WerkzeugResponse | None
    ) -> None:
        """Save nothing."""


class Api(QuartTrio):
    """The application.

    Quart's hooks and signals are not used: each request passes its route's gate, then its handler,
    and every error, wherever it was raised, becomes an answer in one place.
    """

    asgi_http_class = Connection
    asgi_websocket_class = Upgrade
    request_class = ApiRequest

    def __init__(self, core: Core) -> None:
        super().__init__("paraudio", static_folder=None)
        self.core = core
        self.config.update(
            MAX_CONTENT_LENGTH=core.settings.max_request_body_bytes or None,
            RESPONSE_TIMEOUT=None,
            BODY_TIMEOUT=None,
        )
        self.session_interface = NoSessions()
        self.url_map.strict_slashes = False
        self.url_map.merge_slashes = False
        self._table = {f"{route.method} {route.path}": route for route in ROUTES}
        for endpoint, route in self._table.items():
            self.add_url_rule(route.path, endpoint, methods=[route.method])
        self._sockets = {f"WS {path}": handler for path, handler in _realtime.SOCKETS.items()}
        for path in _realtime.SOCKETS:
            self.add_url_rule(path, f"WS {path}", websocket=True)

    async def handle_request(self, request: Request) -> ResponseTypes:
        """Answer a request.

        Cancelled, as when its client has left: an error that was on its way is logged first.
        """
        exchange = cast("ApiRequest", request).exchange
        try:
            async with self.request_context(request):
                response = await self._dispatch(exchange, request)
        except (Exception, BaseExceptionGroup) as error:
            answer = _noted(error, exchange)
            response = error_answer(answer)
        return self._marked(response, exchange)

    async def handle_upgrade(self, exchange: Exchange, socket: Socket) -> None:
        """Serve a websocket to its end, or refuse it as a request is refused.

        Cancelled, as when its client has left: an error that was on its way is logged first.
        """
        websocket = socket.websocket
        try:
            async with self.websocket_context(websocket):
                handler = self._admitted(websocket)
                await handler(exchange, socket)
        except (Exception, BaseExceptionGroup) as error:
            answer = _noted(error, exchange)
            if socket.accepted:
                await socket.close(FAILED, str(answer.error["message"]))
            else:
                response = self._marked(error_answer(answer), exchange)
                await send_response(exchange.sender, response)

    def _admitted(self, websocket: Websocket) -> Callable[[Exchange, Socket], Awaitable[None]]:
        """The handler of a websocket that may come in."""
        if isinstance(websocket.routing_exception, WebsocketMismatch):
            paths = ", ".join(_realtime.SOCKETS)
            raise InvalidRequestError(f"this route takes no websocket; {paths} is one")
        if websocket.routing_exception is not None:
            raise websocket.routing_exception
        pass_gate(Gate.KEYED, websocket, self.core.settings)
        check_origin(websocket, self.core.settings)
        return self._sockets[websocket.endpoint or ""]

    async def tell_cancelled(self, exchange: Exchange) -> None:
        """Tell a client that its request was cancelled: whole, or at the end of its events.

        Of anything else that has begun the transport breaks off what is not complete.
        """
        error = RequestCancelledError(f"the request {exchange.id} was cancelled by its ID")
        answer = exchange.answer_to(error)
        if not exchange.sender.started:
            await send_response(exchange.sender, self._marked(error_answer(answer), exchange))
        elif exchange.sender.events:
            await exchange.sender.finish(sse_error(answer))

    def _marked(self, response: Response, exchange: Exchange) -> Response:
        """The response with the headers that every one has."""
        response.headers["X-Request-Id"] = exchange.id
        headers = dict(cors_headers(exchange.request, self.core.settings))
        if (varies := headers.pop("Vary", None)) is not None:
            response.vary.add(varies)  # an answer may differ by more than its page
        response.headers.update(headers)
        return response

    async def _dispatch(self, exchange: Exchange, request: Request) -> Response:
        if is_preflight(request, self.core.settings):
            return empty_answer(preflight_headers(request))
        if request.routing_exception is not None:
            raise request.routing_exception
        if request.method == "OPTIONS":
            return await self.make_default_options_response()
        route = self._table[request.endpoint or ""]
        pass_gate(route.gate, request, self.core.settings)
        variables: dict[str, Any] = request.view_args or {}
        return await route.handler(exchange, **variables)
