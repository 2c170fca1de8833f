"""Shutdown in bounded time: drain, then cancel, then leave, whatever a backend or a client does.

Three nets, each for what slips through the one before. The phases are coroutines on the event loop
and end almost every run by themselves, scope by scope. When the cancel phase is over and a backend
still ignores its stop, the process is ended from the loop, after the report: no scope can be left
while a thread is inside of it, and the system frees what a process leaves behind. And for an event
loop that is itself stuck in foreign code, a watchdog thread does the same.
"""

import enum
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NoReturn

import trio

log = logging.getLogger(__name__)

SLACK_S: Final = 1.0
"""What shutdown may take beyond the drain and the cancel together."""

WATCHDOG_S: Final = 0.8
"""When the watchdog acts after both phases: inside the slack, with time left for the report."""

EXIT_OK: Final = 0
EXIT_CUT: Final = 3


class Phase(enum.IntEnum):
    """How far shutdown has gone; it never goes back."""

    RUNNING = 0
    DRAINING = 1
    STOPPING = 2
    LEAVING = 3


@dataclass
class Shutdown:
    """Where shutdown stands, pushed on by signals and by deadlines.

    Attributes:
        phase: The phase reached.
    """

    phase: Phase = Phase.RUNNING
    _reached: dict[Phase, trio.Event] = field(
        default_factory=lambda: {phase: trio.Event() for phase in Phase}
    )

    def advance(self, to: Phase) -> None:
        """Reach a phase, and each phase before it; reaching it again changes nothing."""
        self.phase = max(self.phase, to)
        for phase, event in self._reached.items():
            if phase <= self.phase:
                event.set()

    async def wait(self, phase: Phase) -> None:
        """Wait until a phase is reached."""
        await self._reached[phase].wait()


async def follow_signals(shutdown: Shutdown, signals: AsyncIterator[int]) -> None:
    """Let each signal push shutdown one phase on: drain, then cancel, then leave."""
    async for number in signals:
        phase = Phase(min(shutdown.phase + 1, Phase.LEAVING))
        log.info("%s: %s", signal.Signals(number).name, phase.name.lower())
        shutdown.advance(phase)


def leave(code: int) -> NoReturn:
    """End the process now: no exit handler runs, no thread is waited for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def watchdog(seconds: float, report: Callable[[], None]) -> Iterator[None]:
    """End the process from a thread unless the block is left within ``seconds``.

    ``report`` runs first, in the thread; what it raises is ignored, since leaving matters more.
    """
    left = threading.Event()

    def watch() -> None:
        if left.wait(seconds):
            return
        try:
            report()
        finally:
            leave(EXIT_CUT)

    thread = threading.Thread(target=watch, name="paraudio-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()
