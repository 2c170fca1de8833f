"""What the lifecycle sees of a backend: asynchronous handles, whatever runs behind them.

An isolation wraps the blocking code of a family. Every coroutine here has the same rule under
cancellation: the backend is told to stop within one scheduler step, and the coroutine returns only
when the backend is out of the call, or has ignored the stop for ``hang_timeout_ms``; then
the handle is ``busy`` until the call ends after all, and nothing else may use it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from paraudio.engines._protocols import Family
from paraudio.engines._values import Job, Load, Piece, Result, StreamEvent
from paraudio.spec import Json


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a model before it is loaded.

    Attributes:
        facts: The family's facts for ``GET /v1/models``.
        memory: Estimated bytes of the loaded weights and one session.
    """

    facts: Mapping[str, Json]
    memory: int


class LiveHandle(Protocol):
    """A job whose input is still being made; one call at a time."""

    async def feed(self, piece: Piece) -> Sequence[StreamEvent]:
        """Give one piece, and wait until it is worked through: that is what holds a sender back.

        Raises:
            InvalidRequestError: The piece is not of the kind that the task takes.
            BackendCrashedError: The worker died.
            BackendError: The session failed.
        """

    async def finish(self) -> Sequence[StreamEvent]:
        """End the input, and wait for what is left; the last event has the whole result.

        Raises:
            BackendCrashedError: The worker died.
            BackendError: The session failed.
        """


class SessionHandle(Protocol):
    """One session, wherever it runs; used by one lease at a time."""

    @property
    def busy(self) -> bool:
        """Whether a call is still inside the backend."""

    @property
    def lost(self) -> bool:
        """Whether what it lived in has died, so that ``restore`` loads its model anew."""

    @property
    def can_stream(self) -> bool:
        """Whether ``stream`` works."""

    @property
    def can_batch(self) -> bool:
        """Whether ``run_batch`` works."""

    async def run(self, job: Job) -> Result:
        """Prepare and run one job.

        Raises:
            InvalidRequestError: The job is wrong; the session is untouched.
            BackendCrashedError: The worker died; ``restore`` brings the session back.
            BackendError: The preparation or the run failed; ``restore`` before the next use.
        """

    def stream(self, job: Job) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Prepare a job and pull its events; entering prepares, leaving stops what still runs."""

    def run_batch(
        self, jobs: Sequence[Job]
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[int, Result]]]:
        """Prepare several jobs and pull their results as each ends; entering prepares."""

    @property
    def can_live(self) -> bool:
        """Whether ``live`` works."""

    def live(self, job: Job) -> AbstractAsyncContextManager[LiveHandle]:
        """Begin a job that is fed piece by piece; leaving ends it, finished or not.

        Raises:
            InvalidRequestError: The job is wrong; the session is untouched.
        """

    async def restore(self) -> None:
        """Make the session usable after a stream, a stop or a failure: reset it, else replace it.

        Does nothing for a session whose last call was a complete ``run``.

        Raises:
            BackendError: It can be neither reset nor replaced; the caller retires the pool.
        """

    async def wait_idle(self) -> None:
        """Wait until no call is inside the backend; returns at once when not ``busy``."""

    async def kill(self) -> bool:
        """End a call that ignores its stop, where the isolation can (a process); False otherwise.

        After True the handle is no longer ``busy`` and ``restore`` brings the session back.
        """

    async def close(self) -> None:
        """Free the session; never raises. A session that is ``busy`` is abandoned to its thread."""


class ModelHandle(Protocol):
    """Loaded weights, wherever they live."""

    @property
    def capacity(self) -> int:
        """How many sessions may exist at once, 1..16."""

    @property
    def voices(self) -> tuple[str, ...]:
        """Voices of the model itself."""

    async def session(self) -> SessionHandle:
        """Build a session.

        Raises:
            LoadError: The family failed or returned none.
        """

    async def close(self) -> None:
        """Free the weights, after every session; never raises."""


class AbandonedCall(Protocol):
    """A call that ignored its stop and was given up; what it holds is not free until it ends."""

    @property
    def what(self) -> str:
        """The call, in words."""

    @property
    def ended(self) -> bool:
        """Whether the backend is out of the call after all."""

    def then(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on the event loop when the call ends, or now if it has ended."""


class Isolation(Protocol):
    """A way to run families: in threads of this process, in children, or in virtual time."""

    async def inspect(self, family: Family, load: Load) -> Inspection:
        """Ask the family about a model without loading it.

        Raises:
            InvalidRequestError: The path is no such model.
        """

    async def load(self, family: Family, load: Load) -> ModelHandle:
        """Load weights.

        Cancelled: the load is told to stop, and what it had built is freed before this returns.

        Raises:
            InvalidRequestError: The path or an option is wrong.
            LoadError: The load failed; nothing is left behind.
        """

    def abandoned_of(self, model_id: str) -> Sequence[AbandonedCall]:
        """The calls of one model that ignored their stop and still run, oldest first."""

    def abandoned(self) -> list[str]:
        """One line for each call that ignored its stop and still runs, for the exit report."""
