"""What a family of models implements: blocking code, run by an isolation, never on the event loop.

A family is written once, as plain blocking classes. Where that code runs (a thread, a child
process, virtual time in tests) is the business of `paraudio.engines.isolation`.

All three protocols are called from one thread at a time for one object, except that several
sessions of one `LoadedModel` run concurrently. Sessions share nothing that any of them changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from paraudio.engines._options import Option
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Load, Piece, Result, StreamEvent
from paraudio.spec import IsolationName, Json, Task


class Session(Protocol):
    """One private execution state over shared weights; one call at a time."""

    def prepare(self, job: Job) -> object:
        """Check the job and turn it into what ``run`` takes (phonemes, features, resampled sound).

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """

    def run(self, prepared: object, stop: Stop) -> Result:
        """Compute the whole result.

        Raises:
            Stopped: ``stop`` was set; the session may need ``reset`` and is otherwise usable.
        """

    def reset(self) -> None:
        """Forget all of the last job, and prove that the session still works.

        Called after a stream, after a stop and after a failure, before the slot is free again.

        Raises:
            Exception: The session is broken; it is closed and replaced.
        """

    def close(self) -> None:
        """Free what the session owns; the last call. Never raises."""


@runtime_checkable
class StreamingSession(Session, Protocol):
    """A session that can deliver a result piece by piece."""

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Yield deltas, then one event with the whole result; each ``next`` runs off the loop.

        The iterator is closed on every way out; raises `Stopped` as ``run`` does.
        """


@runtime_checkable
class BatchSession(Session, Protocol):
    """A session that runs several jobs in one native batch."""

    def run_batch(self, prepared: Sequence[object], stop: Stop) -> Iterator[tuple[int, Result]]:
        """Yield ``(index, result)`` as each job ends, in any order, each index once."""


@runtime_checkable
class LiveSession(Session, Protocol):
    """A session that takes its input while it is still being made.

    ``begin``, then ``feed`` for each piece, then ``finish``: each is a call of its own, and between
    two calls nothing runs. After ``finish``, after an error, or when nobody goes on, ``reset``
    makes the session ready for its next job.
    """

    def begin(self, job: Job, stop: Stop) -> None:
        """Check a job that has neither text nor sound yet, and get ready for its first piece.

        Raises:
            InvalidRequestError: The job is wrong; ``param`` names the field.
        """

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        """Take one piece, and return what is known by it; never the whole ``result``.

        Args:
            piece: Sound of any length, all pieces at one rate; or text that follows the last one.
            stop: Ends the call early.

        Raises:
            InvalidRequestError: The piece is not of the kind that the task takes.
            Stopped: ``stop`` was set.
        """

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        """Take the end of the input, and return what is left; the last event has ``result``.

        Raises:
            Stopped: ``stop`` was set.
        """


class LoadedModel(Protocol):
    """Immutable weights in memory, shared by the sessions built over them."""

    def capacity(self) -> int:
        """How many sessions may exist at once for the task and options loaded; at least 1."""

    def voices(self) -> tuple[str, ...]:
        """The names of the voices that the model itself has; empty where there is only one."""

    def session(self) -> Session | None:
        """Build a session. Returning None is a failure like any other."""

    def close(self) -> None:
        """Free the weights; called after every session is closed. Never raises."""


class Family(Protocol):
    """A kind of model: how to recognise, estimate and load it.

    Attributes:
        name: What ``family`` in a model's metadata says.
        tasks: The modes that each task can be built for.
        load_options: Schema of ``load_options``.
        session_options: Schema of ``session_options``.
        request_options: Schema of a request's ``options``.
        isolation: The isolation that the family needs, or None where any will do.
        imitates: Whether its models speak with the voice of a recording that a request brings.
        advertises: How many slots the family may offer on the CPU, and how that was validated: one
            line for the startup notice.
    """

    name: str
    tasks: Mapping[Task, frozenset[str]]
    load_options: tuple[Option, ...]
    session_options: tuple[Option, ...]
    request_options: tuple[Option, ...]
    isolation: IsolationName | None
    imitates: bool
    advertises: str

    def inspect(self, load: Load) -> Mapping[str, Json]:
        """Read the model's own description without loading it; reads small files, so it blocks.

        Returns:
            Facts for ``GET /v1/models`` (sample rate, language, voices), by name.

        Raises:
            InvalidRequestError: ``path``, ``config`` or ``weight`` is not such a model.
        """

    def estimate(self, load: Load) -> int:
        """Bytes of memory that the loaded model and one session will need; reads file sizes."""

    def load(self, load: Load, stop: Stop) -> LoadedModel:
        """Load the weights.

        Raises:
            Stopped: ``stop`` was set; nothing is left behind.
            Exception: The load failed; nothing is left behind.
        """
