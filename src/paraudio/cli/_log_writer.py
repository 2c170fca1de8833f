"""A log handler that never waits for whoever reads the log.

A pipe whose reader has stopped takes 64 KiB and then holds every writer. A server that logs from
its event loop would stand still with it, and so would its shutdown. So lines are only put down
here, and a thread of their own writes them. What does not fit is dropped, counted, and told when
the reader goes on.
"""

import logging
import os
import select
import threading
import time
from collections import deque
from typing import Final

MOST_BYTES: Final = 2**20
"""How much may wait to be written."""

STOPPED_S: Final = 0.1
"""A reader that takes nothing for so long at the end has stopped."""

_END_S: Final = 0.5
"""What the end waits at most for a slow reader: half of the slack that a shutdown has."""


class LogWriter(logging.Handler):
    """Writes formatted records to a descriptor, in a thread; nobody who logs ever waits.

    Args:
        descriptor: Where lines go; it stays open.
        most_bytes: How much may wait to be written, beside what is being written.
    """

    # Invariant: ``_waiting`` is the size of ``_lines``; only the thread takes from either.

    def __init__(self, descriptor: int, *, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._news = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._dropped = 0
        self._writing = False
        self._closing = False
        # A daemon: the interpreter must not wait for a write that nobody reads.
        self._thread = threading.Thread(target=self._run, name="paraudio-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line down, or drop it if too much waits already; never blocks."""
        try:
            text = self.format(record)
        except Exception as error:
            # Not `handleError`, which writes to stderr at once, however long that takes.
            text = f"a line of {record.name} could not be formatted: {record.msg!r}: {error!r}"
        line = f"{text}\n".encode(errors="backslashreplace")
        with self._news:
            if self._waiting and self._waiting + len(line) > self._most_bytes:
                self._dropped += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            self._news.notify_all()

    def flush(self) -> None:
        """Wait until all is written, but not for a reader that has stopped."""
        taken_at = time.monotonic()
        end = taken_at + _END_S
        with self._news:
            while (self._lines or self._writing) and self._thread.is_alive():
                self._news.wait(STOPPED_S / 4)
                now = time.monotonic()
                if self._takes_more():
                    taken_at = now
                if now >= end or now - taken_at >= STOPPED_S:
                    return

    def close(self) -> None:
        """Write what can be written, and let the thread end."""
        self.flush()
        with self._news:
            self._closing = True
            self._news.notify_all()
        super().close()

    def _run(self) -> None:
        while (batch := self._taken()) is not None:
            self._write(batch)
            with self._news:
                self._writing = False
                self._news.notify_all()

    def _taken(self) -> bytes | None:
        """Wait for lines, and take all of them; None when there will be none."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._closing)
            if not self._lines:
                return None
            if self._dropped:
                told = f"{self._dropped} lines of the log were dropped: nobody read it\n"
                self._lines.append(told.encode())
                self._dropped = 0
            batch = b"".join(self._lines)
            self._lines.clear()
            self._waiting = 0
            self._writing = True
            return batch

    def _write(self, batch: bytes) -> None:
        """Write a batch; where that is impossible, as without a reader, it is lost."""
        rest = memoryview(batch)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # somebody who shares the descriptor has made it so
                _wait_writable(self._descriptor, None)
            except OSError:
                return

    def _takes_more(self) -> bool:
        """Whether the thread is not held up by the reader, but only slow."""
        return _wait_writable(self._descriptor, 0)


def _wait_writable(descriptor: int, timeout_ms: int | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(timeout_ms))
