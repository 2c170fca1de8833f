"""How far shutdown has gone, and the scopes that it ends: at once, or after a grace."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import trio

from paraudio.errors import ShuttingDownError
from paraudio.journal import Kind, Recorder


class Phase(StrEnum):
    """Where the process stands; it never goes back."""

    RUNNING = "running"
    DRAINING = "draining"
    """No new work; what runs goes on."""
    STOPPING = "stopping"
    """What still runs is told to stop; pools are retired."""
    STOPPED = "stopped"
    """No pool is left."""


_ORDER = tuple(Phase)


class Phases:
    """The phase, and two kinds of scopes that hang on it.

    Args:
        record: Takes each change of phase.
        grace_s: Seconds that each shielded piece of work may still take once stopping.
    """

    def __init__(self, record: Recorder, grace_s: float) -> None:
        self._record = record
        self.grace_s = grace_s
        self.phase = Phase.RUNNING
        self._draining = trio.Event()
        self._stopping = trio.Event()
        self._interruptible: set[trio.CancelScope] = set()
        self._shielded: set[trio.CancelScope] = set()

    @property
    def running(self) -> bool:
        """Whether new work is taken."""
        return self.phase is Phase.RUNNING

    @property
    def stopping(self) -> bool:
        """Whether everything is to end."""
        return self._stopping.is_set()

    def advance(self, to: Phase) -> None:
        """Go on to a phase; going back, or staying, does nothing."""
        if _ORDER.index(to) <= _ORDER.index(self.phase):
            return
        self.phase = to
        self._draining.set()
        self._record(Kind.PHASE, phase=to.value)
        if to is Phase.STOPPING:
            self._end_scopes()

    def check(self) -> None:
        """Raise `ShuttingDownError` unless new work is taken."""
        if not self.running:
            raise self.refusal()

    @staticmethod
    def refusal() -> ShuttingDownError:
        """What everybody is told who comes too late."""
        return ShuttingDownError("the server is shutting down and takes no new work")

    async def wait_draining(self) -> None:
        """Wait until no new work is taken."""
        await self._draining.wait()

    async def wait_stopping(self) -> None:
        """Wait until everything is to end."""
        await self._stopping.wait()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within the block, stopping cancels; the block then raises `ShuttingDownError`."""
        with trio.CancelScope() as scope:
            self._interruptible.add(scope)
            if self.stopping:
                scope.cancel()
            try:
                yield
            finally:
                self._interruptible.discard(scope)
        if scope.cancelled_caught:
            raise ShuttingDownError("the server is shutting down; this was cut short")

    @contextmanager
    def shielded(self) -> Iterator[trio.CancelScope]:
        """Within the block nothing cancels, except ``grace_s`` after stopping has begun."""
        deadline = trio.current_time() + self.grace_s if self.stopping else math.inf
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            self._shielded.add(scope)
            try:
                yield scope
            finally:
                self._shielded.discard(scope)

    def _end_scopes(self) -> None:
        """Cancel what may be interrupted; give the rest its grace."""
        self._stopping.set()
        deadline = trio.current_time() + self.grace_s
        for scope in tuple(self._interruptible):
            scope.cancel()
        for scope in tuple(self._shielded):
            scope.deadline = min(scope.deadline, deadline)
