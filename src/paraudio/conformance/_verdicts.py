"""What a scenario can come to, and what it all comes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paraudio.errors import ParaudioError


class Verdict(StrEnum):
    """How a cell was judged."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Result:
    """One cell, judged.

    Attributes:
        cell: Its ID.
        verdict: How it was judged.
        reason: What was seen in place of what should be, or why it does not apply; else empty.
        scenarios: Those that judged it.
        seconds: How long they took, together.
    """

    cell: str
    verdict: Verdict
    reason: str
    scenarios: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run.

    Attributes:
        url: The server.
        policy: ``parallel`` or ``serial``; ``unknown`` where models cannot be managed.
        seconds: How long the run took.
        results: Every cell that was asked for, in the order of the contract.
        gone: Why the server did not answer any more at the end, or empty: then what failed need not
            have been the fault of the cell that it failed.
    """

    url: str
    policy: str
    seconds: float
    results: Sequence[Result]
    gone: str = ""

    def count(self, verdict: Verdict) -> int:
        """How many cells came to that."""
        return sum(result.verdict is verdict for result in self.results)

    @property
    def judged(self) -> bool:
        """Whether any cell was: a server that allows nothing passes nothing."""
        return any(result.verdict is not Verdict.NOT_APPLICABLE for result in self.results)

    @property
    def good(self) -> bool:
        """Whether something was judged, and nothing failed."""
        return self.judged and not self.gone and not self.count(Verdict.FAIL)


class NoServerError(ParaudioError):
    """Nothing at the URL answers as a server with this interface would."""

    code = "no_server"


class BrokenError(Exception):
    """The server did what the contract forbids."""


class TooSlowError(Exception):
    """A situation was over before it could be judged, or never came; worth a slower try."""


class NotApplicableError(Exception):
    """This server, set up as it is, cannot be brought into the situation."""
