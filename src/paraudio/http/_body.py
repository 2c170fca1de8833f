"""Bodies of requests: JSON and forms, parsed off the loop where they are large."""

import logging
from collections.abc import AsyncIterator
from typing import Final

from quart.wrappers import Request

from paraudio.errors import InvalidRequestError, UnsupportedMediaTypeError
from paraudio.http._exchange import Exchange
from paraudio.http._fields import Fields, loads
from paraudio.http._logged import shown_body
from paraudio.http._multipart import Form, FormParser, boundary_of
from paraudio.transport import PullBody

log = logging.getLogger(__name__)

INLINE_BYTES: Final = 64 * 1024
"""A body up to this size is parsed where it is read: under a millisecond, and no thread."""

JSON_BYTES: Final = 256 * 2**20
"""The largest JSON text: it is in memory several times while it is read. A form goes to disk."""

PIECE_BYTES: Final = 2**20
"""How much of a large form a worker thread parses at a time."""

_JSON_TYPES: Final = frozenset(
    # What curl -d and plain fetch() send with a JSON text that nobody labelled.
    {"", "application/json", "text/json", "text/plain", "application/x-www-form-urlencoded"}
)


def is_form(request: Request) -> bool:
    """Whether the body says that it is ``multipart/form-data``."""
    return bool(request.mimetype == "multipart/form-data")


async def read_json(exchange: Exchange, *, empty: bool = False, or_form: bool = False) -> Fields:
    """Read a JSON object.

    Args:
        exchange: Whose body it is.
        empty: Whether no body at all is the same as an empty object.
        or_form: Whether the route takes forms too, for the words of a refusal.

    Raises:
        UnsupportedMediaTypeError: The content type is another one.
        PayloadTooLargeError: There is more than `JSON_BYTES`, or is declared, before it is read.
        InvalidRequestError: The body is no JSON object.
    """
    request, core = exchange.request, exchange.core
    if request.mimetype not in _JSON_TYPES and not request.mimetype.endswith("+json"):
        taken = "multipart/form-data or application/json" if or_form else "application/json"
        raise UnsupportedMediaTypeError(f"this route takes {taken}, not {request.mimetype!r}")
    if isinstance(request.body, PullBody):
        request.body.limit(min(JSON_BYTES, core.settings.max_request_body_bytes or JSON_BYTES))
    received = [piece async for piece in pieces(request)]
    exchange.reading = False
    if sum(map(len, received)) > INLINE_BYTES:
        value = await core.workers.run(_loads, received)
    elif b"".join(received).strip():
        value = _loads(received)
    elif empty:
        return Fields({})
    else:
        form = "a form with a file, or " if or_form else ""
        raise InvalidRequestError(f"the body is empty; it must be {form}a JSON object")
    if core.settings.log_request_body:
        log.info("request %s: body %s", exchange.id, shown_body(value))
    if not isinstance(value, dict):
        raise InvalidRequestError("the body must be a JSON object")
    return Fields(value)


async def read_form(exchange: Exchange) -> Form:
    """Read a form with files; the caller closes it.

    Cancelled, or on an error, everything that was read so far is freed.

    Raises:
        UnsupportedMediaTypeError: The content type is another one.
        InvalidRequestError: The body is no such form.
        PayloadTooLargeError: A part is over its bound.
        StorageError: A file could not be kept on disk.
    """
    request, workers = exchange.request, exchange.core.workers
    parser = FormParser(boundary_of(request.headers.get("Content-Type", "")))
    try:
        waiting = bytearray()
        small = True
        async for piece in pieces(request):
            waiting += piece
            if len(waiting) >= PIECE_BYTES:
                await workers.run(parser.feed, bytes(waiting))
                waiting.clear()
                small = False
        if small and len(waiting) <= INLINE_BYTES:
            parser.feed(bytes(waiting))
        else:
            await workers.run(parser.feed, bytes(waiting))
        exchange.reading = False
        return parser.finish()
    except BaseException:
        parser.form.close()
        raise


def pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it arrives; reading it to the end never holds more than the socket gave.

    Raises:
        UnsupportedMediaTypeError: It is packed, with gzip for one.
    """
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMediaTypeError(
            f"a body in Content-Encoding {encoding!r} is not taken; send it as it is"
        )
    return aiter(request.body)


def _loads(received: list[bytes]) -> object:
    return loads(b"".join(received))
