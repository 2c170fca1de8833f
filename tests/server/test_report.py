import logging
import threading

import pytest

from paraudio.journal import Journal, Kind
from paraudio.server._report import Report


class HangingDisk(Journal):
    """A journal whose last write waits for a disk that does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.written = threading.Event()
        self.was_last = False

    def flush(self, *, last: bool = False) -> None:
        self.answers.wait(60)
        self.was_last = last
        self.written.set()


def cuts(journal: Journal) -> list[object]:
    return [event.facts["what"] for event in journal.since(0) if event.kind is Kind.CUT]


def test_each_thing_that_was_cut_is_said_and_recorded_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    journal, lines = Journal(), ["one"]
    report = Report()
    report.follow(journal, [lambda: list(lines)], [])
    report.make()
    lines.append("two")
    report.make()
    report.conclude()
    assert report.lines == cuts(journal) == ["one", "two"]
    assert [each.getMessage() for each in caplog.records] == [
        "cut: one",
        "cut: two",
        "2 things were cut, so the exit code is 3",
    ]


def test_where_nothing_was_cut_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report = Report()
    report.follow(Journal(), [list], [])
    report.make()
    report.conclude()
    assert caplog.records == []


def test_last_words_do_not_wait_for_a_disk_that_hangs() -> None:
    journal = HangingDisk()
    report = Report()
    report.follow(journal, [lambda: ["a request"]], [])
    report.last_words()
    assert cuts(journal) == ["the event loop, which stood still past every bound", "a request"]
    assert not journal.written.is_set()
    journal.answers.set()
    assert journal.written.wait(30)
    assert journal.was_last
