"""The command line: `paraudio serve`, `run`, `pull`, `models`, `config check`, `verify`."""

# Nothing is imported here but what the interpreter has already: until `main` runs, a signal is
# handled by Python's own rules, and a Ctrl-C is a traceback.
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(args: "Sequence[str] | None" = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        args: The words after the program's name; None takes those of this process.
    """
    words = sys.argv[1:] if args is None else args
    try:
        # Here, not above: a Ctrl-C that comes during these imports is no traceback either.
        from paraudio.cli._early import EarlyEnd, complete_standard_files  # noqa: PLC0415

        complete_standard_files()
        early = EarlyEnd() if words[:1] == ["serve"] else None
        from paraudio.cli._main import main as begin  # noqa: PLC0415 - a second, while all is cold
    except KeyboardInterrupt:
        if words[:1] == ["serve"]:
            sys.stderr.write("SIGINT: ended before it began to serve\n")
            sys.exit(0)
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    begin(words, early)
