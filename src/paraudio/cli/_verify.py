"""``paraudio verify``: a journal against the rules of the behaviour contract."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import FAILED, OK, print_json, say, say_warning
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

if TYPE_CHECKING:
    from paraudio.journal import JournalError, Reader, Violation


@click.command(cls=Formatted, epilog=EXIT_CODES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def command(file: Path, *, as_json: bool) -> int:
    """Replay a journal against the rules and print each violation.

    FILE is what `paraudio serve --journal FILE` wrote. Each violation comes with the lines of the
    file that show it; the last of them breaks the rule. A journal in which the server does not say
    that it stopped is warned of: what happened last may be missing. Ends with 0 when no rule is
    broken, with 1 when one is, and with 2 when FILE is no journal.
    """
    try:
        found = _check(file)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise InvalidRequestError(message, param="file") from None
    if as_json:
        print_json(_report(found))
    else:
        _print(found)
    return FAILED if found.violations else OK


@dataclass(frozen=True)
class _Found:
    """A journal that was read to its end.

    Attributes:
        file: The file.
        reader: What was read.
        stopped: Whether the server says that it stopped, as only one does that ends by itself; what
            it cut may stand behind that.
        violations: What breaks a rule, each with its lines.
    """

    file: Path
    reader: "Reader"
    stopped: bool
    violations: "list[tuple[Violation, list[int]]]"


def _check(file: Path) -> _Found:
    """Replay a journal event by event: it may be larger than the memory.

    Raises:
        InvalidRequestError: It is no journal.
        OSError: It cannot be read.
    """
    from paraudio.journal import Checker, JournalError, Kind, Reader  # noqa: PLC0415 - help must stay fast

    checker, phase = Checker(), None
    try:
        with Reader(file) as reader:
            for event in reader:
                checker.see(event, sound=True)
                if event.kind is Kind.PHASE:
                    phase = event.facts["phase"]
            checker.end()
    except JournalError as error:
        raise InvalidRequestError(_flaw(file, error), param="file") from None
    violations = [(each, _lines(reader, each)) for each in checker.violations]
    return _Found(file, reader, phase == "stopped", violations)


def _flaw(file: Path, error: "JournalError") -> str:
    """What is wrong with a file: of one that is anything else, not which of its bytes."""
    message = str(error).removeprefix(f"line {error.line}: ")
    if error.line > 1 or not message.startswith("not "):
        return f"{file}:{error.line}: {message}"
    about = message.removeprefix("not a journal: ")
    if about == message:
        about = "the first line is no JSON object"
    return f"{file} is no journal, as `paraudio serve --journal FILE` writes one: {about}"


def _lines(reader: "Reader", violation: "Violation") -> list[int]:
    found = (reader.line_of(seq) for seq in violation.seqs)
    return [number for number in found if number is not None]


def _print(found: _Found) -> None:
    file = found.file
    texts = _texts(file, {number for _, lines in found.violations for number in lines})
    for violation, lines in found.violations:
        at = lines[-1] if lines else 1
        click.echo(f"{file}:{at}: {violation.rule}: {violation.message}")
        for number in [each for each in lines if each in texts]:
            click.echo(f"  {number}: {texts[number]}")
    if found.reader.torn is not None:
        say_warning(f"line {found.reader.torn} was torn off and is left out")
    if not found.stopped:
        say_warning(
            "the server did not end by itself, or still runs: it does not say that it stopped, so "
            "what happened last may be missing"
        )
    count = len(found.violations)
    what = "no violation" if not count else f"{count} violation{'s' if count > 1 else ''}"
    say(f"{file}: {what} in {found.reader.count} events")


def _texts(file: Path, numbers: Collection[int]) -> dict[int, str]:
    """Some lines of a file, by number; none of a pipe, which is read once."""
    if not numbers or not file.is_file():
        return {}
    with file.open("rb") as lines:
        chosen = islice(enumerate(lines, 1), max(numbers))
        return {
            number: line.rstrip(b"\n").decode(errors="replace")
            for number, line in chosen
            if number in numbers
        }


def _report(found: _Found) -> Json:
    return {
        "ok": not found.violations,
        "file": str(found.file),
        "started": found.reader.header.started,
        "events": found.reader.count,
        "torn": found.reader.torn,
        "stopped": found.stopped,
        "violations": [
            {
                "rule": violation.rule,
                "message": violation.message,
                "events": list(violation.seqs),
                "lines": list(lines),
            }
            for violation, lines in found.violations
        ],
    }
