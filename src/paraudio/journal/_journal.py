"""The journal of a process: numbers every transition, keeps the latest, and writes a file."""

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import islice
from math import inf
from types import TracebackType
from typing import Final, Self

import trio

from paraudio.journal._events import Event, Kind
from paraudio.journal._format import Header, new_header
from paraudio.journal._pulse import Pulse
from paraudio.journal._writer import Writer
from paraudio.spec import Json

log = logging.getLogger(__name__)

RING: Final = 10_000
"""Events that are kept in memory."""
PAUSE_S: Final = 0.1
"""Between two writes of the file: few large ones cost less than many small ones."""
LONG_MS: Final = 1000
"""A pause that is worth a line of the log."""
RETRY_S: Final = 1.0
"""Between two tries of a disk that takes nothing, where no event comes."""


class Journal:
    """A recorder with a memory and, if it is given a path, a file.

    It records from the beginning. As a context manager it owns its file: entering opens it and
    starts the task that writes it, leaving writes whatever was recorded by then and closes it. So
    whoever records belongs inside of the block.

    Recording never blocks and never fails. A disk that is full or gone costs events of the file
    only, and only if it stays so: both ends of such an outage are logged, and `lost` counts them.

    Args:
        path: The file, JSON lines; None for none. One that holds a journal becomes ``path.1``.
        deferred: Whether the file waits for `open`; until then nothing is touched, and what is
            recorded is pending. Without that call there is no file.
        ring: Events that are kept in memory.
        clock: Seconds that never run backwards; None takes the clock of the running loop, or
            ``time.monotonic`` where none runs.
        pulse: Knows when the system did not run this process, which is recorded before whatever
            comes next; it is run elsewhere, on the same clock.

    Attributes:
        revision: The number of the latest event; 0 before the first.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        deferred: bool = False,
        ring: int = RING,
        clock: Callable[[], float] | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self.revision = 0
        self._ring: deque[Event] = deque(maxlen=ring)
        self._now = self._first_now if clock is None else clock
        self._pulse = Pulse() if pulse is None else pulse
        self._writer = None if path is None else Writer(os.fspath(path))
        self._deferred = deferred
        self._changed: trio.Event | None = None
        self._followers: list[Callable[[Event], None]] = []
        self._owned = AsyncExitStack()
        self._nursery: trio.Nursery | None = None
        self._header: Header | None = None

    def __call__(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        """Record one transition."""
        at = self._now()
        if at > self._pulse.due:
            self._note_pause()
            at = self._now()
        self.revision = seq = self.revision + 1
        event = _make(Event, (seq, at, kind, model, facts))
        self._ring.append(event)
        if self._writer is not None:
            self._writer.put(event)
        for follower in self._followers:
            try:
                follower(event)
            except Exception:
                log.exception("a follower of the journal failed on %s", event.kind)
        # A thread may record too, when a process ends in haste; it cannot wake tasks.
        if self._changed is not None and trio.lowlevel.in_trio_run():
            self._changed.set()
            self._changed = None

    def follow(self, follower: Callable[[Event], None]) -> None:
        """Pass every event from now on to ``follower``, in the very step that records it.

        It must not block, nor record; an error of it is logged, and goes no further.
        """
        self._followers.append(follower)

    @property
    def lost(self) -> int:
        """Events that could not be written to the file; 0 without one."""
        return 0 if self._writer is None else self._writer.lost

    def since(self, revision: int) -> list[Event]:
        """The events after a revision, oldest first, as far as memory still has them."""
        kept = len(self._ring)
        first = self.revision - kept + 1
        return list(islice(self._ring, max(0, revision + 1 - first), kept))

    async def wait_change(self, revision: int) -> None:
        """Wait for an event after this revision; always a checkpoint.

        Cancelled: nothing has happened.
        """
        await trio.lowlevel.checkpoint()
        while self.revision <= revision:
            if self._changed is None:
                self._changed = trio.Event()
            await self._changed.wait()

    def flush(self, *, last: bool = False) -> None:
        """Bring what was recorded to the file now, blocking; for a process that ends in haste.

        Args:
            last: Nothing will be written after this. What a full disk does not take is then shown
                by a gap, as where the journal is closed.
        """
        if self._writer is not None:
            self._writer.flush(last=last)

    async def __aenter__(self) -> Self:
        """Open the file, unless that is deferred.

        Raises:
            ConfigError: It cannot be written, is in use, or is no journal.
        """
        if self._writer is not None:
            self._header = new_header(self._now())
            if not self._deferred:
                await trio.to_thread.run_sync(self._writer.open, self._header)
            self._nursery = await self._owned.enter_async_context(trio.open_nursery())
            if not self._deferred:
                self._nursery.start_soon(self._write, self._writer)
        return self

    async def open(self) -> None:
        """Open the file of a deferred journal, inside its block, once; nothing without a path.

        Cancelled: the file is opened all the same, or was not touched.

        Raises:
            ConfigError: As entering does.
        """
        if self._writer is not None:
            if self._nursery is None or self._header is None:
                raise RuntimeError("a journal is opened inside its block")
            await trio.to_thread.run_sync(self._writer.open, self._header)
            self._nursery.start_soon(self._write, self._writer)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Write what is left and close the file. Cancelled: does so all the same."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel("the journal ends")
        try:
            return await self._owned.__aexit__(kind, error, traceback)
        finally:
            if self._writer is not None:
                self._writer.finish()

    async def _write(self, writer: Writer) -> None:
        """Write batches, as events come or the disk may take them again, until cancelled.

        The thread is abandoned then: it has the writer's lock, which the last write waits for.
        """
        written = 0
        while True:
            with trio.move_on_after(RETRY_S if writer.failing else inf):
                await self.wait_change(written)
            written = self.revision
            try:
                await trio.to_thread.run_sync(writer.write, abandon_on_cancel=True)
            except RuntimeError as error:  # the system has no thread left to give
                writer.put_off(error)
            await trio.sleep(PAUSE_S)

    def _note_pause(self) -> None:
        """Record that the process did not run, if that is so."""
        ms = math.ceil(self._pulse.take() * 1000)
        if ms:
            self(Kind.PAUSED, ms=ms)
        if ms >= LONG_MS:
            log.warning("the system did not run this process for %d ms", ms)

    def _first_now(self) -> float:
        """Find the clock, and look at it."""
        try:
            self._now = trio.lowlevel.current_clock().current_time
        except RuntimeError:
            self._now = time.monotonic
        return self._now()


_make: Final = tuple.__new__
"""Makes an event without the call of a function in between, which would take as long again."""
