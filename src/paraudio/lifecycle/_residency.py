"""Which models make room for another one: a decision over plain data."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resident:
    """A model with a published pool.

    Attributes:
        model: Its ID.
        last_used: When it was last loaded or run, in seconds.
        idle: Whether nobody holds it and nobody waits for it.
    """

    model: str
    last_used: float
    idle: bool


def choose_victims(residents: Sequence[Resident], limit: int) -> tuple[str, ...] | None:
    """Choose the models to evict so that one more fits.

    Least recently used first, and only idle ones. A model that is being retired is no resident and
    so neither counts nor can be chosen.

    Args:
        residents: Every model with a published pool.
        limit: How many pools may exist at once, the new one included; 0 is any number.

    Returns:
        The models to evict, perhaps none; or None when too few are idle. None means that nothing
        is evicted: half a place is of no use to anybody.
    """
    surplus = max(0, len(residents) + 1 - limit) if limit else 0
    idle = sorted((each for each in residents if each.idle), key=lambda each: each.last_used)
    if len(idle) < surplus:
        return None
    return tuple(each.model for each in idle[:surplus])
