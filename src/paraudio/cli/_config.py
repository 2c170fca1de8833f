"""``paraudio config check``: what holds, where it was said, and what is wrong."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import print_json, print_table, say, say_warning
from paraudio.spec import Json

if TYPE_CHECKING:
    from paraudio.config import ConfigEntry


class _Group(Formatted, click.Group):
    pass


@click.command(cls=_Group, epilog=EXIT_CODES, no_args_is_help=False, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Check a configuration and show what holds."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(
    "check",
    cls=Formatted,
    epilog=EXIT_CODES,
    short_help="Check a file and the environment, and show what holds.",
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--changed", is_flag=True, help="Leave out what has its default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def check(file: Path | None, *, changed: bool, as_json: bool) -> int:
    """Check FILE (else PARAUDIO_CONFIG, else the embedded default) and the environment.

    Prints every setting with its value and where it was said, or everything that is wrong with the
    line or the variable that says it. Ends with 0, also where something is worth a warning (a path
    that is not there yet), or with 2.
    """
    from paraudio.cli._checked import load_checked  # noqa: PLC0415 - help must stay fast
    from paraudio.config import SettingsError, describe  # noqa: PLC0415

    if file is None and os.environ.get("PARAUDIO_CONFIG"):
        file = Path(os.environ["PARAUDIO_CONFIG"])
    try:
        loaded = load_checked(config=file, environ=os.environ, flags={})
    except SettingsError as error:
        if not as_json:
            raise
        told: list[Json] = [
            {"key": problem.key, "message": problem.message, "source": problem.source}
            for problem in error.problems
        ]
        print_json({"ok": False, "problems": told})
        return 2
    entries = [one for one in describe(loaded) if not changed or one.source != "default"]
    if as_json:
        values: list[Json] = [
            {"key": one.key, "value": one.value, "source": one.source} for one in entries
        ]
        print_json({"ok": True, "settings": values, "warnings": list(loaded.warnings)})
        return 0
    if entries:
        print_table(("SETTING", "VALUE", "SOURCE"), [_row(one) for one in entries])
    for warning in loaded.warnings:
        say_warning(warning)
    count = len(loaded.warnings)
    odd = "" if not count else f", with {count} warning{'s' if count > 1 else ''}"
    say(f"{'the default configuration' if file is None else file} is right{odd}")
    return 0


def _row(entry: "ConfigEntry") -> tuple[str, str, str]:
    value = entry.value
    if entry.key.startswith("models[") and isinstance(value, dict):
        slots = f", {value['slots']} slots" if value["slots"] != 1 else ""
        text = f"{value['id']} ({value['family']}, {value['task']}{slots}) {value['path']}".rstrip()
    else:
        text = value if isinstance(value, str) and value else json.dumps(value)
    return entry.key, text, entry.source


command.add_command(check)
