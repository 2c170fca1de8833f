"""The command line: `paraudio serve`, `run`, `pull`, `models`, `config check`, `verify`."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        args: The words after the program's name; None takes those of this process.
    """
    try:
        # Here, not above: a Ctrl-C that comes during these imports is no traceback either.
        from paraudio.cli._main import main as begin  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    begin(args)
