"""The journal: every transition as an event, kept in a ring and a file, replayed by a checker."""

from paraudio.journal._events import Event, Kind, Recorder, no_record
from paraudio.journal._format import Header, JournalError
from paraudio.journal._journal import Journal
from paraudio.journal._pulse import Pulse
from paraudio.journal._read import Reader, Trace, read
from paraudio.journal.checker import Checker, Violation, check

__all__ = [
    "Checker",
    "Event",
    "Header",
    "Journal",
    "JournalError",
    "Kind",
    "Pulse",
    "Reader",
    "Recorder",
    "Trace",
    "Violation",
    "check",
    "no_record",
    "read",
]
