"""What a signal does before a server serves; imported first, and imports next to nothing."""

import os
import signal


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
