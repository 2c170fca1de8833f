"""Who may use a route: keys, management, and pages of other origins."""

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from quart.wrappers import Websocket
from quart.wrappers.base import BaseRequestWebsocket

from paraudio.config import Settings
from paraudio.errors import ForbiddenError, UnauthorizedError
from paraudio.http._core import Gate

_METHODS: Final = "GET, POST, DELETE, OPTIONS"
_EXPOSED: Final = (
    "X-Request-Id, X-Paraudio-Wall-Ms, X-Paraudio-Audio-Duration-Ms, X-Paraudio-RTF, "
    "X-Paraudio-Sample-Rate, X-Paraudio-Warning, Retry-After"
)
_PREFLIGHT_SECONDS: Final = "600"
_KEY_PROTOCOL: Final = "openai-insecure-api-key."


def pass_gate(gate: Gate, request: BaseRequestWebsocket, settings: Settings) -> None:
    """Let a request through, or refuse it.

    Raises:
        UnauthorizedError: Keys are set and the request brings none of them.
        ForbiddenError: The route manages models, and that is switched off.
    """
    if gate is Gate.OPEN:
        return
    if settings.api_keys and not _has_key(request, settings.api_keys):
        raise UnauthorizedError(
            "the key that was sent is none of this server's API keys"
            if _token(request)
            else "this server needs an API key: send it as Authorization: Bearer <key>"
        )
    if gate is Gate.MANAGEMENT and not settings.ui_management:
        raise ForbiddenError("management of models is off here; ui_management turns it on")


def check_origin(websocket: BaseRequestWebsocket, settings: Settings) -> None:
    """Refuse the websocket of a page of another origin, unless ``cors_origins`` lets it in.

    Browsers ask nobody before they open one, and let the page read whatever comes: without this,
    any page that somebody visits could use a server on their own machine.

    Raises:
        ForbiddenError: The page is a stranger's.
    """
    origins, origin = settings.cors_origins, websocket.headers.get("Origin")
    if origin is None or origins == "*" or (origins and origin in origins):
        return
    if urlsplit(origin).netloc.lower() == websocket.headers.get("Host", "").lower():
        return
    raise ForbiddenError("a page of another origin may not use this server; cors_origins lets it")


def _has_key(request: BaseRequestWebsocket, keys: tuple[str, ...]) -> bool:
    """Compare with every key, in a time that tells nothing of any."""
    token = _token(request).encode()
    found = False
    for key in keys:
        found |= hmac.compare_digest(token, key.encode())
    return found


def _token(request: BaseRequestWebsocket) -> str:
    """What a client shows for a key; a page, which sets no headers, offers it as a subprotocol."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if isinstance(request, Websocket):
        for name in request.requested_subprotocols:
            if name.startswith(_KEY_PROTOCOL):
                return name.removeprefix(_KEY_PROTOCOL)
    return ""


def cors_headers(request: BaseRequestWebsocket, settings: Settings) -> Mapping[str, str]:
    """The headers that let a page of another origin read an answer; none where that is off."""
    origins, origin = settings.cors_origins, request.headers.get("Origin")
    if not origins or (origins == "*" and origin is None):
        return {}
    if origins == "*":
        return {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": _EXPOSED}
    if origin is None or origin not in origins:
        # Said to everybody, so that no cache gives a page what another one was answered.
        return {"Vary": "Origin"}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _EXPOSED,
        "Vary": "Origin",
    }


def is_preflight(request: BaseRequestWebsocket, settings: Settings) -> bool:
    """Whether a browser asks what a page of an allowed origin may do, and gets an answer here."""
    origins, origin = settings.cors_origins, request.headers.get("Origin")
    return bool(
        origins
        and request.method == "OPTIONS"
        and origin is not None
        and (origins == "*" or origin in origins)
        and "Access-Control-Request-Method" in request.headers
    )


def preflight_headers(request: BaseRequestWebsocket) -> Mapping[str, str]:
    """What such a page may do; that it may do anything stands in `cors_headers`."""
    wanted = request.headers.get("Access-Control-Request-Headers", "Authorization, Content-Type")
    return {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": wanted,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
    }
