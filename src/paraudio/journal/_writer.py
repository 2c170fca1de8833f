"""Writing the journal's file: in batches, in a worker thread, and never in the recorder's way."""

import logging
import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from paraudio.errors import ConfigError
from paraudio.journal._events import Event
from paraudio.journal._format import Header, encode_event, encode_header

log = logging.getLogger(__name__)

BATCH: Final = 10_000
"""Events that are encoded at a time."""
MAX_PENDING: Final = 200_000
"""Events that wait for a disk that does not take them; what comes then is lost."""
PATIENCE_S: Final = 0.5
"""How long the last write waits for one that is under way."""
_CLOSED: Final = -1
"""No file; writing to it is the error that a closed file is."""


class Writer:
    """Takes events on the event loop and writes them wherever it is told to.

    A write that fails is undone, so that the file stays a sequence of whole lines, and tried again
    with the next one. The first failure is logged; events that had to be dropped are counted.

    Args:
        path: The file. One that exists is moved to ``path + ".1"``, so that a restart keeps the
            journal of the process before it.

    Attributes:
        lost: Events that are not in the file and never will be.
    """

    # ``_pending`` is shared: the loop appends on the right, whoever has the lock works on the left.
    # Each of these steps is atomic.

    def __init__(self, path: str) -> None:
        self.lost = 0
        self._path = path
        self._pending: deque[Event] = deque()
        self._lock = threading.Lock()
        self._file = _CLOSED
        self._over = False
        self._end = 0
        self._failed = False

    def open(self, header: Header) -> None:
        """Open the file and write its first line.

        Raises:
            ConfigError: It cannot be written.
        """
        try:
            if Path(self._path).is_file():
                Path(self._path).replace(f"{self._path}.1")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o640)
            self._append(encode_header(header))
        except OSError as error:
            self.close()
            raise ConfigError(
                f"the journal {self._path!r} cannot be written: {error.strerror}", param="journal"
            ) from error

    def put(self, event: Event) -> None:
        """Take an event, also before the file is open; never blocks, never fails."""
        if self._over or len(self._pending) >= MAX_PENDING:
            self.lost += 1
        else:
            self._pending.append(event)

    def write(self) -> None:
        """Write what is pending, as far as the file takes it; from any thread."""
        with self._lock:
            self._write_all()

    def finish(self) -> None:
        """Write what is left and close the file, as far as the disk allows that now."""
        if not self._lock.acquire(timeout=PATIENCE_S):
            # A write hangs. Its thread keeps the file; what is pending is lost with the process.
            self._note_failure("a write hangs")
            self._drop()
            return
        try:
            self._write_all()
            self._drop()
            self.close()
        finally:
            self._lock.release()

    def flush(self) -> None:
        """Write what is left, now, in this thread; gives up if a write hangs."""
        if self._file == _CLOSED:
            return
        if self._lock.acquire(timeout=PATIENCE_S):
            try:
                self._write_all()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file != _CLOSED:
            os.close(self._file)
            self._file = _CLOSED

    def _write_all(self) -> None:
        """Write batches until nothing is pending or the file takes no more."""
        while self._pending and self._write_batch():
            pass

    def _write_batch(self) -> bool:
        """Write one batch and, only if that worked, forget it."""
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), BATCH))]
        try:
            self._append(b"".join([encode_event(event) for event in batch]))
        except OSError as error:
            self._pending.extendleft(reversed(batch))
            self._note_failure(error.strerror)
            return False
        return True

    def _append(self, data: bytes) -> None:
        """Write all of the data, or nothing of it."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            self._undo(len(data) - len(left))
            raise
        self._end += len(data)

    def _undo(self, written: int) -> None:
        """Cut off what a failed write has left behind; of a pipe that cannot be done."""
        if written:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)

    def _note_failure(self, reason: object) -> None:
        """Log the first failure."""
        if not self._failed:
            self._failed = True
            log.error("the journal %s cannot be written: %s", self._path, reason)

    def _drop(self) -> None:
        """Count as lost what is still pending, and whatever comes from now on."""
        self._over = True
        self.lost += len(self._pending)
        self._pending.clear()
