"""Gates: points inside a simulated backend where a test can see who arrives, and hold them."""

from dataclasses import dataclass
from typing import Literal

import trio

Point = Literal["load", "session", "run", "chunk", "restore", "close_session", "close_model"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody who reached a point.

    Attributes:
        point: ``load`` before a load's time passes; ``session`` before a session is built; ``run``
            before the time of a run passes, or before a stream, a batch or a live job is opened;
            ``chunk`` before each pull from a stream or a batch, and before each piece of a live
            job and its end; ``restore`` before a session is reset; ``close_session`` and
            ``close_model`` before what they name is freed.
        model: The model's ID.
        path: The model's path.
        generation: The number of the load.
        session: The number of the session in its load, from 1; 0 where there is none.
        text: The text of the job or of the piece, or "".
        at: Seconds on the clock of the event loop.
    """

    point: Point
    model: str
    path: str
    generation: int
    session: int
    text: str
    at: float


class Gate:
    """Holds those who reach it, in order, until the test lets them go."""

    def __init__(self) -> None:
        self._held: dict[trio.Event, Arrival] = {}
        self._is_open = False
        self._changed = trio.Event()

    @property
    def held(self) -> list[Arrival]:
        """Who waits here now, in order of arrival."""
        return list(self._held.values())

    @property
    def is_open(self) -> bool:
        """Whether everyone passes freely."""
        return self._is_open

    async def wait_held(self, count: int = 1) -> list[Arrival]:
        """Wait until at least ``count`` are held here at once, and return them all."""
        while len(self._held) < count:
            await self._changed.wait()
        return self.held

    def release(self, count: int = 1) -> list[Arrival]:
        """Let the ``count`` oldest go on; returns them. Those who come later are held again."""
        released = list(self._held.items())[:count]
        for event, _ in released:
            del self._held[event]
            event.set()
        self._announce()
        return [arrival for _, arrival in released]

    def open(self) -> None:
        """Let everyone go on, now and from now on."""
        self._is_open = True
        self.release(len(self._held))

    async def hold(self, arrival: Arrival) -> None:
        """Wait to be released; cancelled: leave the gate."""
        passed = trio.Event()
        self._held[passed] = arrival
        self._announce()
        try:
            await passed.wait()
        finally:
            if self._held.pop(passed, None) is not None:
                self._announce()

    def _announce(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class Gates:
    """The gates of one virtual isolation, and the record of all who reached a point.

    Attributes:
        arrivals: Everyone who reached any point, held or not, in order.
    """

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self._gates: list[tuple[Gate, Point, str | None, int | None, str | None]] = []

    def hold(
        self,
        point: Point,
        *,
        model: str | None = None,
        session: int | None = None,
        text: str | None = None,
    ) -> Gate:
        """From now on hold whoever reaches ``point``; None lets any model, session or text match.

        The oldest gate that matches and is not open holds an arrival.
        """
        gate = Gate()
        self._gates.append((gate, point, model, session, text))
        return gate

    def count(self, point: Point, *, model: str | None = None) -> int:
        """How many have reached ``point`` so far."""
        return sum(
            arrival.point == point and model in {None, arrival.model} for arrival in self.arrivals
        )

    async def enter(self, arrival: Arrival) -> None:
        """Record an arrival and wait at its gate, if there is one."""
        self.arrivals.append(arrival)
        for gate, point, model, session, text in self._gates:
            if (
                not gate.is_open
                and point == arrival.point
                and model in {None, arrival.model}
                and session in {None, arrival.session}
                and text in {None, arrival.text}
            ):
                await gate.hold(arrival)
                return
