"""What is printed: data on stdout, the rest on stderr; rich on a terminal, plain elsewhere."""

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from paraudio.errors import ParaudioError
from paraudio.spec import Json

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


def exit_code(error: ParaudioError) -> int:
    """Whose fault it is: 2 for what the user can mend in the command, 1 for everything else."""
    return USAGE if error.status < 500 else FAILED


def say(text: str = "") -> None:
    """Tell the user something that is no data."""
    click.echo(text, err=True)


def say_error(message: str, *, hint: str = "") -> None:
    """Say what went wrong, and what to do about it."""
    for line in message.splitlines() or ["failed"]:
        say(f"{click.style('error:', fg='red', bold=True)} {line}")
    if hint:
        say(hint)


def say_warning(message: str) -> None:
    """Say what is worth a look and no error."""
    say(f"{click.style('warning:', fg='yellow', bold=True)} {message}")


def print_json(value: Json) -> None:
    """Print data for a script: one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def meant(name: str, known: Iterable[str]) -> str:
    """A did-you-mean for a name, or the names that there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else "there are: " + ", ".join(names)


def size(count: int) -> str:
    """A number of bytes in the decimal units of disks and downloads."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows: a drawn table on a terminal, aligned columns elsewhere."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - needed on terminals only
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(*columns, box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


@contextmanager
def show_progress(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a fetch on stderr: a bar on a terminal, a line each quarter elsewhere.

    Yields:
        What to call with the bytes that came, and with how many there will be, or None.
    """
    with (_bar if sys.stderr.isatty() else _lines)(name) as report:
        yield report


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    from rich import progress  # noqa: PLC0415 - needed on terminals only
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield report


@contextmanager
def _lines(name: str) -> Iterator[Callable[[int, int | None], None]]:
    shown = 0

    def report(done: int, total: int | None) -> None:
        nonlocal shown
        quarter = 4 * done // total if total else 0
        if total and quarter > shown:
            shown = quarter
            say(f"{name}: {25 * quarter}% of {size(total)}")

    say(f"{name}: fetching")
    yield report
    say(f"{name}: complete")
