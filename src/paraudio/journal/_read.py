"""Reading a journal file back."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from paraudio.journal._events import Event
from paraudio.journal._format import Header, JournalError, decode_event, decode_header


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
    _lines: dict[int, int] = field(repr=False)

    def line_of(self, seq: int) -> int | None:
        """The number of the line that holds an event, from 1, or None."""
        return self._lines.get(seq)


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a journal file, strictly.

    A process that was killed leaves a last line without its end; that line is left out and
    reported in ``torn``. Everything else that is not as it should be is an error.

    Args:
        path: The file, JSON lines as the journal writes them.

    Raises:
        JournalError: A line is not what it has to be; the message begins with its number.
        OSError: The file cannot be read.
    """
    lines = Path(path).read_bytes().split(b"\n")
    rest = lines.pop()  # what stands behind the last line feed
    if not lines:
        raise JournalError(1, "not a journal: the file has no complete line")
    header = decode_header(lines[0])
    events = [decode_event(line, number) for number, line in enumerate(lines[1:], 2)]
    return Trace(
        header=header,
        events=tuple(events),
        torn=len(lines) + 1 if rest else None,
        _lines={event.seq: number for number, event in enumerate(events, 2)},
    )
