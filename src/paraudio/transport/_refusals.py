"""Answers to what never becomes a request: the same error JSON as the application's.

Rendered here, because these are given before there is an application, or in its stead. A client
that asks for something in a broken way is a client all the same, and is told what is wrong.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

from h11 import RemoteProtocolError

from paraudio.errors import (
    BadHttpError,
    ForbiddenError,
    HeadTooLargeError,
    HeadTooSlowError,
    MethodNotAllowedError,
    ParaudioError,
    TransferEncodingError,
    UpgradeRequiredError,
)

Headers = list[tuple[bytes, bytes]]

MAX_MESSAGE: Final = 300
"""What a parser says may repeat what it was given."""

METHODS: Final = b"GET, HEAD, POST, DELETE, OPTIONS"

WEBSOCKET_VERSION: Final = b"13"
"""The only one that there is."""

_WORDS: Final = {b"connection", b"sec-websocket-extensions", b"sec-websocket-protocol"}

_UNKNOWN_CODING: Final = 501
"""What h11 hints at for a Transfer-Encoding that it does not know."""

_BYTES: Final = re.compile(r"bytearray\(b(.*)\)$", re.DOTALL)
"""How h11 shows what it was given."""

_SHAPES: Final = re.compile(rb"(?<!\r)(\n)|(\r)(?!\n)|(\r\n[ \t])")
_TOLD: Final = (
    "a line of the {} ends with LF alone; it must end with CRLF",
    "a CR stands alone in the {}",
    "a line of the {} begins with a blank; folded lines are obsolete",
)
_LENGTHS: Final = re.compile(rb"\r\ncontent-length[ \t]*:", re.IGNORECASE)
_CODINGS: Final = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_OLD: Final = re.compile(rb"[^\r\n]* HTTP/1\.0\r\n")


def fault_of(head: bytes) -> ParaudioError | None:
    """What is wrong with a head that the next reader could take for other requests than we do.

    h11 is more forgiving: it joins folded lines, ends lines at LF, and takes the chunks where a
    length is given as well. What stands between us and a client (a proxy) may see it otherwise, so
    such a head is refused whole.

    Args:
        head: A request's head, with its empty line.
    """
    fault = _fault_of_lines(head, "head")
    if fault is not None:
        return fault
    lengths = len(_LENGTHS.findall(head))
    if lengths > 1:
        return BadHttpError("Content-Length must be there once")
    if not _CODINGS.search(head):
        return None
    if lengths:
        return BadHttpError("Content-Length and Transfer-Encoding must not be there both")
    if _OLD.match(head):
        return BadHttpError("Transfer-Encoding must not be there in HTTP/1.0")
    return None


def fault_of_chunk(framing: bytes, *, ends: bool) -> BadHttpError | None:
    """What is wrong with the lines between two pieces of a body, or behind the last one.

    Args:
        framing: The end of one chunk, the head of the next, and the trailers; as far as they came.
        ends: Whether the body ends with them.
    """
    # Lines are taken whole, but for the end of a chunk: its CR may come first, and its LF later.
    framing = framing.removesuffix(b"\r")
    if framing != b"\n" or not ends:
        framing = framing.removeprefix(b"\n")
    return _fault_of_lines(framing, "chunks")


def _fault_of_lines(lines: bytes, what: str) -> BadHttpError | None:
    found = _SHAPES.search(lines)
    if found is None:
        return None
    return BadHttpError(_TOLD[(found.lastindex or 1) - 1].format(what))


def parser_fault(error: RemoteProtocolError) -> ParaudioError:
    """What a parser found, as our own error: always the client's fault, so never a 5xx."""
    if error.error_status_hint == _UNKNOWN_CODING:
        return TransferEncodingError("Transfer-Encoding must be chunked, and nothing else")
    if error.error_status_hint == HeadTooLargeError.status:
        return large_head()
    told = _BYTES.sub(r"\1", str(error))
    return BadHttpError(f"this is no valid HTTP/1.1: {told}")


def large_head() -> ParaudioError:
    """The head is over its bounds."""
    return HeadTooLargeError("the head of the request is larger than this server takes")


def slow_head() -> ParaudioError:
    """The head did not come in time."""
    return HeadTooSlowError("the head of the request did not come in time")


def no_target(method: bytes, protocol: bytes = b"") -> ParaudioError:
    """A request that names nothing that can be served."""
    if protocol:
        return BadHttpError("CONNECT is for websockets only: the :protocol must be websocket")
    if method == b"CONNECT":
        return MethodNotAllowedError("CONNECT is for proxies, and this is none")
    return BadHttpError("the target must be a path, or a URL with one")


def are_readable(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the lists of words that make a handshake are of words at all."""
    return all(value.isascii() for name, value in headers if name.lower() in _WORDS)


def no_websocket(status: int) -> ParaudioError:
    """Why a handshake does not become a websocket, by the status that hypercorn has for it."""
    if status == ForbiddenError.status:
        return ForbiddenError("this websocket was refused")
    if status < ParaudioError.status:
        return BadHttpError("this is no valid handshake, or frames came before its answer")
    return failed()


def no_version() -> ParaudioError:
    """The handshake is for a version of websockets that nobody speaks."""
    return UpgradeRequiredError("the Sec-WebSocket-Version must be 13")


def failed() -> ParaudioError:
    """The application ended without an answer."""
    return ParaudioError("the server failed on this request; its log has more")


def rendered(error: ParaudioError) -> tuple[Headers, bytes]:
    """The headers and the body of an error answer."""
    told = {
        "message": error.message[:MAX_MESSAGE],
        "type": error.type,
        "code": error.code,
        "param": error.param,
    }
    body = json.dumps({"error": told}, separators=(",", ":")).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    if error.status == MethodNotAllowedError.status:
        headers.append((b"allow", METHODS))
    if error.status == UpgradeRequiredError.status:
        headers += [(b"upgrade", b"websocket"), (b"sec-websocket-version", WEBSOCKET_VERSION)]
    return headers, body
