"""Reading a journal file back: whole, or an event at a time."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from paraudio.journal._events import Event
from paraudio.journal._format import Header, JournalError, decode_event, decode_header

MAX_LINE: Final = 2**24
"""Bytes of a line; what is longer is no journal, and need not fit into memory."""


class Lines:
    """Which line holds which event: as runs, of which a whole journal has one."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        self._last = (0, 0)

    def add(self, seq: int, line: int) -> None:
        """Note the line of the next event."""
        before = self._last
        if not self._runs or (seq - before[0], line - before[1]) != (1, 1):
            self._runs.append((seq, line))
        self._last = (seq, line)

    def of(self, seq: int) -> int | None:
        """The number of the line that holds an event, the last one if several do, or None."""
        end = self._last[1]
        for first, line in reversed(self._runs):
            if 0 <= seq - first <= end - line:
                return line + seq - first
            end = line - 1
        return None


@dataclass(frozen=True)
class Trace:
    """The content of a journal file.

    Attributes:
        header: Its first line.
        events: Its events, in the order of the file.
        torn: The number of a last line that was torn off and left out, or None.
    """

    header: Header
    events: tuple[Event, ...]
    torn: int | None
    _lines: Lines = field(repr=False)

    def line_of(self, seq: int) -> int | None:
        """The number of the line that holds an event, from 1, or None."""
        return self._lines.of(seq)


class Reader:
    """A journal file that is read an event at a time, in memory that does not grow with it.

    Use it as a context manager, which opens the file and reads its first line, and iterate over it
    once. It is as strict as `read`.

    Args:
        path: The file, JSON lines as the journal writes them.

    Attributes:
        header: The first line, inside the block.
        count: Events so far.
        torn: The number of a last line that was torn off and left out, or None; known at the end.
    """

    header: Header

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.count = 0
        self.torn: int | None = None
        self.lines = Lines()
        self._path = Path(path)

    def __enter__(self) -> Self:
        """Open the file.

        Raises:
            JournalError: It is no journal.
            OSError: It cannot be read.
        """
        self._file = self._path.open("rb")
        try:
            self.header = _header(self._file.readline(MAX_LINE))
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Event]:
        """The events.

        Raises:
            JournalError: A line is not what it has to be; the message begins with its number.
            OSError: The file cannot be read.
        """
        number = 1
        while line := self._file.readline(MAX_LINE):
            number += 1
            if _torn(line):
                self.torn = number
                return
            event = decode_event(line, number)
            self.count += 1
            self.lines.add(event.seq, number)
            yield event

    def line_of(self, seq: int) -> int | None:
        """The number of the line that holds an event that was read, from 1, or None."""
        return self.lines.of(seq)


def _header(line: bytes) -> Header:
    if _torn(line):
        raise JournalError(1, "not a journal: the file has no complete line")
    return decode_header(line)


def _torn(line: bytes) -> bool:
    return not line.endswith(b"\n") and len(line) < MAX_LINE


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a whole journal file, strictly.

    A process that was killed leaves a last line without its end; that line is left out and
    reported in ``torn``. Everything else that is not as it should be is an error.

    Args:
        path: The file, JSON lines as the journal writes them.

    Raises:
        JournalError: A line is not what it has to be; the message begins with its number.
        OSError: The file cannot be read.
    """
    with Reader(path) as reader:
        events = tuple(reader)
        return Trace(reader.header, events, reader.torn, reader.lines)
