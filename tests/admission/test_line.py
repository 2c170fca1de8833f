"""The line without an event loop: order, barriers, fail-fast, limits, leases, positions."""

import pytest
from tests.admission.bench import MANAGER, REQUEST, Bench, is_granted

from paraudio.admission import Claim, Lease, QueueSnapshot
from paraudio.errors import (
    QueueFullError,
    ServerBusyError,
)
from paraudio.journal import Kind


def test_neighbouring_requests_fill_spare_slots() -> None:
    bench = Bench(3)
    first, second, third, fourth = (bench.enter() for _ in range(4))
    assert is_granted(first, second, third, fourth) == [True, True, True, False]
    slots = {ticket.lease.slot for ticket in (first, second, third) if ticket.lease}
    assert slots == {0, 1, 2}


def test_requests_are_granted_in_the_order_of_entering() -> None:
    bench = Bench(1)
    lease = bench.hold()
    waiting = [bench.enter() for _ in range(5)]
    for place, ticket in enumerate(waiting):
        lease.release()
        assert is_granted(*waiting) == [i <= place for i in range(5)]
        assert ticket.lease is not None
        lease = ticket.lease


def test_a_manager_waits_for_every_slot_and_takes_all() -> None:
    bench = Bench(3)
    first, second = bench.hold(), bench.hold()
    manager = bench.enter(MANAGER)
    first.release()
    assert is_granted(manager) == [False]
    second.release()
    assert manager.lease is not None
    assert (manager.lease.slots, manager.lease.slot) == ((0, 1, 2), 0)
    assert bench.queue.snapshot() == QueueSnapshot(3, 3, 0, 0, 0, managed=True)


def test_a_waiting_manager_collects_no_slot_before_all_are_free() -> None:
    bench = Bench(4)
    bench.hold()
    bench.enter(MANAGER)
    assert bench.queue.snapshot() == QueueSnapshot(4, 1, 0, 1, 0, managed=False)


@pytest.mark.contract("order/request_then_manager")
@pytest.mark.contract("order/manager_then_request")
def test_nobody_behind_an_ungranted_head_is_granted_even_with_spare_slots() -> None:
    bench = Bench(4)
    older = bench.hold()
    manager, follower = bench.enter(MANAGER), bench.enter()
    assert is_granted(manager, follower) == [False, False]
    older.release()
    assert is_granted(manager, follower) == [True, False]
    assert manager.lease is not None
    manager.lease.release()
    assert is_granted(follower) == [True]


@pytest.mark.contract("order/manager_then_manager")
def test_managers_are_granted_one_after_the_other_in_their_order() -> None:
    bench = Bench(2)
    older = bench.hold()
    managers = [bench.enter(MANAGER) for _ in range(3)]
    lease: Lease | None = older
    for place in range(3):
        assert lease is not None
        lease.release()
        assert is_granted(*managers) == [i <= place for i in range(3)]
        lease = managers[place].lease


def test_a_newcomer_does_not_pass_a_queued_manager() -> None:
    bench = Bench(2)
    bench.hold()
    bench.enter(MANAGER)
    assert bench.queue.admit_nowait(REQUEST) is None
    assert is_granted(bench.enter()) == [False]


def test_a_newcomer_does_not_take_a_slot_that_a_release_assigned() -> None:
    bench = Bench(1)
    lease = bench.hold()
    queued = bench.enter()
    lease.release()  # nobody has waited for ``queued`` yet, and still it owns the slot
    assert bench.queue.admit_nowait(REQUEST) is None
    assert is_granted(queued, bench.enter()) == [True, False]


@pytest.mark.parametrize("claim", [REQUEST, MANAGER])
def test_a_try_acquire_takes_a_lease_only_when_nothing_is_in_its_way(claim: Claim) -> None:
    bench = Bench(2)
    lease = bench.queue.admit_nowait(claim, request="r1")
    assert lease is not None
    assert (lease.claim, lease.request) == (claim, "r1")
    assert lease.slots == ((0,) if claim is REQUEST else (0, 1))
    assert bench.queue.admit_nowait(MANAGER) is None
    assert (bench.queue.admit_nowait(REQUEST) is not None) is (claim is REQUEST)


def test_a_failed_try_acquire_leaves_no_trace() -> None:
    bench = Bench(1)
    bench.hold()
    before, events = bench.queue.snapshot(), list(bench.events)
    assert bench.queue.admit_nowait(REQUEST) is None
    assert (bench.queue.snapshot(), bench.events) == (before, events)


@pytest.mark.parametrize("claim", [REQUEST, MANAGER])
def test_a_head_that_leaves_strands_nobody_behind_it(claim: Claim) -> None:
    bench = Bench(3)
    bench.hold()
    head = bench.enter(MANAGER)
    followers = [bench.enter(), bench.enter(), bench.enter(claim)]
    bench.queue.leave(head)
    assert is_granted(*followers) == [True, True, False]


def test_leaving_twice_is_leaving_once() -> None:
    bench = Bench(1)
    bench.hold()
    ticket, other = bench.enter(), bench.enter()
    bench.queue.leave(ticket)
    bench.queue.leave(ticket)
    assert bench.queue.snapshot().queued_requests == 1
    assert bench.queue.position(other) == 0
    assert [kind for kind, _ in bench.events].count(Kind.LEFT) == 1


def test_leaving_releases_a_lease_that_nobody_has_collected() -> None:
    bench = Bench(1)
    first, second = bench.enter(), bench.enter()
    bench.queue.leave(first)
    assert is_granted(second) == [True]


@pytest.mark.contract("time/healthy_and_overdue_blockers")
def test_a_request_fails_fast_if_every_occupied_slot_is_overdue() -> None:
    bench = Bench(2)
    bench.hold()
    bench.now += 4
    bench.hold()
    bench.now += 3
    assert is_granted(bench.enter(bound_s=3.0)) == [False]  # the second has been held for 3 s
    bench.now += 0.5
    with pytest.raises(ServerBusyError, match=r"'voice' is busy.*3000 ms"):
        bench.enter(bound_s=3.0)
    assert bench.events[-1] == (Kind.REFUSED, {"why": "server_busy"})
    assert is_granted(bench.enter(bound_s=3.6)) == [False]


@pytest.mark.contract("time/healthy_and_overdue_blockers")
def test_one_healthy_blocker_allows_a_bounded_wait() -> None:
    bench = Bench(2)
    bench.hold()
    bench.now += 100
    bench.hold()
    assert is_granted(bench.enter(bound_s=1.0)) == [False]


@pytest.mark.contract("time/healthy_and_overdue_blockers")
def test_spare_slots_behind_a_queued_manager_do_not_change_that_all_occupied_are_overdue() -> None:
    bench = Bench(4)
    bench.hold()
    bench.enter(MANAGER)
    bench.now += 10
    with pytest.raises(ServerBusyError):
        bench.enter(bound_s=9.0)
    assert is_granted(bench.enter(bound_s=11.0)) == [False]


@pytest.mark.parametrize("claim", [REQUEST, MANAGER])
def test_a_ticket_fails_fast_behind_a_manager_that_holds_for_longer_than_its_bound(
    claim: Claim,
) -> None:
    bench = Bench(2)
    bench.hold(MANAGER)
    bench.now += 2
    assert is_granted(bench.enter(claim, bound_s=2.0)) == [False]
    with pytest.raises(ServerBusyError):
        bench.enter(claim, bound_s=1.9)


def test_a_ticket_that_can_be_granted_at_once_never_fails_fast() -> None:
    bench = Bench(2)
    bench.hold()
    bench.now += 1000
    assert is_granted(bench.enter(bound_s=0.001)) == [True]


@pytest.mark.contract("time/timeout_zero_and_bulk")
def test_no_bound_never_fails_fast() -> None:
    bench = Bench(1)
    bench.hold()
    bench.now += 1e9
    assert is_granted(bench.enter(), bench.enter(MANAGER)) == [False, False]


@pytest.mark.contract("beyond/g07_queue_bound")
def test_a_full_queue_takes_no_further_ticket() -> None:
    bench = Bench(1)
    lease = bench.hold()
    tickets = [bench.queue.enter(REQUEST, limit=2) for _ in range(2)]
    with pytest.raises(QueueFullError, match="2 wait, and max_queued_requests is 2") as caught:
        bench.queue.enter(REQUEST, limit=2)
    assert caught.value.retry_after_s == 1
    assert bench.events[-1] == (Kind.REFUSED, {"why": "queue_full"})
    assert is_granted(bench.queue.enter(REQUEST, limit=3)) == [False]
    lease.release()
    assert is_granted(*tickets) == [True, False]


def test_tickets_that_left_do_not_count_against_the_limit() -> None:
    bench = Bench(1)
    bench.hold()
    tickets = [bench.queue.enter(REQUEST, limit=3) for _ in range(3)]
    bench.queue.leave(tickets[1])
    assert bench.queue.enter(REQUEST, limit=3).waiting


def test_a_limit_does_not_refuse_a_ticket_that_can_be_granted() -> None:
    assert is_granted(Bench(1).queue.enter(REQUEST, limit=1)) == [True]


@pytest.mark.parametrize("bound_s", [0.0, -1.0, float("nan")])
def test_a_bound_that_is_no_time_is_refused(bound_s: float) -> None:
    bench = Bench(1)
    with pytest.raises(ValueError, match="bound_s must be positive"):
        bench.enter(bound_s=bound_s)
    assert bench.events == []


@pytest.mark.parametrize("slots", [0, 17, -1])
def test_a_number_of_slots_out_of_range_is_refused(slots: int) -> None:
    with pytest.raises(ValueError, match=r"slots must be 1\.\.16"):
        Bench(slots)


def test_a_lease_is_given_back_exactly_once() -> None:
    bench = Bench(2)
    lease, _ = bench.hold(), bench.hold()
    first, second = bench.enter(), bench.enter()
    with lease:
        pass
    lease.release()
    assert is_granted(first, second) == [True, False]


def test_the_lease_tells_what_it_is() -> None:
    bench = Bench(2)
    ticket = bench.queue.enter(REQUEST, request="r7")
    lease = ticket.lease
    assert lease is not None
    assert (lease.ticket, lease.claim, lease.request) == (1, REQUEST, "r7")
    assert (lease.slot, lease.slots, lease.held_since) == (0, (0,), 100.0)
    assert repr(lease) == "<Lease of ticket 1 (request), slots (0,), held>"
    lease.mark_stuck()
    assert repr(lease).endswith(", stuck>")
    lease.mark_freed()
    lease.release()
    assert repr(lease).endswith(", released>")


def test_the_ticket_tells_where_it_stands() -> None:
    bench = Bench(1)
    tickets = [bench.enter(), bench.enter(MANAGER), bench.enter()]
    bench.queue.leave(tickets[2])
    assert [repr(each) for each in tickets] == [
        "<Ticket 1 (request), granted>",
        "<Ticket 2 (manager), waiting>",
        "<Ticket 3 (request), left>",
    ]


def test_positions_count_only_those_who_still_wait() -> None:
    bench = Bench(1)
    bench.hold()
    tickets = [bench.enter() for _ in range(5)]
    assert [bench.queue.position(each) for each in tickets] == [0, 1, 2, 3, 4]
    bench.queue.leave(tickets[0])
    bench.queue.leave(tickets[2])
    assert [bench.queue.position(tickets[i]) for i in (1, 3, 4)] == [0, 1, 2]
    newcomer = bench.enter()
    assert bench.queue.position(newcomer) == 3
    with pytest.raises(ValueError, match="does not stand in the line of 'voice'"):
        bench.queue.position(tickets[0])


def test_who_holds_and_who_waits_is_told_in_order() -> None:
    bench = Bench(2)
    leases = [bench.hold(), bench.hold()]
    tickets = [bench.enter(MANAGER), bench.enter(), bench.enter()]
    assert (bench.queue.held(), bench.queue.waiting()) == (leases, tickets)
    bench.queue.leave(tickets[1])
    leases[0].release()
    assert (bench.queue.held(), bench.queue.waiting()) == (leases[1:], [tickets[0], tickets[2]])


def test_looking_at_positions_changes_no_order() -> None:
    bench = Bench(1)
    lease = bench.hold()
    tickets = [bench.enter() for _ in range(4)]
    bench.queue.leave(tickets[1])
    bench.queue.position(tickets[3])
    for ticket in (tickets[0], tickets[2], tickets[3]):
        lease.release()
        assert ticket.lease is not None
        lease = ticket.lease
