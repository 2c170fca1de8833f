"""What an HTTP/2 client is told whose request is well-formed and cannot be served."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paraudio.errors import BadHttpError, ParaudioError
from paraudio.transport._limits import MAX_FIELDS
from paraudio.transport._refusals import (
    WEBSOCKET_VERSION,
    Headers,
    are_readable,
    large_head,
    no_target,
    no_websocket,
    rendered,
)

_FIELD_BYTES: Final = 32
"""What HTTP/2 counts for a field beside its name and its value."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A whole answer.

    Attributes:
        headers: Its headers, the status among them.
        body: Its body.
        silent: Whether the body stays here: the client asked for the headers alone.
    """

    headers: Headers
    body: bytes
    silent: bool


def refusal_of(headers: Sequence[tuple[bytes, bytes]], max_bytes: int) -> Refusal | None:
    """The answer to a request that nobody is to be asked about, or None.

    Args:
        headers: Its headers, as h2 has found them to be in order.
        max_bytes: The largest head, counted as HTTP/2 counts.
    """
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    method, path = pseudo[b":method"], pseudo.get(b":path", b"")
    protocol = pseudo.get(b":protocol", b"")
    more: Headers = []
    error: ParaudioError | None = None
    if len(headers) > MAX_FIELDS or _size(headers) > max_bytes:
        error = large_head()
    elif not _is_served(method, path, protocol):
        error = no_target(method, b"" if protocol == b"websocket" else protocol)
    elif method == b"CONNECT" and _version(headers) != WEBSOCKET_VERSION:
        # Not 426: that names an upgrade, and HTTP/2 has none.
        error = BadHttpError("the sec-websocket-version must be 13")
        more = [(b"sec-websocket-version", WEBSOCKET_VERSION)]
    elif method == b"CONNECT" and not are_readable(headers):
        error = no_websocket(BadHttpError.status)
    if error is None:
        return None
    fields, body = rendered(error)
    status = (b":status", b"%d" % error.status)
    return Refusal([status, *fields, *more], body, silent=method == b"HEAD")


def _size(headers: Sequence[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + _FIELD_BYTES for name, value in headers)


def _version(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return next((value for name, value in headers if name == b"sec-websocket-version"), b"")


def _is_served(method: bytes, path: bytes, protocol: bytes) -> bool:
    """Whether a request names something that can be served."""
    if not path.isascii() or not method.isascii():
        return False
    if method == b"CONNECT":
        return protocol == b"websocket" and path.startswith(b"/")
    return path.startswith(b"/") or (path == b"*" and method == b"OPTIONS")
