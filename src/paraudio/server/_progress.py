"""How the progress of a fetch is shown: log lines, or what the command line passes in."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeAlias

log = logging.getLogger(__name__)

Report: TypeAlias = Callable[[int, int | None], None]
"""Told how many bytes came, and of how many, or None while that is unknown."""

Progress: TypeAlias = Callable[[str], AbstractContextManager[Report]]
"""Opens the display of one fetch, by the model's name; leaving it ends the display."""

STEP: Final = 0.25
"""A log line each quarter: enough to see that it moves, few enough to read."""


@contextmanager
def logged_progress(name: str) -> Iterator[Report]:
    """Show a fetch as log lines, one each quarter."""
    shown = 0.0

    def report(done: int, total: int | None) -> None:
        nonlocal shown
        if total and done / total >= shown + STEP:
            shown = done / total
            log.info("fetching %s: %.0f%% of %.1f MB", name, 100 * shown, total / 10**6)

    log.info("fetching %s, which is needed for the first time", name)
    yield report
    log.info("fetched %s", name)
