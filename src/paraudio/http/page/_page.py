"""``GET /``: the page, with a policy that lets it run its own script and reach this server only."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from quart.wrappers import Response

from paraudio.errors import NotFoundError
from paraudio.http._core import Gate, Route
from paraudio.http._exchange import Exchange
from paraudio.http._respond import bytes_answer

CONTENT_TYPE: Final = "text/html; charset=utf-8"

_STYLE: Final = "<style></style>"
_SCRIPT: Final = '<script type="module"></script>'


@cache
def document() -> tuple[bytes, str]:
    """The page, and the policy that belongs to it: style and script are known by their hashes."""
    html, style, script = (_part(name) for name in ("page.html", "page.css", "page.js"))
    page = html.replace(_STYLE, f"<style>{style}</style>")
    page = page.replace(_SCRIPT, f'<script type="module">{script}</script>')
    policy = (
        "default-src 'none'",
        f"style-src {_hash(style)}",
        # The microphone's worklet is a module of its own, which the script makes.
        f"script-src {_hash(script)} blob:",
        "connect-src 'self'",
        "media-src blob:",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return page.encode(), "; ".join(policy)


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


async def show_page(exchange: Exchange) -> Response:
    """The web page, where ``ui_enabled`` is on.

    Raises:
        NotFoundError: It is off.
    """
    if not exchange.core.settings.ui_enabled:
        raise NotFoundError("the web page is off here; ui_enabled turns it on")
    page, policy = document()
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        "Cache-Control": "no-cache",
    }
    return bytes_answer(page, CONTENT_TYPE, headers=headers)


# The page itself tells nothing: what it shows, it asks for as any client does, with a key.
ROUTES: Final = (Route("GET", "/", show_page, Gate.OPEN),)
