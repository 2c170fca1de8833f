import io
import sys

import pytest

from paraudio.cli._output import (
    exit_code,
    meant,
    print_table,
    say_error,
    say_warning,
    show_progress,
)
from paraudio.errors import (
    BackendError,
    ConfigError,
    InvalidRequestError,
    ModelNotFoundError,
    ParaudioError,
    ServerBusyError,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_elsewhere_is_a_line_each_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("joe") as report:
        report(10, None)
        for done in (0, 100, 260, 270, 900, 1000):
            report(done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "joe: fetching",
        "joe: 25% of 1.0 kB",
        "joe: 75% of 1.0 kB",
        "joe: 100% of 1.0 kB",
        "joe: complete",
    ]


def test_a_fetch_that_fails_is_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError), show_progress("joe"):
        raise LookupError
    assert capsys.readouterr().err == "joe: fetching\n"


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with show_progress("joe") as report:
        report(500, None)
        report(2_000_000, 2_000_000)
    text = terminal.getvalue()
    assert "joe" in text
    assert "━" in text
    assert "2.0/2.0 MB" in text


def test_a_table_elsewhere_is_aligned_and_says_nothing_but_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("A", "B"), [("long one", "[red]x[/red]"), ("", "y")])
    assert capsys.readouterr().out == "A         B\nlong one  [red]x[/red]\n          y\n"


def test_a_table_on_a_terminal_takes_text_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    print_table(("A",), [("[red]x[/red]",)])
    assert "[red]x[/red]" in terminal.getvalue()


def test_each_line_of_an_error_is_one_and_the_hint_comes_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_error("one\ntwo", hint="look there")
    say_warning("three")
    assert capsys.readouterr().err.splitlines() == [
        "error: one",
        "error: two",
        "look there",
        "warning: three",
    ]


def test_the_nearest_name_is_meant_or_all_are_listed() -> None:
    assert meant("serv", ["serve", "run"]) == "did you mean 'serve'?"
    assert meant("x", ["serve", "run"]) == "there are: serve, run"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (InvalidRequestError("x"), 2),
        (ModelNotFoundError("x"), 2),
        (BackendError("x"), 1),
        (ServerBusyError("x"), 1),
    ],
)
def test_whose_fault_it_is_decides_the_exit_code(error: ParaudioError, code: int) -> None:
    assert exit_code(error) == code
