"""Every error that a caller can see, each with the status and the code that it is answered with.

A 4xx is the caller's to mend: its message names the field, what was given and what would do. A 5xx
is never the caller's fault. One mapper, in ``paraudio.http``, turns these into responses.
"""

from typing import ClassVar


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


class PayloadTooLargeError(ParaudioError):
    """The body is larger than ``max_request_body_bytes``."""

    status = 413
    type = "invalid_request_error"
    code = "payload_too_large"


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
    """A model could not be loaded; it stays registered and unloaded."""


class BackendCrashedError(BackendError):
    """The worker process behind a session died during this request."""

    type = "backend_crashed"
    code = "backend_crashed"


class BackendHungError(BackendError):
    """A backend call ignored cancellation for ``hang_timeout_ms``; its slot is out of use."""

    type = "backend_hung"
    code = "backend_hung"


class ConfigError(ParaudioError):
    """The configuration is wrong at the key that ``param`` names; the process exits with 2."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_config"
