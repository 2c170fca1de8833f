"""What the tests of shutdown measured, for a file that a note or a page can quote.

With ``--shutdown-results FILE`` the run writes, as JSON, how each server that a test signalled came
to its end, and how soon what a client left behind was free. ``tools/shutdown.py`` prints it.
"""

import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from paraudio.journal import Kind, Trace


@dataclass(frozen=True)
class End:
    """How one server ended.

    Attributes:
        row: The test, or the column of the fault matrix.
        signals: What it was sent, in order.
        bound_s: What it promises from the first signal to its exit, after those signals.
        seconds: What it took.
        code: Its exit code.
        cuts: How many things its report says that it cut.
    """

    row: str
    signals: list[str]
    bound_s: float
    seconds: float
    code: int
    cuts: int


@dataclass(frozen=True)
class Left:
    """How soon a server noticed that a client had left.

    Attributes:
        row: The state that its request was in.
        noticed_ms: From the client's reset to the server's knowledge.
        free_ms: From the reset to the end of the ticket or the lease. A load, a replacement and an
            unload go on to their ends first, as the contract has it.
    """

    row: str
    noticed_ms: float
    free_ms: float


def measured(trace: Trace, model: str, left: float) -> Left:
    """Find in a journal how soon a client of a model was noticed, and what it had was free.

    Args:
        trace: The journal.
        model: The model; nobody else of its clients left meanwhile.
        left: When the client reset its connection, in seconds of the wall clock.

    A journal says when it began by both of its clocks, to a millisecond; so exact is this.
    """
    header = trace.header
    began = datetime.fromisoformat(header.started).timestamp()
    at = header.at + left - began - 0.001
    noticed = next(e for e in trace.events if e.kind is Kind.DISCONNECTED and e.at >= at)
    request = noticed.facts["request"]
    (ticket,) = (
        e.facts["ticket"]
        for e in trace.events
        if e.kind is Kind.QUEUED and e.model == model and e.facts["request"] == request
    )
    ends = (
        e.at
        for e in trace.events
        if e.model == model and e.kind in {Kind.LEFT, Kind.RELEASED} and e.facts["ticket"] == ticket
    )
    free = next(ends)
    return Left(model, *(max(0.0, 1000 * (moment - at - 0.001)) for moment in (noticed.at, free)))


ENDS: Final[list[End]] = []
LEFT: Final[list[Left]] = []


def row_now() -> str:
    """The test that runs now, short: ``fault_matrix: what_it_does[case]``."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    file, _, name = test.partition("::")
    return f"{Path(file).stem.removeprefix('test_')}: {name.removeprefix('test_')}"


def note_end(end: End) -> None:
    """Keep how a server ended."""
    ENDS.append(end)


def note_left(left: Left) -> None:
    """Keep how soon a client that left was noticed."""
    LEFT.append(left)


class Writer:
    """Writes what was noted, at the end of the run."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        found = {"ends": list(map(asdict, ENDS)), "left": list(map(asdict, LEFT))}
        self._file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file for the results."""
    parser.addoption("--shutdown-results", type=Path, help="write how servers ended, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Write at the end, where a file was named."""
    file = config.getoption("--shutdown-results")
    if file is not None:
        config.pluginmanager.register(Writer(file), "shutdown-results")
