"""Waiting in virtual time: who is granted when, and who gives up when."""

from itertools import count

import pytest
import trio
import trio.testing
from tests.admission.crowd import gather
from trio.testing import MockClock

from paraudio.admission import Claim, Lease, ModelQueue
from paraudio.errors import ServerBusyError, ShuttingDownError, SlotStuckError
from paraudio.journal import Kind
from paraudio.spec import Json

REQUEST, MANAGER = Claim.REQUEST, Claim.MANAGER


@pytest.mark.contract("order/request_then_request")
async def test_spare_slots_admit_and_the_rest_queues_in_order(autojump_clock: MockClock) -> None:
    async with gather(2) as crowd:
        for name, hold_s in (("a", 5), ("b", 3), ("c", 4), ("d", 1)):
            await crowd.arrive(name, hold_s)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("b", "granted", 0),
        ("c", "granted", 3),
        ("d", "granted", 5),
    ]


async def test_a_manager_runs_alone_between_older_and_younger_requests(
    autojump_clock: MockClock,
) -> None:
    async with gather(2) as crowd:
        await crowd.arrive("a", 5)
        await crowd.arrive("manager", 2, MANAGER)
        await crowd.arrive("b", 1)
        await crowd.arrive("c", 1)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("manager", "granted", 5),
        ("b", "granted", 7),
        ("c", "granted", 7),
    ]


@pytest.mark.contract("time/admission_timeout_request")
async def test_a_request_leaves_exactly_at_its_bound(autojump_clock: MockClock) -> None:
    async with gather(1) as crowd:
        await crowd.arrive("a", 10)
        await crowd.arrive("b", 1, bound_s=2.5)
        await crowd.arrive("c", 1, bound_s=20)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("b", "server_busy", 2.5),
        ("c", "granted", 10),
    ]


@pytest.mark.contract("time/admission_timeout_manager")
async def test_a_manager_at_its_bound_lets_those_behind_it_in_at_once(
    autojump_clock: MockClock,
) -> None:
    async with gather(3) as crowd:
        await crowd.arrive("a", 10)
        await crowd.arrive("manager", 1, MANAGER, bound_s=4)
        await crowd.arrive("b", 1)
        await crowd.arrive("c", 1, bound_s=4.5)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("b", "granted", 4),
        ("c", "granted", 4),
        ("manager", "server_busy", 4),
    ]


async def test_the_bound_counts_from_entering_not_from_waiting(autojump_clock: MockClock) -> None:
    queue = ModelQueue("voice", 1)
    with await queue.admit(REQUEST):
        began = trio.current_time()
        ticket = queue.enter(REQUEST, bound_s=3)
        await trio.sleep(2)
        with pytest.raises(ServerBusyError, match=r"waited 3000 ms for a slot"):
            await queue.wait(ticket)
        assert trio.current_time() - began == 3


def test_nobody_leaves_before_his_bound_has_passed_since_the_journal_has_him_queued() -> None:
    reads = count(step=0.01)  # the system stops the thread for 10 ms between any two looks
    noted: list[float] = []

    def record(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        del model, facts
        if kind is Kind.QUEUED:
            noted.append(next(reads))

    queue = ModelQueue("voice", 1, record=record, clock=lambda: next(reads))
    queue.enter(REQUEST)
    ticket = queue.enter(REQUEST, bound_s=0.5)
    assert ticket.deadline >= noted[-1] + 0.5


async def test_a_ticket_whose_bound_passed_before_anybody_waited_leaves_when_waited_for(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with await queue.admit(REQUEST):
        ticket = queue.enter(REQUEST, bound_s=3)
        await trio.sleep(5)
        assert ticket.waiting
        with pytest.raises(ServerBusyError):
            await queue.wait(ticket)
        assert not ticket.waiting


async def test_a_ticket_granted_before_its_bound_is_its_owners_after_it(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    ticket = queue.enter(REQUEST, bound_s=3)
    lease.release()
    await trio.sleep(5)
    assert (await queue.wait(ticket)).ticket == ticket.number


async def test_a_grant_beats_the_bound_that_passes_before_its_waiter_wakes(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    got: list[Lease] = []

    async def wait() -> None:
        got.append(await queue.admit(REQUEST, bound_s=3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        lease.release()
        autojump_clock.jump(10)
    assert [each.ticket for each in got] == [2]


async def test_the_bound_covers_admission_only(autojump_clock: MockClock) -> None:
    async with gather(1) as crowd:
        await crowd.arrive("a", 100, bound_s=1)
    assert crowd.story() == [("a", "granted", 0)]


async def test_a_younger_ticket_with_a_shorter_bound_leaves_first(
    autojump_clock: MockClock,
) -> None:
    async with gather(1) as crowd:
        await crowd.arrive("a", 10)
        for name, bound_s in (("b", 3.0), ("c", 1.0), ("d", 2.0)):
            await crowd.arrive(name, 1, bound_s=bound_s)
    assert crowd.story()[1:] == [
        ("c", "server_busy", 1),
        ("d", "server_busy", 2),
        ("b", "server_busy", 3),
    ]


@pytest.mark.contract("time/healthy_and_overdue_blockers")
async def test_a_newcomer_that_could_only_wait_in_vain_is_told_at_once(
    autojump_clock: MockClock,
) -> None:
    async with gather(2) as crowd:
        await crowd.arrive("a", 100)
        await trio.sleep(10)
        await crowd.arrive("b", 7)
        await crowd.arrive("c", 1, bound_s=9)  # b is healthy
        await trio.sleep(5)
        await crowd.arrive("d", 1, bound_s=4)
        await crowd.arrive("e", 1, bound_s=6)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("b", "granted", 10),
        ("d", "server_busy", 15),
        ("c", "granted", 17),
        ("e", "granted", 18),
    ]


async def test_a_full_queue_refuses_and_takes_again_when_somebody_left(
    autojump_clock: MockClock,
) -> None:
    async with gather(1) as crowd:
        await crowd.arrive("a", 10)
        await crowd.arrive("b", 1, bound_s=2, limit=1)
        await crowd.arrive("c", 1, limit=1)
        await trio.sleep(3)
        await crowd.arrive("d", 1, limit=1)
    assert crowd.story() == [
        ("a", "granted", 0),
        ("c", "queue_full", 0),
        ("b", "server_busy", 2),
        ("d", "granted", 10),
    ]


@pytest.mark.contract("beyond/g04_hung_backend_contained")
async def test_a_stuck_slot_stops_managers_at_their_bound_and_nobody_else(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 2)
    stuck = await queue.admit(REQUEST)
    stuck.mark_stuck()
    stuck.release()
    began = trio.current_time()
    with pytest.raises(SlotStuckError, match=r"slots \[0\] are stuck: waited 4000 ms"):
        await queue.admit(MANAGER, bound_s=4)
    assert trio.current_time() - began == 4
    with await queue.admit(REQUEST, bound_s=1) as lease:
        assert lease.slot == 1
    stuck.mark_freed()
    with await queue.admit(MANAGER, bound_s=1) as lease:
        assert lease.slots == (0, 1)


async def test_closing_wakes_everybody_who_waits_with_the_error(autojump_clock: MockClock) -> None:
    queue = ModelQueue("voice", 1)
    failed: list[str] = []

    async def wait(claim: Claim) -> None:
        with pytest.raises(ShuttingDownError) as caught:
            await queue.admit(claim, bound_s=60)
        failed.append(caught.value.code)

    with await queue.admit(REQUEST):
        async with trio.open_nursery() as nursery:
            for claim in (REQUEST, MANAGER, REQUEST):
                nursery.start_soon(wait, claim)
            await trio.testing.wait_all_tasks_blocked()
            queue.close(lambda: ShuttingDownError("the server drains"))
    assert failed == ["shutting_down"] * 3


async def test_a_ticket_that_left_before_it_was_waited_for_tells_why(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with await queue.admit(REQUEST):
        ticket = queue.enter(REQUEST)
        queue.close(lambda: ShuttingDownError("the server drains"))
        with pytest.raises(ShuttingDownError):
            await queue.wait(ticket)


async def test_giving_up_a_ticket_wakes_the_task_that_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with await queue.admit(REQUEST):
        ticket = queue.enter(REQUEST)
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(RuntimeError, match="was given up while a task waited"):
                    await queue.wait(ticket)

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            queue.leave(ticket)


async def test_two_tasks_cannot_wait_for_one_ticket(autojump_clock: MockClock) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    ticket = queue.enter(REQUEST)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.wait, ticket)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="another task waits for"):
            await queue.wait(ticket)
        assert ticket.waiting  # the failed call took nothing from the first
        lease.release()
    with pytest.raises(RuntimeError, match="has no lease to collect"):
        await queue.wait(ticket)


async def test_admission_is_a_checkpoint_also_when_a_slot_is_free(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    with trio.testing.assert_checkpoints():
        lease = await queue.admit(REQUEST)
    with trio.testing.assert_checkpoints(), pytest.raises(ServerBusyError):
        await queue.admit(REQUEST, bound_s=0.1)
    lease.release()
    ticket = queue.enter(REQUEST)
    with trio.testing.assert_checkpoints():
        await queue.wait(ticket)


async def test_ownership_is_assigned_before_the_waiter_wakes(autojump_clock: MockClock) -> None:
    queue = ModelQueue("voice", 1)
    lease = await queue.admit(REQUEST)
    order: list[str] = []

    async def wait() -> None:
        with await queue.admit(REQUEST):
            order.append("waiter")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        lease.release()
        assert order == []  # the waiter has not run, but the slot is its own
        assert queue.snapshot().active_slots == 1
        with await queue.admit(REQUEST):
            order.append("barger")
    assert order == ["waiter", "barger"]


async def test_a_releasing_task_does_not_get_its_own_slot_back_before_the_queue(
    autojump_clock: MockClock,
) -> None:
    queue = ModelQueue("voice", 1)
    turns: list[str] = []

    async def take_turns(name: str) -> None:
        for _ in range(3):
            with await queue.admit(REQUEST):
                turns.append(name)
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        first = await queue.admit(REQUEST)
        for name in "abc":
            nursery.start_soon(take_turns, name)
            await trio.testing.wait_all_tasks_blocked()
        first.release()
    assert turns == list("abcabcabc")


async def test_a_timeout_is_recorded_as_one(autojump_clock: MockClock) -> None:
    events: list[tuple[Kind, Json]] = []

    def record(kind: Kind, model: str | None = None, /, **facts: Json) -> None:
        events.append((kind, facts.get("why")))

    queue = ModelQueue("voice", 1, record=record)
    with await queue.admit(REQUEST):
        with pytest.raises(ServerBusyError):
            await queue.admit(REQUEST, bound_s=1)
        with trio.move_on_after(0.5):
            await queue.admit(REQUEST, bound_s=1)
    assert [each for each in events if each[0] is Kind.LEFT] == [
        (Kind.LEFT, "timeout"),
        (Kind.LEFT, "cancelled"),
    ]
