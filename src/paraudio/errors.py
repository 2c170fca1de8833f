"""Every error that a caller can see, each with the status and the code that it is answered with.

A 4xx is the caller's to mend: its message names the field, what was given and what would do. A 5xx
is never the caller's fault. One mapper, in ``paraudio.http``, turns these into responses.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from typing import ClassVar, Final, Self

_NAMED: Final = 8
"""How many names an error lists at most."""
_COMPARED: Final = 100
"""How many names are compared at most; comparing takes some ten microseconds each."""
_NAME_CHARACTERS: Final = 80


class ParaudioError(Exception):
    """The root of the errors that carry their own HTTP answer.

    Attributes:
        message: One sentence for the caller.
        param: The field of the request that is at fault, as a dotted path, or None.
        retry_after_s: Seconds after which another try makes sense, or None.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "server_error"
    default_retry_after_s: ClassVar[int | None] = None

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = self.default_retry_after_s if retry_after_s is None else retry_after_s


class InvalidRequestError(ParaudioError):
    """The request is wrong in the field that ``param`` names."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request_error"

    def call_it(self, param: str) -> Self:
        """Call the field by another word, also in the message where that begins with the old one.

        Args:
            param: The word that the caller has for it.

        Returns:
            This error.
        """
        word, space, rest = self.message.partition(" ")
        if word == self.param:
            self.message = param + space + rest
            self.args = (self.message,)
        self.param = param
        return self


class BadHttpError(InvalidRequestError):
    """What came is no HTTP, or HTTP that two readers could take for two things."""

    code = "malformed_request"


class TransferEncodingError(BadHttpError):
    """The body has a transfer encoding that nobody here can undo."""

    code = "unsupported_transfer_encoding"


class HeadTooSlowError(ParaudioError):
    """The head of a request was begun and did not come in time."""

    status = 408
    type = "invalid_request_error"
    code = "request_timeout"


class HeadTooLargeError(ParaudioError):
    """The head of a request is larger than the transport takes, or has too many fields."""

    status = 431
    type = "invalid_request_error"
    code = "headers_too_large"


class EmptyBufferError(InvalidRequestError):
    """A realtime session has no sound to commit; the code is OpenAI's."""

    code = "input_audio_buffer_commit_empty"


class UnauthorizedError(ParaudioError):
    """A key is needed and none, or a wrong one, was given."""

    status = 401
    type = "unauthorized"
    code = "unauthorized"


class ForbiddenError(ParaudioError):
    """The operation is switched off here (management without ``ui_management``)."""

    status = 403
    type = "forbidden"
    code = "forbidden"


class RequestCancelledError(ParaudioError):
    """Somebody cancelled the request by its ID; 499, which no client library tries again."""

    status = 499
    type = "request_cancelled"
    code = "request_cancelled"


class NotFoundError(ParaudioError):
    """There is no such route or thing."""

    status = 404
    type = "not_found"
    code = "not_found"


class ModelNotFoundError(NotFoundError):
    """No model is registered under that ID."""

    type = "invalid_request_error"
    code = "model_not_found"

    @classmethod
    def among(cls, given: str, known: Iterable[str], *, param: str) -> Self:
        """The error for an ID that is not among those that there are: it lists the nearest.

        Args:
            given: The ID.
            known: Every ID that there is.
            param: The field that holds the ID.
        """
        names = list(islice(known, _COMPARED + 1))
        nearest = sorted(names[:_COMPARED], key=lambda name: -_likeness(name, given))
        told = [f"{name[:_NAME_CHARACTERS]!r}" for name in nearest[:_NAMED]]
        more = ", …" if len(names) > len(told) else ""
        there = f"registered: {', '.join(told)}{more}" if told else "none is registered"
        return cls(f"no model is registered as {given[:_NAME_CHARACTERS]!r}; {there}", param=param)


class ConflictError(ParaudioError):
    """What is asked for cannot be done beside something that is under way."""

    status = 409
    type = "conflict"
    code = "conflict"


class MethodNotAllowedError(ParaudioError):
    """The route exists, but not for this method."""

    status = 405
    type = "invalid_request_error"
    code = "method_not_allowed"


class UpgradeRequiredError(ParaudioError):
    """The route is a websocket, and a plain request came."""

    status = 426
    type = "invalid_request_error"
    code = "upgrade_required"


class PayloadTooLargeError(ParaudioError):
    """The body is larger than ``max_request_body_bytes``."""

    status = 413
    type = "invalid_request_error"
    code = "payload_too_large"


class BodyTimeoutError(ParaudioError):
    """Nothing of a body came for too long."""

    status = 408
    type = "invalid_request_error"
    code = "idle_timeout"


class BodyTooLongError(ParaudioError):
    """A body took longer in all than the bound allows."""

    status = 408
    type = "invalid_request_error"
    code = "total_timeout"


class UnsupportedMediaTypeError(ParaudioError):
    """The route does not take this content type."""

    status = 415
    type = "invalid_request_error"
    code = "unsupported_media_type"


class UnavailableError(ParaudioError):
    """A refusal that another try can overcome; always answered with ``Retry-After``."""

    status = 503
    default_retry_after_s = 1


class ServerBusyError(UnavailableError):
    """The admission bound passed, or could not be kept, or no resident model could make room."""

    type = "server_busy"
    code = "server_busy"


class QueueFullError(UnavailableError):
    """The model's queue holds ``max_queued_requests`` tickets already."""

    type = "queue_full"
    code = "queue_full"


class InsufficientMemoryError(UnavailableError):
    """Loading would leave less free memory than ``min_free_memory_mb``."""

    type = "insufficient_memory"
    code = "insufficient_memory"
    default_retry_after_s = 5


class ShuttingDownError(UnavailableError):
    """The server drains or stops and takes no new work."""

    type = "shutting_down"
    code = "shutting_down"
    default_retry_after_s = 5


class SlotStuckError(UnavailableError):
    """A manager needs every slot, and a backend call that ignores cancellation holds one."""

    type = "slot_stuck"
    code = "slot_stuck"
    default_retry_after_s = 30


class BackendError(ParaudioError):
    """A load, a preparation or a run failed inside the backend; ``__cause__`` tells why."""


class LoadError(BackendError):
    """A model could not be loaded; it stays registered and unloaded.

    Also to a request, whose caller did not choose the path that is wrong: whoever registered the
    model did, and is told so as a 400 when registering.
    """

    code = "load_failed"


class LoadTimeoutError(LoadError):
    """Weights and sessions were not built within ``load_timeout_ms``; the load was told to stop."""

    status = 504
    code = "load_timeout"


class BackendCrashedError(BackendError):
    """The worker process behind a session died during this request."""

    type = "backend_crashed"
    code = "backend_crashed"


class BackendHungError(BackendError):
    """A backend call ignored cancellation for ``hang_timeout_ms``; its slot is out of use."""

    type = "backend_hung"
    code = "backend_hung"


class StorageError(ParaudioError):
    """An upload could not be kept on the server's disk."""

    code = "storage_failed"


class InsufficientStorageError(StorageError):
    """The server's folder for temporary files has no room for an upload.

    A 5xx, but client libraries are told not to send a large body again at once.
    """

    status = 507
    code = "no_space"


class ConfigError(ParaudioError):
    """The configuration is wrong at the key that ``param`` names; the process exits with 2."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_config"


def _likeness(one: str, other: str) -> float:
    """How alike two names are, 0 to 1; the length of either does not matter to the time."""
    matcher = SequenceMatcher(
        None, one[:_NAME_CHARACTERS].lower(), other[:_NAME_CHARACTERS].lower()
    )
    return matcher.ratio()
