"""What the tests of the running queue share: users that come, hold and go in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

import trio
import trio.testing

from paraudio.admission import Claim, ModelQueue, QueueSnapshot
from paraudio.errors import ParaudioError


@dataclass
class Crowd:
    """Users of one queue; each is a task with a cancel scope, and tells when what happened."""

    nursery: trio.Nursery
    queue: ModelQueue
    began: float
    told: list[tuple[str, str, float]] = field(default_factory=list)
    scopes: dict[str, trio.CancelScope] = field(default_factory=dict)

    async def arrive(
        self,
        name: str,
        hold_s: float,
        claim: Claim = Claim.REQUEST,
        *,
        bound_s: float = inf,
        limit: int = 0,
    ) -> None:
        """Let a user come and stand where it has to; it holds what it gets for ``hold_s``."""
        self.scopes[name] = trio.CancelScope()

        async def use() -> None:
            with self.scopes[name]:
                try:
                    with await self.queue.admit(claim, bound_s=bound_s, limit=limit, request=name):
                        self.tell(name, "granted")
                        await trio.sleep(hold_s)
                except ParaudioError as error:
                    self.tell(name, error.code)
            if self.scopes[name].cancelled_caught:
                self.tell(name, "cancelled")

        self.nursery.start_soon(use)
        await trio.testing.wait_all_tasks_blocked()

    def story(self) -> list[tuple[str, str, float]]:
        """What happened, by time; what Trio ran in one tick, in any order, is sorted by name."""
        return sorted(self.told, key=lambda each: (each[2], each[0]))

    def tell(self, name: str, what: str) -> None:
        self.told.append((name, what, trio.current_time() - self.began))


@asynccontextmanager
async def gather(slots: int) -> AsyncIterator[Crowd]:
    """A crowd around a new queue of so many slots; leaves when everybody has gone."""
    queue = ModelQueue("voice", slots)
    async with trio.open_nursery() as nursery:
        yield Crowd(nursery, queue, trio.current_time())
    assert queue.snapshot() == QueueSnapshot(slots, 0, 0, 0, 0, managed=False)
