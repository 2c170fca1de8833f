"""Cancellation at every moment of a ticket's life: nothing is held or queued afterwards."""

from math import inf

import pytest
import trio
import trio.testing
from tests.admission.crowd import gather
from trio.testing import MockClock

from paraudio.admission import Claim, Lease, ModelQueue, QueueSnapshot, Ticket
from paraudio.errors import ServerBusyError
from paraudio.journal import Kind
from paraudio.spec import Json

REQUEST, MANAGER = Claim.REQUEST, Claim.MANAGER


def idle(slots: int) -> QueueSnapshot:
    return QueueSnapshot(slots, 0, 0, 0, 0, managed=False)


@pytest.mark.contract("beyond/g01_waiter_leaves_on_disconnect")
@pytest.mark.contract("time/disconnect_queued")
async def test_a_cancelled_waiter_leaves_in_the_step_that_cancels_it(
    autojump_clock: MockClock,
) -> None:
    async with gather(1) as crowd:
        await crowd.arrive("a", 5)
        await crowd.arrive("b", 1)
        crowd.scopes["b"].cancel()
        assert crowd.queue.snapshot().queued_requests == 0
    assert crowd.story() == [("a", "granted", 0), ("b", "cancelled", 0)]


@pytest.mark.parametrize("claim", [REQUEST, MANAGER])
async def test_a_cancelled_head_lets_its_followers_in_in_the_same_step(
    claim: Claim, autojump_clock: MockClock
) -> None:
    async with gather(3) as crowd:
        await crowd.arrive("a", 5)
        await crowd.arrive("manager", 1, MANAGER)
        await crowd.arrive("b", 1)
        await crowd.arrive("c", 1, claim)
        crowd.scopes["manager"].cancel()
        # The cancelled task has not run yet, and its followers own what it stood in the way of.
        expected = 3 if claim is REQUEST else 2
        assert crowd.queue.snapshot().active_slots == expected
    assert ("b", "granted", 0) in crowd.story()
    assert ("c", "granted", 0 if claim is REQUEST else 5) in crowd.story()


async def test_a_cancelled_manager_behind_the_head_strands_nobody(
    autojump_clock: MockClock,
) -> None:
    async with gather(2) as crowd:
        await crowd.arrive("a", 5, MANAGER)
        await crowd.arrive("b", 5)
        await crowd.arrive("manager", 1, MANAGER)
        await crowd.arrive("c", 1)
        crowd.scopes["manager"].cancel()
    assert crowd.story() == [
        ("a", "granted", 0),
        ("manager", "cancelled", 0),
        ("b", "granted", 5),
        ("c", "granted", 5),
    ]


async def test_a_caller_cancelled_before_its_first_checkpoint_takes_no_place(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.admit(REQUEST)
    assert scope.cancelled_caught
    assert queue.enter(REQUEST).number == 1  # nobody has entered before


@pytest.mark.parametrize("holders", [0, 1])
async def test_a_caller_cancelled_between_entering_and_waiting_holds_nothing(
    holders: int, autojump_clock: MockClock
) -> None:
    queue = ModelQueue("voice", 1)
    leases = [await queue.admit(REQUEST) for _ in range(holders)]
    ticket = queue.enter(REQUEST)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.wait(ticket)
    assert scope.cancelled_caught
    for lease in leases:
        lease.release()
    assert queue.snapshot() == idle(1)


async def wait_into(queue: ModelQueue, got: list[Lease], scope: trio.CancelScope) -> None:
    with scope:
        got.append(await queue.admit(REQUEST))


async def test_a_cancel_between_the_grant_and_the_wake_passes_the_slot_on(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    first: list[Lease] = []
    second: list[Lease] = []
    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_into, queue, first, scope)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait_into, queue, second, trio.CancelScope())
        await trio.testing.wait_all_tasks_blocked()
        lease.release()  # grants the first
        scope.cancel()
    assert scope.cancelled_caught
    assert first == []
    assert [each.ticket for each in second] == [3]
    second[0].release()
    assert queue.snapshot() == idle(1)


async def test_a_cancel_before_the_release_in_the_same_step_is_never_granted(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    got: list[Lease] = []
    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_into, queue, got, scope)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        lease.release()
        assert queue.snapshot() == idle(1)
    assert got == []


async def test_a_cancel_right_after_an_immediate_grant_holds_nothing(
    autojump_clock: MockClock,
) -> None:
    scope = trio.CancelScope()

    def cancel_when_granted(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        if kind is Kind.GRANTED:
            scope.cancel()

    queue = ModelQueue("voice", 1, record=cancel_when_granted)
    got: list[Lease] = []
    await wait_into(queue, got, scope)
    assert scope.cancelled_caught
    assert got == []
    assert queue.snapshot() == idle(1)


async def test_an_outer_deadline_in_the_tick_of_the_grant_leaks_nothing(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    ended: list[str] = []

    async def wait() -> None:
        try:
            with trio.fail_after(5):
                await queue.admit(REQUEST)
        except trio.TooSlowError:
            ended.append("too slow")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        lease.release()  # the grant, and before the waiter runs, the deadline
        autojump_clock.jump(5)
    assert ended == ["too slow"]
    assert queue.snapshot() == idle(1)


@pytest.mark.parametrize("bound_s", [5.0, inf])
async def test_a_release_at_the_very_moment_of_a_deadline_leaks_nothing(
    bound_s: float, autojump_clock: MockClock
) -> None:
    queue = ModelQueue("voice", 1)

    async def hold() -> None:
        with await queue.admit(REQUEST):
            await trio.sleep(5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(5 if bound_s == inf else inf) as outer:
            try:
                (await queue.admit(REQUEST, bound_s=bound_s)).release()
            except ServerBusyError:
                assert bound_s == 5.0
        assert outer.cancelled_caught is (bound_s == inf)
    assert queue.snapshot() == idle(1)


async def test_a_bound_and_a_cancellation_at_one_moment_end_as_cancellation(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with await queue.admit(REQUEST):
        with trio.move_on_after(3) as outer:
            await queue.admit(REQUEST, bound_s=3)
        assert outer.cancelled_caught
    assert queue.snapshot() == idle(1)


async def test_cancelling_everybody_at_once_leaves_an_empty_queue(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 3)

    async def use(ticket: Ticket) -> None:
        with await queue.wait(ticket):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(use, queue.enter(MANAGER if number % 7 == 3 else REQUEST))
        await trio.testing.wait_all_tasks_blocked()
        assert queue.snapshot() == QueueSnapshot(3, 3, 83, 14, 0, managed=False)
        nursery.cancel_scope.cancel()
    assert queue.snapshot() == idle(3)


async def test_a_bulk_that_is_cancelled_while_it_waits_strands_nothing(
    autojump_clock: MockClock,
) -> None:
    queues = [ModelQueue(name, 2) for name in "abc"]
    blocker = await queues[1].admit(REQUEST)
    collected: list[int] = []

    async def drain(queue: ModelQueue, ticket: Ticket) -> None:
        with await queue.wait(ticket) as lease:
            collected.append(lease.ticket)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for queue in queues:
            nursery.start_soon(drain, queue, queue.enter(MANAGER))
        await trio.testing.wait_all_tasks_blocked()
        assert collected == [1, 1]
        nursery.cancel_scope.cancel()
    blocker.release()
    assert [queue.snapshot() for queue in queues] == [idle(2)] * 3


async def test_tasks_cancelled_before_they_first_run_give_up_the_tickets_made_for_them(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(queue.wait, queue.enter(MANAGER))
        nursery.cancel_scope.cancel()
    assert queue.snapshot() == idle(1)
