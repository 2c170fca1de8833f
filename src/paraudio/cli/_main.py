"""The entry point: finds a command, runs it, and turns what it raises into an exit code.

Commands are imported when they are called, and import what is heavy when they run, so that
``paraudio --version`` and the help stay fast.
"""

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, cast

import click

from paraudio import __version__
from paraudio.cli._early import EarlyEnd
from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import FAILED, INTERRUPTED, OK, USAGE, exit_code, meant, say_error
from paraudio.cli._signals import Interrupted
from paraudio.errors import ParaudioError

_OUTPUT_FAULTS: Final = frozenset(
    {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
)
"""What the system says of an output that takes nothing."""

COMMANDS: Final = {
    "serve": "Serve models over HTTP until a signal ends it.",
    "run": "Speak, transcribe or find speech once, without a server.",
    "pull": "Fetch models into the model store, or take them from files.",
    "models": "List the models that can be fetched, and which are here.",
    "config": "Check a configuration and show what holds.",
    "verify": "Replay a journal against the rules and print each violation.",
    "conformance": "Judge a running server by every cell of the behaviour contract.",
}


class Commands(Formatted, click.Group):
    """The commands, each imported only when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Import the module of a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"paraudio.cli._{cmd_name}")
        return cast("click.Command", module.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, or say which one may be."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"there is no command {name!r}; {meant(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, epilog=EXIT_CODES, no_args_is_help=False, invoke_without_command=True)
@click.version_option(__version__, prog_name="paraudio", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """A local server for audio models: speech, transcription, voice activity.

    Start with `paraudio serve`; it needs no configuration.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str], early: EarlyEnd | None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        args: The words after the program's name.
        early: What a signal does until a server serves; None for the other commands.
    """
    try:
        code = run(args, early)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OUTPUT_FAULTS or error.filename is not None:
            raise
        # Nothing more goes there, also not at the interpreter's exit. Whoever read it and left
        # need not be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            say_error(f"the output cannot be written: {error.strerror}")
        code = FAILED
    if early is not None:
        early.ignore()
    sys.exit(code)


def run(args: Sequence[str] | None = None, early: EarlyEnd | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = cli.main(args, prog_name="paraudio", standalone_mode=False, obj=early)
    except click.UsageError as error:
        hint = "" if error.ctx is None else f"See '{error.ctx.command_path} --help'."
        say_error(error.format_message(), hint=hint)
        return USAGE
    except click.ClickException as error:
        say_error(error.format_message())
        return USAGE
    except ParaudioError as error:
        say_error(error.message)
        return exit_code(error)
    except (click.Abort, KeyboardInterrupt):
        say_error("interrupted")
        return INTERRUPTED
    except Interrupted as error:
        say_error("interrupted")
        return error.code
    return code if isinstance(code, int) else OK
