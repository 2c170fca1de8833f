"""Answers: JSON, bytes, and errors, each complete before it is sent."""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from quart.wrappers import Response
from quart_trio.wrappers import TrioResponse

from paraudio.http._errors import Answer

JSON_TYPE: Final = "application/json"


class Base64:
    """Base64 text on its way into JSON; there is nothing to escape in it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def dump(value: object) -> bytes:
    """JSON on one line, which may hold `Base64`.

    The encoder looks at each character of a text, which takes a second for an hour of sound, with
    the interpreter's lock held. So it is given a mark in the place of each `Base64`.
    """
    texts: list[bytes] = []
    mark = secrets.token_hex(16)

    def marked(other: object) -> str:
        if not isinstance(other, Base64):
            raise TypeError(f"{type(other).__name__} is not JSON")
        texts.append(other.data)
        return mark

    encoder = json.JSONEncoder(
        ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=marked
    )
    pieces = encoder.encode(value).encode().split(mark.encode())
    joined = [piece for pair in zip(pieces, texts, strict=False) for piece in pair]
    return b"".join([*joined, pieces[-1]])


def json_answer(
    value: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer with a JSON object."""
    return bytes_answer(dump(value), JSON_TYPE, status=status, headers=headers)


def bytes_answer(
    data: bytes,
    content_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer whose bytes are all there."""
    response = TrioResponse(data, status=status, content_type=content_type)
    response.timeout = None
    if headers:
        response.headers.update(headers)
    return response


def error_answer(answer: Answer) -> Response:
    """An answer that says what went wrong."""
    return json_answer({"error": answer.error}, status=answer.status, headers=answer.headers)


def empty_answer(headers: Mapping[str, str]) -> Response:
    """An answer that has no body by its status, 204."""
    response = bytes_answer(b"", JSON_TYPE, status=204, headers=headers)
    del response.headers["Content-Type"]
    del response.headers["Content-Length"]
    return response
