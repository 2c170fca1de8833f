"""A session in the hands of blocking code: every call gives a reply, none raises.

The same host serves a thread of the server and the main thread of a child process.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from paraudio.engines._protocols import (
    BatchSession,
    Family,
    LiveSession,
    LoadedModel,
    Session,
    StreamingSession,
)
from paraudio.engines._stop import Stop
from paraudio.engines._values import Job, Load, Piece, Result, StreamEvent
from paraudio.engines.worker._live import deltas, ending
from paraudio.engines.worker._prepare import begin, built, prepare, prepare_all
from paraudio.engines.worker._reply import Done, Failed, Reply, attempt
from paraudio.errors import BackendError, LoadError
from paraudio.spec import MAX_SLOTS

T = TypeVar("T")


class SessionHost:
    """One session, built over loaded weights; used by one thread at a time.

    Attributes:
        can_stream: Whether the session streams.
        can_batch: Whether it has a native batch.
        can_live: Whether it takes input that is still being made.
    """

    def __init__(self, model: LoadedModel, name: str) -> None:
        """Build the session.

        Raises:
            LoadError: The family built none.
            Exception: The family failed.
        """
        self._model = model
        self._name = name
        self._session: Session | None = built(model.session(), name)
        self._open: Iterator[object] | None = None
        self._live: LiveSession | None = None
        self.can_stream = isinstance(self._session, StreamingSession)
        self.can_batch = isinstance(self._session, BatchSession)
        self.can_live = isinstance(self._session, LiveSession)

    def run(self, job: Job, stop: Stop) -> Reply[Result]:
        """Prepare and run one job."""
        session = self._alive()
        prepared = prepare(session, job, self._what("preparation"))
        if isinstance(prepared, Failed):
            return prepared
        return attempt(
            lambda: _checked(session.run(prepared.value, stop), Result), self._what("run")
        )

    def open_stream(self, job: Job, stop: Stop) -> Reply[None]:
        """Prepare a job and open its stream."""
        session = self._alive()
        prepared = prepare(session, job, self._what("preparation"))
        if isinstance(prepared, Failed):
            return prepared
        if not isinstance(session, StreamingSession):
            return Failed(BackendError(f"{self._name} does not stream"), touched=False)
        return self._opened(lambda: session.stream(prepared.value, stop), "stream")

    def open_batch(self, jobs: Sequence[Job], stop: Stop) -> Reply[None]:
        """Prepare jobs and open their batch."""
        session = self._alive()
        prepared = prepare_all(session, jobs, self._what("preparation"))
        if isinstance(prepared, Failed):
            return prepared
        if not isinstance(session, BatchSession):
            return Failed(BackendError(f"{self._name} has no native batch"), touched=False)
        return self._opened(lambda: session.run_batch(prepared.value, stop), "batch")

    def next_event(self, stop: Stop) -> Reply[StreamEvent | None]:
        """Compute one event of the open stream; None is its end."""
        return self._next(stop, lambda item: _checked(item, StreamEvent), "stream")

    def next_result(self, stop: Stop) -> Reply[tuple[int, Result] | None]:
        """Compute one result of the open batch; None is its end."""
        return self._next(stop, _indexed, "batch")

    def begin(self, job: Job, stop: Stop) -> Reply[None]:
        """Begin a live job."""
        session = self._alive()
        if not isinstance(session, LiveSession):
            return Failed(BackendError(f"{self._name} takes no live input"), touched=False)
        reply = begin(session, job, stop, self._what("preparation"))
        if isinstance(reply, Done):
            self._live = session
        return reply

    def feed(self, piece: Piece, stop: Stop) -> Reply[tuple[StreamEvent, ...]]:
        """Give one piece to the live job."""
        return self._fed(lambda session: deltas(session.feed(piece, stop)), stop, "live")

    def finish(self, stop: Stop) -> Reply[tuple[StreamEvent, ...]]:
        """End the input of the live job, and with it the job."""
        reply = self._fed(lambda session: ending(session.finish(stop)), stop, "end of live input")
        self._live = None
        return reply

    def leave(self) -> Reply[None]:
        """Close the open stream, batch or live job, if there is one."""
        reply = attempt(self._drop, self._what("end of a stream"))
        return Done(None, touched=True) if isinstance(reply, Done) else reply

    def restore(self) -> Reply[None]:
        """Reset the session; if that fails, close it and build another."""
        return attempt(self._restore, self._what("restore"))

    def close(self) -> Reply[None]:
        """Free the session."""
        return attempt(self._close, self._what("close"))

    def _restore(self) -> None:
        try:
            self._drop()
            self._alive().reset()
        except Exception:
            self._close()
            self._session = built(self._model.session(), self._name)

    def _close(self) -> None:
        session, self._session = self._session, None
        try:
            self._drop()
        finally:
            if session is not None:
                session.close()

    def _opened(self, make: Callable[[], Iterator[object]], what: str) -> Reply[None]:
        reply = attempt(make, self._what(what))
        if isinstance(reply, Failed):
            return reply
        self._open = iter(reply.value)
        return Done(None, touched=True)

    def _next(self, stop: Stop, check: Callable[[object], T], what: str) -> Reply[T | None]:
        def pull() -> T | None:
            stop.check()
            if self._open is None:
                raise RuntimeError("nothing is open")
            for item in self._open:
                return check(item)
            return None

        reply = attempt(pull, self._what(what))
        return Done(reply.value, touched=True) if isinstance(reply, Done) else reply

    def _fed(
        self,
        work: Callable[[LiveSession], tuple[StreamEvent, ...]],
        stop: Stop,
        what: str,
    ) -> Reply[tuple[StreamEvent, ...]]:
        def call() -> tuple[StreamEvent, ...]:
            stop.check()
            if self._live is None:
                raise RuntimeError("nothing has begun")
            return work(self._live)

        reply = attempt(call, self._what(what))
        return Done(reply.value, touched=True) if isinstance(reply, Done) else reply

    def _drop(self) -> None:
        self._live = None
        opened, self._open = self._open, None
        close = getattr(opened, "close", None)
        if close is not None:
            close()

    def _alive(self) -> Session:
        return built(self._session, self._name)

    def _what(self, call: str) -> str:
        return f"{self._name}: {call}"


@dataclass(frozen=True, slots=True)
class ModelHost:
    """Loaded weights.

    Attributes:
        model: The weights.
        capacity: How many sessions may exist at once, 1..16.
        voices: Voices of the model itself.
        name: The model, for messages.
    """

    model: LoadedModel
    capacity: int
    voices: tuple[str, ...]
    name: str

    def session(self) -> Reply[SessionHost]:
        """Build a session."""
        what = f"{self.name}: session"
        return attempt(lambda: SessionHost(self.model, self.name), what, kind=LoadError)

    def close(self) -> Reply[None]:
        """Free the weights."""
        return attempt(self.model.close, f"{self.name}: unload")


def load_host(family: Family, load: Load, stop: Stop) -> Reply[ModelHost]:
    """Load weights and ask what they allow; what fails or is stopped leaves nothing behind."""
    name = f"model {load.model_id!r}"
    return attempt(lambda: _load(family, load, stop, name), f"{name}: load", kind=LoadError)


def _load(family: Family, load: Load, stop: Stop, name: str) -> ModelHost:
    model = family.load(load, stop)
    try:
        stop.check()
        return ModelHost(model, _capacity(model), model.voices(), name)
    except BaseException:
        model.close()
        raise


def _capacity(model: LoadedModel) -> int:
    capacity = model.capacity()
    if capacity < 1:
        raise ValueError(f"the family says that {capacity} sessions may exist")
    return min(capacity, MAX_SLOTS)


def _checked(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"the family gave {type(value).__name__}, not {kind.__name__}")
    return value


def _indexed(item: object) -> tuple[int, Result]:
    match item:
        case (int() as index, Result() as result):
            return index, result
        case _:
            raise TypeError(f"the family gave {type(item).__name__}, not an index and a Result")
