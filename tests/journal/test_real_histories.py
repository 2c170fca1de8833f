"""Random histories of real queues: whatever users do and whenever they leave, no rule is broken."""

from contextlib import suppress
from dataclasses import dataclass
from math import inf

import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from paraudio.admission import Claim, ModelQueue
from paraudio.errors import ParaudioError, ShuttingDownError
from paraudio.journal import Event, Journal, Kind, check


@dataclass(frozen=True)
class User:
    """Somebody who comes once; all times are seconds.

    Attributes:
        comes: When.
        claim: What for.
        bound: How long he would wait.
        limit: How many may wait before him.
        holds: How long he holds what he gets.
        hangs: How long his backend call ignores its stop when his time is over.
        leaves: When his client goes, or None if it stays.
        slots: As a manager, to how many slots he resizes; None for not.
    """

    comes: float
    claim: Claim
    bound: float
    limit: int
    holds: float
    hangs: float
    leaves: float | None
    slots: int | None


TIMES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0])
USERS = st.builds(
    User,
    comes=TIMES,
    claim=st.sampled_from([Claim.REQUEST, Claim.REQUEST, Claim.MANAGER]),
    bound=st.sampled_from([0.5, 1.0, 3.0, inf]),
    limit=st.sampled_from([0, 0, 1, 3]),
    holds=TIMES,
    hangs=st.sampled_from([0.0, 0.0, 0.0, 2.0]),
    leaves=st.none() | TIMES,
    slots=st.none() | st.integers(1, 4),
)


async def use(queue: ModelQueue, user: User, name: str) -> None:
    """Come, wait, hold, perhaps hang, and go."""
    await trio.sleep(user.comes)
    with (
        suppress(ParaudioError),
        await queue.admit(user.claim, bound_s=user.bound, limit=user.limit, request=name) as lease,
    ):
        if user.claim is Claim.MANAGER and user.slots is not None:
            queue.resize(lease, user.slots)
        try:
            await trio.sleep(user.holds)
        finally:
            if user.hangs:
                lease.mark_stuck()
                with trio.CancelScope(shield=True):
                    await trio.sleep(user.hangs)
                lease.mark_freed()


async def live(users: list[User], slots: int, closes: float | None, journal: Journal) -> None:
    """A whole server with one queue."""
    queue = ModelQueue("voice", slots, record=journal)
    journal(Kind.PHASE, phase="running")
    journal(Kind.REGISTERED, "voice", slots=slots, path="", config=1)

    async def come_and_go(number: int, user: User) -> None:
        with trio.CancelScope() as scope:
            if user.leaves is not None:
                nursery.start_soon(go_after, user.leaves, scope, f"r{number}")
            await use(queue, user, f"r{number}")

    async def go_after(seconds: float, scope: trio.CancelScope, name: str) -> None:
        await trio.sleep(seconds)
        journal(Kind.DISCONNECTED, request=name)
        scope.cancel()

    async def close(seconds: float) -> None:
        await trio.sleep(seconds)
        journal(Kind.PHASE, phase="draining")
        queue.close(lambda: ShuttingDownError("over"))

    async with trio.open_nursery() as nursery:
        if closes is not None:
            nursery.start_soon(close, closes)
        for number, user in enumerate(users):
            nursery.start_soon(come_and_go, number, user)
    journal(Kind.PHASE, phase="stopping")
    journal(Kind.PHASE, phase="stopped")
    assert queue.snapshot().active_slots == 0


def history(users: list[User], slots: int, closes: float | None) -> list[Event]:
    journal = Journal()
    trio.run(live, users, slots, closes, journal, clock=MockClock(autojump_threshold=0))
    return journal.since(0)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    users=st.lists(USERS, max_size=12),
    slots=st.integers(1, 4),
    closes=st.none() | TIMES,
)
def test_no_history_of_a_real_queue_breaks_a_rule(
    users: list[User], slots: int, closes: float | None
) -> None:
    assert check(history(users, slots, closes), tolerance_s=0.0001) == []


def test_a_real_history_with_one_event_left_out_is_noticed() -> None:
    """So the test above can fail: take away any event of a queue and some rule is broken."""
    users = [
        User(0.0, Claim.REQUEST, inf, 0, 2.0, 0.0, None, None),
        User(0.25, Claim.MANAGER, inf, 0, 1.0, 0.0, None, 1),
        User(0.5, Claim.REQUEST, 1.0, 0, 1.0, 2.0, None, None),
        User(0.5, Claim.REQUEST, 5.0, 0, 1.0, 2.0, None, None),
        User(1.0, Claim.REQUEST, inf, 0, 1.0, 0.0, None, None),
    ]
    events = history(users, 2, None)
    silent = {Kind.PHASE, Kind.REGISTERED}
    for place, event in enumerate(events):
        if event.kind in silent:
            continue
        rest = events[:place] + events[place + 1 :]
        renumbered = [each._replace(seq=number) for number, each in enumerate(rest, 1)]
        assert check(renumbered), f"without {event}"
