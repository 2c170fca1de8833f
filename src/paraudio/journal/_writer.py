"""Writing the journal's file: in batches, in a worker thread, and never in the recorder's way."""

import fcntl
import logging
import os
import threading
from collections import deque
from contextlib import suppress
from itertools import accumulate
from typing import Final

from paraudio.errors import ConfigError
from paraudio.journal._events import Event
from paraudio.journal._file import open_file
from paraudio.journal._format import Header, encode_events, encode_header

log = logging.getLogger(__name__)

BATCH: Final = 10_000
"""Events that are encoded at a time."""
MAX_PENDING: Final = 200_000
"""Events that wait for a disk that does not take them; beyond that, only the latest is kept."""
PATIENCE_S: Final = 0.5
"""How long the last write waits for one that is under way."""
TAIL: Final = 64
"""Lines at the end of the file whose lengths are known."""
_CLOSED: Final = -1
"""No file; writing to it is the error that a closed file is."""


class Writer:
    """Takes events on the event loop and writes them wherever it is told to.

    A write that fails leaves whole lines, as many as the file took; the rest stays pending and is
    tried again. So a disk needs no more room than one line to go on. The beginning of an outage is
    logged, and its end. Events that had to be dropped are counted, and are missing in the numbers
    of the file: something that was recorded after them is always written, if anything can be.

    Args:
        path: The file; see `open_file` for one that exists.

    Attributes:
        lost: Events that are not in the file and never will be.
        failing: Whether the latest write failed, so that events wait for another try.
    """

    # ``_pending`` is shared: the loop appends on the right, whoever has the lock works on the left.
    # Each of these steps is atomic.

    def __init__(self, path: str) -> None:
        self.lost = 0
        self.failing = False
        self._path = path
        self._pending: deque[Event] = deque()
        self._lock = threading.Lock()
        self._file = _CLOSED
        self._over = False
        self._tail: deque[int] = deque(maxlen=TAIL)
        self._told = 0

    def open(self, header: Header) -> None:
        """Open the file and write its first line.

        Raises:
            ConfigError: It cannot be written, is in use, or is no journal.
        """
        try:
            self._file = open_file(self._path)
            self._append(encode_header(header))
        except OSError as error:
            self.close()
            raise ConfigError(
                f"the journal {self._path!r} cannot be written: {error.strerror}", param="journal"
            ) from error
        self._tail.clear()  # the first line is no event, and is never written over

    def put(self, event: Event) -> None:
        """Take an event, also before the file is open; never blocks, never fails."""
        if self._over:
            self.lost += 1
            return
        if len(self._pending) >= MAX_PENDING:
            # The latest stays, so that its number shows that others are missing before it.
            with suppress(IndexError):  # all has just been taken by the thread that writes
                self._pending.pop()
                self.lost += 1
        self._pending.append(event)

    def write(self) -> None:
        """Write what is pending, as far as the file takes it; from any thread."""
        with self._lock:
            self._write_all()

    def put_off(self, reason: object) -> None:
        """Note that nothing could be written, for a reason that is not the file's."""
        self._note_failure(reason)

    def finish(self) -> None:
        """Write what is left and close the file, as far as the disk allows that now."""
        if self._file == _CLOSED:  # it was never opened, so nobody misses anything in it
            self._drop()
            return
        if not self._lock.acquire(timeout=PATIENCE_S):
            # A write hangs. Its thread keeps the file; what is pending is lost with the process.
            self._note_failure("a write hangs")
            self._drop()
            return
        try:
            self._write_all()
            if self._pending:
                self._mark_gap()
            self._drop()
            if self.lost > self._told:
                log.error("the journal %s lacks %d events", self._path, self.lost)
            self.close()
        finally:
            self._lock.release()

    def flush(self, *, last: bool) -> None:
        """Write what is left, now, in this thread; gives up if a write hangs.

        Args:
            last: Nothing will be written after this, so what the disk does not take is to show.
        """
        if self._file == _CLOSED:
            return
        if self._lock.acquire(timeout=PATIENCE_S):
            try:
                self._write_all()
                if last and self._pending:
                    self._mark_gap()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED

    def _write_all(self) -> None:
        """Write batches until nothing is pending or the file takes no more."""
        while self._pending:
            if not self._write_batch():
                return
        self._note_success()

    def _write_batch(self) -> bool:
        """Write one batch, and forget of it what the file took."""
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), BATCH))]
        try:
            self._append(encode_events(batch).encode())
        except _PartlyWrittenError as error:
            self._pending.extendleft(reversed(batch[error.lines :]))
            self._note_failure(error.strerror)
            return False
        return True

    def _append(self, lines: bytes) -> None:
        """Write lines, each of them whole or not at all.

        Raises:
            _PartlyWrittenError: The file took only some of them.
        """
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            written = len(lines) - len(left)
            whole = lines[: lines.rfind(b"\n", 0, written) + 1]
            self._cut(written - len(whole))
            self._note_lengths(whole)
            raise _PartlyWrittenError(error, whole.count(b"\n")) from error
        self._note_lengths(lines)

    def _note_lengths(self, lines: bytes) -> None:
        """Remember how long the last lines are."""
        last = lines.rsplit(b"\n", TAIL + 1)[:-1]  # behind the last line feed stands nothing
        self._tail.extend([len(line) + 1 for line in last[-TAIL:]])

    def _cut(self, torn: int) -> None:
        """Take back what there is of a torn line, in bytes; of a pipe that cannot be done."""
        if torn:
            with suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - torn)

    def _mark_gap(self) -> None:
        """Write the latest event over the last lines, which needs no room on a full disk.

        Without it a journal that lacks its end looks like a whole one; with it, its numbers have a
        gap.
        """
        line = encode_events([self._pending[-1]]).encode()
        rooms = list(accumulate(reversed(self._tail)))
        count = next((n for n, room in enumerate(rooms, 1) if room >= len(line)), 0)
        if not count:
            return
        with suppress(OSError):
            begin = os.fstat(self._file).st_size - rooms[count - 1]
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_APPEND)
            os.pwrite(self._file, line, begin)
            os.ftruncate(self._file, begin + len(line))
            self._pending.pop()
            self.lost += count

    def _note_failure(self, reason: object) -> None:
        """Log the beginning of an outage."""
        if not self.failing:
            self.failing = True
            log.error("the journal %s cannot be written: %s", self._path, reason)

    def _note_success(self) -> None:
        """Log the end of an outage, and what was lost, also to a disk that was only too slow."""
        lost = self.lost - self._told
        if self.failing or lost:
            self.failing = False
            self._told += lost
            log.warning("the journal %s is written again; %d events were lost", self._path, lost)

    def _drop(self) -> None:
        """Count as lost what is still pending, and whatever comes from now on."""
        self._over = True
        self.lost += len(self._pending)
        self._pending.clear()


class _PartlyWrittenError(OSError):
    """The file took only some lines; ``lines`` counts them."""

    def __init__(self, error: OSError, lines: int) -> None:
        super().__init__(error.errno, error.strerror)
        self.lines = lines
