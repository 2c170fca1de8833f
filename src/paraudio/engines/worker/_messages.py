"""What the server and its worker processes say to each other."""

import traceback
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from paraudio.engines.worker._reply import Done, Failed, Reply
from paraudio.errors import BackendError, InvalidRequestError

_OURS: Final = BackendError.__module__

Verb: TypeAlias = Literal[
    "load",
    "session",
    "run",
    "open_stream",
    "open_batch",
    "next_event",
    "next_result",
    "begin",
    "feed",
    "finish",
    "leave",
    "restore",
    "close",
    "unload",
]


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to a worker.

    Attributes:
        paths: Where the server's interpreter finds modules, for families that live elsewhere.
    """

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A call: to be answered with one `Answer` of the same number.

    Attributes:
        number: Counts the calls of one worker.
        verb: What to do.
        arguments: What with.
        stoppable: Whether the call takes a stop as its last argument.
    """

    number: int
    verb: Verb
    arguments: tuple[object, ...]
    stoppable: bool


@dataclass(frozen=True, slots=True)
class StopAsking:
    """Sets the stop of a call, if it still runs."""

    number: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The first message of a worker."""

    pid: int


@dataclass(frozen=True, slots=True)
class Fault:
    """An error on its way: exceptions lose their cause in a pickle.

    Attributes:
        kind: Its class, or the nearest one above it that is ours: a family's own may be unknown to
            the server, or take other arguments.
        message: Its message.
        param: The field at fault, or None.
        trace: The traceback of its cause in the worker, or "".
        touched: Whether the session must be restored.
    """

    kind: type[InvalidRequestError] | type[BackendError]
    message: str
    param: str | None
    trace: str
    touched: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended."""

    number: int
    outcome: Done[object] | Fault


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the server wants to know of a load.

    Attributes:
        capacity: How many sessions may exist at once.
        voices: Voices of the model itself.
    """

    capacity: int
    voices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server wants to know of a session."""

    can_stream: bool
    can_batch: bool
    can_live: bool


class WorkerTraceback(Exception):  # noqa: N818 - it is the trace of an error, carried as a cause
    """What went wrong in a worker process, as text."""

    def __str__(self) -> str:
        """Begin on a line of its own, as a traceback does."""
        return "\n" + "".join(map(str, self.args))


def packed(reply: Reply[object]) -> Done[object] | Fault:
    """Make a reply fit to travel."""
    if isinstance(reply, Done):
        return reply
    error, cause = reply.error, reply.error.__cause__
    trace = "".join(traceback.format_exception(cause)) if cause is not None else ""
    kind = next(each for each in type(error).__mro__ if each.__module__ == _OURS)
    return Fault(kind, error.message, error.param, trace, reply.touched)


def unpacked(outcome: Done[object] | Fault) -> Reply[object]:
    """The reply that travelled."""
    if isinstance(outcome, Done):
        return outcome
    error = outcome.kind(outcome.message, param=outcome.param)
    if outcome.trace:
        error.__cause__ = WorkerTraceback(outcome.trace)
    return Failed(error, outcome.touched)
