"""A queue without an event loop, for tests that drive it step by step."""

from math import inf

from paraudio.admission import Claim, Lease, ModelQueue, Ticket
from paraudio.journal import Kind
from paraudio.spec import Json

REQUEST, MANAGER = Claim.REQUEST, Claim.MANAGER


class Bench:
    """A queue whose clock stands still until it is told, and all that it recorded."""

    def __init__(self, slots: int) -> None:
        self.now = 100.0
        self.events: list[tuple[Kind, dict[str, Json]]] = []
        self.queue = ModelQueue("voice", slots, record=self._record, clock=lambda: self.now)

    def _record(self, kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        assert model == "voice"
        self.events.append((kind, facts))

    def enter(self, claim: Claim = REQUEST, bound_s: float = inf) -> Ticket:
        return self.queue.enter(claim, bound_s=bound_s)

    def hold(self, claim: Claim = REQUEST) -> Lease:
        lease = self.enter(claim).lease
        assert lease is not None
        return lease


def is_granted(*tickets: Ticket) -> list[bool]:
    return [ticket.lease is not None for ticket in tickets]
