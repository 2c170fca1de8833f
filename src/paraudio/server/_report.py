"""The exit report: one line for each thing that shutdown did not wait for."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from paraudio.engines.isolation import Isolation
from paraudio.journal import Journal, Kind

log = logging.getLogger(__name__)

LAST_WRITE_S: Final = 0.1
"""What the journal's last write may take when the watchdog ends the process."""

Source: TypeAlias = Callable[[], list[str]]
"""Tells what was cut so far, one line a thing."""


class Report:
    """What was cut, asked of everybody who cuts, and said once.

    Attributes:
        lines: What was said, in order.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._journal: Journal | None = None
        self._sources: list[Source] = []
        self._isolations: list[Isolation] = []

    def follow(
        self, journal: Journal, sources: Sequence[Source], isolations: Iterable[Isolation]
    ) -> None:
        """Ask these when the report is made, and write what they say into the journal."""
        self._journal = journal
        self._isolations = list(isolations)
        self._sources = [*sources, *(isolation.abandoned for isolation in self._isolations)]

    def threads_left(self) -> bool:
        """Whether a call is still inside a backend."""
        return any(isolation.abandoned() for isolation in self._isolations)

    def make(self) -> None:
        """Log and record each line that was not said before."""
        for line in (line for source in self._sources for line in source()):
            self.add(line)

    def add(self, line: str) -> None:
        """Log and record one line, unless it was said before."""
        if line not in self.lines:
            self.lines.append(line)
            log.warning("cut: %s", line)
            if self._journal is not None:
                self._journal(Kind.CUT, what=line)

    def conclude(self) -> None:
        """Log how much was cut, at the end of what was said."""
        count = len(self.lines)
        if count:
            log.warning(
                "%d thing%s cut, so the exit code is 3", count, " was" if count == 1 else "s were"
            )

    def last_words(self) -> None:
        """Say all of it from a thread, while the loop stands still and the end is near."""
        self.add("the event loop, which stood still past every bound")
        self.make()
        self.conclude()
        # A disk that hangs must not cost the exit code.
        flushing = threading.Thread(target=self.flush, name="paraudio-last-words", daemon=True)
        flushing.start()
        flushing.join(LAST_WRITE_S)

    def flush(self) -> None:
        """Bring what the journal holds to its file, now; for a process that ends without exits."""
        if self._journal is not None:
            self._journal.flush(last=True)
