"""``paraudio verify``: a journal against the rules of the behaviour contract."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import FAILED, OK, print_json, say, say_warning
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

if TYPE_CHECKING:
    from paraudio.journal import Trace, Violation


@click.command(cls=Formatted, epilog=EXIT_CODES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def command(file: Path, *, as_json: bool) -> int:
    """Replay a journal against the rules and print each violation.

    FILE is what `paraudio serve --journal FILE` wrote. Each violation comes with the lines of the
    file that show it; the last of them breaks the rule. Ends with 0 when no rule is broken, with 1
    when one is, and with 2 when FILE is no journal.
    """
    from paraudio.journal import check  # noqa: PLC0415 - help must stay fast

    trace = _read(file)
    violations = check(trace.events)
    if as_json:
        print_json(_report(file, trace, violations))
    else:
        _print(file, trace, violations)
    return FAILED if violations else OK


def _read(file: Path) -> "Trace":
    from paraudio.journal import JournalError, read  # noqa: PLC0415

    try:
        return read(file)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise InvalidRequestError(message, param="file") from None
    except JournalError as error:
        message = str(error).removeprefix(f"line {error.line}: ")
        raise InvalidRequestError(f"{file}:{error.line}: {message}", param="file") from None


def _print(file: Path, trace: "Trace", violations: "list[Violation]") -> None:
    text = file.read_bytes().split(b"\n")
    for violation in violations:
        numbers = _lines(trace, violation)
        at = numbers[-1] if numbers else 1
        click.echo(f"{file}:{at}: {violation.rule}: {violation.message}")
        for number in numbers:
            click.echo(f"  {number}: {text[number - 1].decode(errors='replace')}")
    if trace.torn is not None:
        say_warning(f"line {trace.torn} was torn off and is left out")
    count = len(violations)
    found = "no violation" if not count else f"{count} violation{'s' if count > 1 else ''}"
    say(f"{file}: {found} in {len(trace.events)} events")


def _report(file: Path, trace: "Trace", violations: "list[Violation]") -> Json:
    return {
        "ok": not violations,
        "file": str(file),
        "started": trace.header.started,
        "events": len(trace.events),
        "torn": trace.torn,
        "violations": [
            {
                "rule": violation.rule,
                "message": violation.message,
                "events": list(violation.seqs),
                "lines": list(_lines(trace, violation)),
            }
            for violation in violations
        ],
    }


def _lines(trace: "Trace", violation: "Violation") -> list[int]:
    found = (trace.line_of(seq) for seq in violation.seqs)
    return [number for number in found if number is not None]
