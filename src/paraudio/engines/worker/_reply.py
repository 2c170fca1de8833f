"""The answer of one backend call: a value or an error that every room understands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeAlias, TypeVar

from paraudio.engines._stop import Stopped
from paraudio.errors import BackendError, InvalidRequestError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """The call ended well.

    Attributes:
        value: What it returned.
        touched: Whether the session must be restored before its next job.
    """

    value: T_co
    touched: bool = False

    def unwrap(self) -> T_co:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed.

    Attributes:
        error: What the caller will see; its ``__cause__`` is the backend's own error.
        touched: Whether the session must be restored before its next job.
    """

    error: InvalidRequestError | BackendError
    touched: bool = True

    def unwrap(self) -> NoReturn:
        """Raise the error."""
        raise self.error


Reply: TypeAlias = Done[T] | Failed


def translated(
    error: BaseException, what: str, kind: type[BackendError] = BackendError
) -> InvalidRequestError | BackendError:
    """Turn whatever a family raised into an error of ours; ours pass as they are.

    Args:
        error: What was raised.
        what: The call, for the message (``model 'x': run``).
        kind: The error for everything that is not the caller's fault.
    """
    if isinstance(error, InvalidRequestError | BackendError):
        return error
    said = "it ended early by itself" if isinstance(error, Stopped) else _said(error)
    ours = kind(f"{what} failed: {said}")
    ours.__cause__ = error
    return ours


def attempt(
    work: Callable[[], T],
    what: str,
    *,
    kind: type[BackendError] = BackendError,
    touched: bool = True,
) -> Reply[T]:
    """Make a call and catch all that it raises; ``touched`` is what a failure leaves behind."""
    try:
        return Done(work())
    except BaseException as error:
        return Failed(translated(error, what, kind), touched)


def _said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
