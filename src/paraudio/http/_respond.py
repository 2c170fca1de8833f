"""Answers: JSON, bytes, and errors, each complete before it is sent."""

import json
from collections.abc import Mapping
from typing import Any, Final

from quart.wrappers import Response
from quart_trio.wrappers import TrioResponse

from paraudio.http._errors import Answer

JSON_TYPE: Final = "application/json"


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dumps(value: object) -> str:
    """JSON on one line, as it is sent everywhere."""
    return _ENCODER.encode(value)


def json_answer(
    value: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer with a JSON object."""
    return bytes_answer(dumps(value).encode(), JSON_TYPE, status=status, headers=headers)


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
