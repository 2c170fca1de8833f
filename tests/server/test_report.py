import logging
import threading
from contextlib import ExitStack, nullcontext
from typing import NoReturn

import pytest
import trio.testing

from paraudio.config import Settings
from paraudio.journal import Journal, Kind
from paraudio.server._progress import logged_progress
from paraudio.server._report import Report
from paraudio.server._serve import _Serving
from paraudio.server._stopping import EXIT_CUT, EXIT_OK, Phase


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


REST = "the rest of the shutdown, which did not end"


class Left(Exception):  # noqa: N818 - stands for the end of the process, which is no fault
    """The process would have ended, with a code."""


@pytest.mark.parametrize(
    ("drained", "by_signal", "cut", "code", "lines"),
    [
        (True, True, [], EXIT_OK, []),
        (True, True, ["a request"], EXIT_CUT, ["a request"]),
        (False, True, [], EXIT_CUT, [REST]),
        (True, False, [], EXIT_CUT, [REST]),
        (False, False, ["a request"], EXIT_CUT, ["a request"]),
    ],
)
async def test_an_end_before_all_has_ended_is_3_where_a_line_says_what_was_cut_and_only_there(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
    *,
    drained: bool,
    by_signal: bool,
    cut: list[str],
    code: int,
    lines: list[str],
) -> None:
    def left(code: int) -> NoReturn:
        raise Left(code)

    monkeypatch.setattr("paraudio.server._serve.leave", left)
    monkeypatch.setattr("paraudio.server._serve.watchdog", lambda *_: nullcontext())
    report = Report()
    report.follow(Journal(), [lambda: cut], [])
    serving = _Serving(Settings(), logged_progress, (), report)
    serving._begun, serving._drained = True, drained
    serving._shutdown.advance(Phase.STOPPING, "all is drained, or a second signal")
    if by_signal:
        serving._shutdown.advance(Phase.LEAVING, "another signal")
    with ExitStack() as to_the_end, pytest.raises(Left) as ended:
        await serving._leave_in_time(to_the_end)
    assert ended.value.args == (code,)
    assert report.lines == lines
