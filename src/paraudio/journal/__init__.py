"""The journal: every transition as an event, kept in a ring and a file, replayed by a checker."""

from paraudio.journal._events import Event, Kind, Recorder, no_record

__all__ = ["Event", "Kind", "Recorder", "no_record"]
