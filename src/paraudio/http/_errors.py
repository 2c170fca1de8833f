"""The one mapper from what was raised to what a client is told."""

import logging
from dataclasses import dataclass, field
from typing import Final, TypeGuard

import trio
from werkzeug.exceptions import (
    HTTPException,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
    UnsupportedMediaType,
)

from paraudio.errors import (
    InvalidRequestError,
    LoadError,
    MethodNotAllowedError,
    NotFoundError,
    ParaudioError,
    PayloadTooLargeError,
    StorageError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    UpgradeRequiredError,
)
from paraudio.spec import Json
from paraudio.store import StoreError

log = logging.getLogger(__name__)

_OF_HTTP: Final[dict[type[HTTPException], tuple[type[ParaudioError], str]]] = {
    NotFound: (NotFoundError, "there is no such route; GET /openapi.json has all that there are"),
    MethodNotAllowed: (MethodNotAllowedError, "this route does not take that method"),
    RequestEntityTooLarge: (PayloadTooLargeError, "the body is larger than this server takes"),
    UnsupportedMediaType: (UnsupportedMediaTypeError, "this route does not take that content type"),
}


MAX_MESSAGE: Final = 1000
MAX_PARAM: Final = 200
"""Names and values that clients sent stand in messages, however long they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client is told about an error.

    Attributes:
        status: The HTTP status.
        error: The value of ``error`` in the body.
        headers: Headers that belong to the answer (``Retry-After``, ``Allow``).
    """

    status: int
    error: dict[str, Json]
    headers: dict[str, str] = field(default_factory=dict)


def is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Whether an error is a group of errors."""
    return isinstance(error, BaseExceptionGroup)


def leaves(error: BaseException) -> list[BaseException]:
    """The errors of a group, however deep, in order; of anything else, itself."""
    if not is_group(error):
        return [error]
    return [leaf for part in error.exceptions for leaf in leaves(part)]


def blamed(error: BaseException) -> BaseException:
    """The one error that the client is told of: the first that knows its answer, else the first."""
    found = leaves(error)
    return next((leaf for leaf in found if isinstance(leaf, ParaudioError)), found[0])


def split_cancelled(error: BaseException) -> tuple[bool, BaseException | None]:
    """Whether part of an error says "cancelled", and what is left without that part."""
    if is_group(error):
        cancelled, rest = error.split(trio.Cancelled)
        return cancelled is not None, rest
    return (True, None) if isinstance(error, trio.Cancelled) else (False, error)


def answer_to(error: BaseException, request_id: str) -> Answer:
    """Map an error to its answer, and log it where the fault is the server's.

    Args:
        error: What was raised; of a group, one error is answered and the whole is logged.
        request_id: The ID that the log and the client share.

    Returns:
        The answer; for an error that nobody foresaw, a 500 that tells nothing but the ID.
    """
    told = blamed(error)
    if isinstance(told, ParaudioError):
        answer = _of_paraudio(told)
    elif isinstance(told, HTTPException):
        answer = _of_werkzeug(told)
    else:
        answer = _unforeseen(request_id)
    _log(error, told, answer, request_id)
    return answer


def _of_paraudio(error: ParaudioError) -> Answer:
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, UpgradeRequiredError):
        headers["Upgrade"] = "websocket"
    if isinstance(error, StorageError):
        # OpenAI's clients upload again after any 5xx, and the disk is no better for that.
        headers["X-Should-Retry"] = "false"
    return _answer(type(error), error.message, param=error.param, headers=headers)


def _of_werkzeug(error: HTTPException) -> Answer:
    for kind, (ours, message) in _OF_HTTP.items():
        if isinstance(error, kind):
            methods = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
            if not methods:
                return _answer(ours, message)
            return _answer(ours, f"{message}; it takes {methods}", headers={"Allow": methods})
    status = error.code if error.code is not None and error.code >= 400 else 400
    ours = InvalidRequestError if status < 500 else ParaudioError
    return _answer(ours, f"{error.name} (HTTP {status})", status=status)


def _unforeseen(request_id: str) -> Answer:
    message = f"the server failed on this request; its log has more under {request_id}"
    return _answer(ParaudioError, message)


def _answer(
    kind: type[ParaudioError],
    message: str,
    *,
    status: int | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    return Answer(
        status=kind.status if status is None else status,
        error={
            "message": _brief(message, MAX_MESSAGE),
            "type": kind.type,
            "code": kind.code,
            "param": None if param is None else _brief(param, MAX_PARAM),
        },
        headers=headers or {},
    )


def _brief(text: str, most: int) -> str:
    """The text, or its two ends: what is wanted instead stands behind what was given."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-(most // 2) :]}"


def _log(error: BaseException, told: BaseException, answer: Answer, request_id: str) -> None:
    if _says_all(told) and len(leaves(error)) == 1:
        log.error("request %s failed: %s", request_id, told)
    elif answer.status == 500:
        log.error("request %s failed", request_id, exc_info=error)
    elif len(leaves(error)) > 1:
        log.warning("request %s: answered %s of several errors", request_id, told, exc_info=error)
    else:
        log.debug("request %s: %d: %s", request_id, answer.status, told)


def _says_all(error: BaseException) -> bool:
    """Whether an error was foreseen and its message says all, so that no traceback is of use.

    Full disks, an index that does not answer and wrong paths are; a backend's own error, which is
    the cause of ours, is not.
    """
    if isinstance(error, StorageError | StoreError):
        return True
    foreseen = error.__cause__ is None or isinstance(error.__cause__, ParaudioError)
    return isinstance(error, LoadError) and foreseen
