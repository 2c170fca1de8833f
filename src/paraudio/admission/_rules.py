"""The rules of admission as pure functions over plain data: no queue, no clock, no event loop.

Everything that decides lives here; ``_line.py`` keeps the data and applies the decisions.
"""

from collections.abc import Iterable
from enum import Enum
from math import inf


class Claim(Enum):
    """What a ticket wants of its model."""

    REQUEST = "request"
    """One slot, beside other requests."""
    MANAGER = "manager"
    """Every slot at once: to unload or to reconfigure."""


def effective_bound_s(request_ms: int | None, model_ms: int | None, server_ms: int) -> float:
    """The longest time that a ticket may wait, in seconds; ``inf`` for no bound.

    A request can shorten its own wait, never lengthen it: the model's ceiling, else the server's,
    stands above it. 0 is no bound on either side.

    Args:
        request_ms: What the caller asked for in milliseconds; None and 0 are no wish.
        model_ms: The model's ceiling in milliseconds, or None to take the server's.
        server_ms: The server's ceiling in milliseconds.
    """
    ceiling_ms = server_ms if model_ms is None else model_ms
    return min(_seconds(request_ms), _seconds(ceiling_ms))


def _seconds(milliseconds: int | None) -> float:
    """Milliseconds as seconds, where None and 0 are no bound."""
    return milliseconds / 1000 if milliseconds else inf


def grantable(claim: Claim, free: int, slots: int) -> bool:
    """Whether a ticket at the head can be granted.

    A manager that holds the model holds every slot, and so leaves none free: that it keeps out
    everybody needs no rule of its own.

    Args:
        claim: What the head wants.
        free: Slots that nobody holds.
        slots: All slots of the model.
    """
    return free == slots if claim is Claim.MANAGER else free > 0


def fails_fast(bound_s: float, now: float, held_since: Iterable[float]) -> bool:
    """Whether waiting is pointless for a ticket that cannot be granted at once.

    It is if *every occupied* slot has been held longer than the ticket would wait; a manager that
    holds the model is the only occupant. One healthy occupant allows the bounded wait. Neither
    spare slots behind a queued manager nor that manager count. No bound never fails fast.

    Args:
        bound_s: How long the ticket would wait, in seconds; ``inf`` for no bound.
        now: The present, in seconds.
        held_since: When each lease that is held was granted, in seconds of the same clock.
    """
    return all(now - since > bound_s for since in held_since)


def is_full(limit: int, queued: int) -> bool:
    """Whether a queue of ``queued`` tickets takes no further one; a ``limit`` of 0 is none."""
    return 0 < limit <= queued
