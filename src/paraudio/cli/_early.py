"""What is set right before anything else; imported first, and imports next to nothing."""

import os
import signal
import sys


def complete_standard_files() -> None:
    """Give a process that was started without some of its standard files ones that lead nowhere.

    Else the next file or socket that is opened gets such a number, and what is written there.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    # As the interpreter's own, these leave their descriptors open when they go.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


class EarlyEnd:
    """Lets a signal end a server cleanly before the server itself listens to signals.

    Until then nothing was begun that could be cut, so the process ends at once, with code 0. The
    server's own handling takes over while it serves; what comes after it finds an end under way.

    Attributes:
        over: Whether the server has begun to serve.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.over = False
        for number in self._SIGNALS:
            signal.signal(number, self._end)

    def ignore(self) -> None:
        """Let no signal change how the process ends: the interpreter is about to.

        It would put the system's own handling back in place of ours, and a late Ctrl-C would then
        end the process as one that was killed.
        """
        for number in self._SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _end(self, number: int, frame: object) -> None:  # noqa: ARG002 - the interpreter's shape
        if not self.over:
            os.write(2, f"{signal.Signals(number).name}: ended before it began to serve\n".encode())
            os._exit(0)
