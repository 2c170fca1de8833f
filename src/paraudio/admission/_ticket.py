"""A caller's place in the line, and the lease that it turns into."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from paraudio.admission._rules import Claim


class Keeper(Protocol):
    """Whoever granted a lease, and takes it back."""

    def take_back(self, lease: "Lease") -> None:
        """The lease ended: its slots are free again."""

    def note_stuck(self, lease: "Lease") -> None:
        """The backend call under the lease ignores its stop."""

    def note_abandoned(self) -> None:
        """A stuck lease cannot be had back."""

    def note_freed(self, lease: "Lease") -> None:
        """The stuck call ended after all."""


class Lease:
    """What a granted ticket owns: one slot, or all of them; given back exactly once.

    A lease is a context manager that releases at the end of its block. The slots are free when
    the lease is released *and* not stuck, in whichever order the two come about.

    Attributes:
        ticket: The number of the ticket within its model, from 1.
        claim: What was claimed.
        slots: The numbers of the slots that it owns: one for a request, all for a manager.
        request: The ID of the request that it serves, or None.
        held_since: When it was granted, in seconds of the queue's clock.
        stuck: Whether the backend call under it ignores its stop.
        abandoned: Whether it is stuck, and nothing can end that call.
        released: Whether `release` was called.
    """

    __slots__ = (
        "_keeper",
        "abandoned",
        "claim",
        "held_since",
        "released",
        "request",
        "slots",
        "stuck",
        "ticket",
    )

    def __init__(
        self, keeper: Keeper, ticket: "Ticket", slots: tuple[int, ...], held_since: float
    ) -> None:
        self._keeper = keeper
        self.ticket = ticket.number
        self.claim = ticket.claim
        self.request = ticket.request
        self.slots = slots
        self.held_since = held_since
        self.stuck = False
        self.abandoned = False
        self.released = False

    def __repr__(self) -> str:
        state = "stuck" if self.stuck else "released" if self.released else "held"
        return f"<Lease of ticket {self.ticket} ({self.claim.value}), slots {self.slots}, {state}>"

    @property
    def slot(self) -> int:
        """The slot of a request; the first one of a manager."""
        return self.slots[0]

    def release(self) -> None:
        """Give the slots back, and grant whoever became grantable, in the same step.

        Never fails, never blocks, and does nothing the second time. A stuck lease keeps its slots
        until `mark_freed`.
        """
        if self.released:
            return
        self.released = True
        if not self.stuck:
            self._keeper.take_back(self)

    def mark_stuck(self) -> None:
        """Withhold the slots: the backend call that uses them ignores its stop.

        Raises:
            RuntimeError: The slots were given back already and may be another ticket's.
        """
        if self.stuck:
            return
        if self.released:
            raise RuntimeError(f"{self!r} cannot become stuck: its slots are no longer its own")
        self.stuck = True
        self._keeper.note_stuck(self)

    def mark_abandoned(self) -> None:
        """Give a stuck call up: nothing can end it, though it may still end by itself."""
        if self.stuck:
            self.abandoned = True
            self._keeper.note_abandoned()

    def mark_freed(self) -> None:
        """End `mark_stuck`: the call came back. A lease that was released meanwhile ends now."""
        if not self.stuck:
            return
        self.stuck = self.abandoned = False
        self._keeper.note_freed(self)
        if self.released:
            self._keeper.take_back(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Ticket:
    """A caller's place in a model's line; made by ``enter``, read-only for everybody else.

    A ticket is in exactly one of three states: *waiting* (``lease`` and ``failure`` are None),
    *granted* (``lease`` is set), *left* (``failure`` is set).

    Attributes:
        number: Counts the tickets of a model, from 1, in the order of entering.
        claim: What it wants.
        request: The ID of the request that it serves, or None.
        bound_s: How long it may wait, in seconds; ``inf`` for no bound.
        deadline: When it leaves if it is not granted, in seconds of the queue's clock.
        lease: What it was granted, or None.
        failure: Makes the error that a waiter gets because the ticket left, or None.
        collected: Whether a waiter took the lease: from then on it is the waiter's to release.
        wake: Wakes the task that waits for the ticket, or None while none does.
    """

    __slots__ = (
        "bound_s",
        "claim",
        "collected",
        "deadline",
        "failure",
        "lease",
        "number",
        "request",
        "wake",
    )

    def __init__(
        self, number: int, claim: Claim, request: str | None, bound_s: float, deadline: float
    ) -> None:
        self.number = number
        self.claim = claim
        self.request = request
        self.bound_s = bound_s
        self.deadline = deadline
        self.lease: Lease | None = None
        self.failure: Callable[[], Exception] | None = None
        self.collected = False
        self.wake: Callable[[], None] | None = None

    def __repr__(self) -> str:
        state = "waiting" if self.waiting else "granted" if self.lease else "left"
        return f"<Ticket {self.number} ({self.claim.value}), {state}>"

    @property
    def waiting(self) -> bool:
        """Whether it still stands in the line."""
        return self.lease is None and self.failure is None
