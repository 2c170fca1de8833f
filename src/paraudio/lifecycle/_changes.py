"""The one place that every transition passes: it goes to the journal, and wakes who waits."""

from collections.abc import Callable

import trio

from paraudio.journal import Kind, Recorder
from paraudio.spec import Json


class Changes:
    """A recorder that counts, passes on, and wakes.

    Transitions are recorded in the middle of a step, before or after the data changes; whoever
    waits runs in a later step and so sees the change complete.

    Args:
        record: Takes each transition, after this object has counted it.
        revision: What snapshots call their revision, for a journal that counts more than the
            lifecycle's own transitions; None counts those.
    """

    def __init__(self, record: Recorder, revision: Callable[[], int] | None = None) -> None:
        self._record = record
        self._count = 0
        self._revision = revision
        self._changed: trio.Event | None = None

    @property
    def revision(self) -> int:
        """Grows with each change."""
        return self._count if self._revision is None else self._revision()

    def __call__(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        """Record one transition and wake everybody who waits for one."""
        self._count += 1
        self._record(kind, model, **facts)
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def next(self) -> None:
        """Wait for the next transition. Cancelled: nothing has happened."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    async def beyond(self, revision: int) -> None:
        """Wait until the revision is greater than this one; always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.revision <= revision:
            await self.next()
