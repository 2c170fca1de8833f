"""Behaviour written once for real and for virtual time: generators that yield seconds to let pass.

A family whose work is mostly waiting (the simulated one) writes each call as such a generator. In a
thread, `drive` lets the seconds pass by blocking; in tests, ``paraudio.testing`` lets them pass on
the event loop's clock, which may be virtual.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from paraudio.engines._protocols import (
    BatchSession,
    Family,
    LiveSession,
    LoadedModel,
    StreamingSession,
)
from paraudio.engines._stop import Stop
from paraudio.engines._values import Load, Piece, Result, StreamEvent

T = TypeVar("T")
Steps: TypeAlias = Generator[float, None, T]
"""Yields seconds to let pass and returns what the call returns."""

ItemSteps: TypeAlias = Generator[float | T, None, None]
"""Yields seconds to let pass, and between them the items of the call."""


@runtime_checkable
class SteppedSession(StreamingSession, BatchSession, Protocol):
    """A session whose calls also exist as steps.

    Attributes:
        ignores_stop: Whether a call goes on to its end when it is told to stop.
    """

    ignores_stop: bool

    def run_steps(self, prepared: object) -> Steps[Result]:
        """The steps of ``run``."""

    def stream_steps(self, prepared: object) -> ItemSteps[StreamEvent]:
        """The steps of ``stream``."""

    def batch_steps(self, prepared: Sequence[object]) -> ItemSteps[tuple[int, Result]]:
        """The steps of ``run_batch``."""


@runtime_checkable
class SteppedLiveSession(LiveSession, Protocol):
    """A live session whose calls also exist as steps; ``begin`` takes no time."""

    def feed_steps(self, piece: Piece) -> Steps[Sequence[StreamEvent]]:
        """The steps of ``feed``."""

    def finish_steps(self) -> Steps[Sequence[StreamEvent]]:
        """The steps of ``finish``."""


class SteppedModel(LoadedModel, Protocol):
    """A loaded model whose calls also exist as steps."""

    def session(self) -> SteppedSession | None:
        """Build a session, at once."""

    def close_steps(self) -> Steps[None]:
        """The steps of ``close``."""


@runtime_checkable
class SteppedFamily(Family, Protocol):
    """A family whose loads also exist as steps."""

    def load_ignores_stop(self, load: Load) -> bool:
        """Whether a load goes on to its end when it is told to stop."""

    def load_steps(self, load: Load) -> Steps[SteppedModel]:
        """The steps of ``load``."""


def drive(steps: Steps[T], stop: Stop | None) -> T:
    """Block this thread through all steps; without a ``stop`` nothing ends them early.

    Raises:
        Stopped: ``stop`` was set; the generator was closed.
    """
    while True:
        try:
            seconds = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            _pass(seconds, stop)
        except BaseException:
            steps.close()
            raise


def drive_items(steps: ItemSteps[T], stop: Stop | None) -> Iterator[T]:
    """Block this thread through the steps that lie before each item; raises as `drive` does."""
    try:
        for step in steps:
            if isinstance(step, int | float):
                _pass(step, stop)
            else:
                yield step
    finally:
        steps.close()


def _pass(seconds: float, stop: Stop | None) -> None:
    if stop is None:
        time.sleep(seconds)
    else:
        stop.wait(seconds)
