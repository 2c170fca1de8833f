"""What a scenario is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from paraudio.conformance._bench import Bench


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation, brought about and judged.

    Attributes:
        name: What it is called in reports.
        cells: The cells that it judges: they pass if it does, and fail if it does.
        play: Does it; returns if everything was as it should be.
        parallel: The policy that it needs: True for several slots, False for one, None for any.
    """

    name: str
    cells: tuple[str, ...]
    play: Callable[[Bench], Awaitable[None]]
    parallel: bool | None = None
