"""Shutdown in bounded time: drain, then cancel, then leave, whatever a backend or a client does.

Four nets, each for what slips through the one before. The phases are coroutines on the event loop
and end almost every run by themselves, scope by scope. When the cancel phase is over and a backend
still ignores its stop, the process is ended from the loop, after the report: no scope can be left
while a thread is inside of it, and the system frees what a process leaves behind. For an event loop
that is itself stuck in foreign code, a watchdog thread does the same. And where that code keeps the
interpreter's lock, so that no Python runs at all, a thread of the interpreter's own fault handler
writes where it is stuck, and ends the process with code 1.
"""

import enum
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import psutil
import trio

log = logging.getLogger(__name__)

SLACK_S: Final = 1.0
"""What shutdown may take beyond the drain and the cancel together."""

WATCHDOG_S: Final = 0.8
"""When the watchdog acts after both phases: inside the slack, with time left for the report."""

FAULT_S: Final = 0.95
"""When the fault handler acts after both phases, if the watchdog could not."""

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

    def advance(self, to: Phase, why: str) -> None:
        """Reach a phase, and each phase before it; reaching it again changes nothing.

        Args:
            to: The phase.
            why: What pushes, for the log.
        """
        if to > self.phase:
            log.info("%s: %s", to.name.lower(), why)
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
        shutdown.advance(phase, signal.Signals(number).name)


def leave(code: int) -> NoReturn:
    """End the process now: no exit handler runs, no thread is waited for, no child is left.

    Output that goes nowhere, since its reader has left or there never was one, does not matter.
    """
    try:
        kill_children()
        logging.shutdown()
        for output in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                output.flush()
    finally:
        os._exit(code)


def kill_children() -> None:
    """Kill every worker process that is left, with its process group.

    Workers end by themselves when their server is gone, but not while a debugger has stopped them.
    """
    with suppress(psutil.Error, OSError):
        for child in psutil.Process().children():
            with suppress(psutil.Error, OSError):
                if os.getpgid(child.pid) == child.pid:
                    os.killpg(child.pid, signal.SIGKILL)
                else:
                    child.kill()


@contextmanager
def watchdog(seconds: float, report: Callable[[], None]) -> Iterator[None]:
    """End the process from a thread unless the block is left within ``seconds`` and the slack.

    ``report`` runs first, in the thread; what it raises is ignored, since leaving matters more.
    """
    left = threading.Event()

    def watch() -> None:
        if left.wait(seconds + WATCHDOG_S):
            return
        try:
            report()
        finally:
            leave(EXIT_CUT)

    thread = threading.Thread(target=watch, name="paraudio-watchdog", daemon=True)
    with _standard_error() as descriptor:
        try:
            thread.start()
            faulthandler.dump_traceback_later(seconds + FAULT_S, exit=True, file=descriptor)
        except RuntimeError as error:  # the loop itself ends the process, unless it is stuck, too
            log.warning("nobody watches over the end: %s", error)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            left.set()
            if thread.ident is not None:
                thread.join()


@contextmanager
def _standard_error() -> Iterator[int]:
    """The descriptor of what errors are written to; a process without any writes to nowhere."""
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        with Path(os.devnull).open("wb") as nowhere:
            yield nowhere.fileno()
    else:
        yield descriptor
