"""``paraudio conformance``: a running server against the behaviour contract."""

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import FAILED, OK, print_json, print_table, say, say_warning
from paraudio.cli._signals import until_signal

if TYPE_CHECKING:
    from paraudio.conformance import Report

_MISSING: Final = (
    "this command needs httpx, which is not installed here: pip install httpx, or in a clone "
    "python3 -m uv run --extra conformance paraudio conformance"
)


@click.command(cls=Formatted, epilog=EXIT_CODES)
@click.option("--url", required=True, metavar="URL", help="The server, as http://HOST:PORT.")
@click.option(
    "--api-key", envvar="PARAUDIO_API_KEY", metavar="KEY", help="Its key (or PARAUDIO_API_KEY)."
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Only cells whose IDs match, such as 'order/*'; may be given again.",
)
@click.option(
    "--unit-ms",
    type=click.IntRange(50, 10_000),
    default=400,
    metavar="MS",
    help="The unit of time; a load takes about four [default: 400].",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=16,
    metavar="COUNT",
    help="Scenarios that are played at once [default: 16].",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Also write JUnit's XML to a file.",
)
def command(
    url: str,
    *,
    api_key: str | None,
    only: tuple[str, ...],
    unit_ms: int,
    jobs: int,
    as_json: bool,
    junit: Path | None,
) -> int:
    """Judge a running server by every cell of the behaviour contract.

    It registers models of the simulated family (the server must allow management), brings them
    into every situation that can be seen from outside, and prints each cell with pass, fail or not
    applicable. Its models are unloaded at the end and stay registered; others are left alone.
    """
    if not _is_url(url):
        raise click.BadParameter("must be http://HOST:PORT or https://HOST:PORT", param_hint="url")
    report = _judge(url, api_key, only, unit_ms / 1000, jobs)
    if not report.results:
        raise click.UsageError(f"no cell matches {', '.join(only)}")
    if junit is not None:
        _write(junit, report)
    if as_json:
        from paraudio.conformance import to_json  # noqa: PLC0415

        print_json(to_json(report))
    else:
        _print(report)
    return OK if report.good else FAILED


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an end, or a port that is none
        return False


def _judge(
    url: str, api_key: str | None, only: tuple[str, ...], unit_s: float, jobs: int
) -> "Report":
    import trio  # noqa: PLC0415 - help must stay fast

    try:
        from paraudio.conformance import conform  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise click.UsageError(_MISSING) from None

    async def judge(scope: trio.CancelScope) -> "Report | None":
        with scope:
            return await conform(url, api_key=api_key, only=only, unit_s=unit_s, jobs=jobs)
        return None

    return trio.run(until_signal, judge)


def _write(file: Path, report: "Report") -> None:
    from paraudio.conformance import to_junit  # noqa: PLC0415

    try:
        file.write_text(to_junit(report), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None


def _print(report: "Report") -> None:
    from paraudio.conformance import Verdict  # noqa: PLC0415

    rows = [
        (result.cell, str(result.verdict), " ".join(result.reason.split()))
        for result in report.results
    ]
    print_table(("CELL", "VERDICT", "REASON"), rows)
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    if report.gone:
        say_warning(
            f"the server did not answer any more at the end, so what failed need not be the fault "
            f"of its cell: {report.gone}"
        )
    elif not report.judged:
        say_warning("no cell could be judged, so nothing is known of the server")
    say(f"{report.url} ({report.policy} policy): {counts}, in {report.seconds:.0f} s")
