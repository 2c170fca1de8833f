"""The line without an event loop: resizing, stuck slots, closing, and what the journal gets."""

import pytest
from tests.admission.bench import MANAGER, REQUEST, Bench, is_granted

from paraudio.admission import ModelQueue, QueueSnapshot
from paraudio.errors import ServerBusyError, ShuttingDownError, SlotStuckError
from paraudio.journal import Kind

# Resizing


@pytest.mark.parametrize("new", [1, 2, 5, 16])
def test_a_new_number_of_slots_takes_effect_when_the_manager_releases(new: int) -> None:
    bench = Bench(3)
    manager = bench.hold(MANAGER)
    queued = [bench.enter() for _ in range(new + 1)]
    bench.queue.resize(manager, new)
    assert bench.queue.snapshot().slots == 3
    manager.release()
    assert bench.queue.snapshot() == QueueSnapshot(new, new, 1, 0, 0, managed=False)
    assert is_granted(*queued) == [True] * new + [False]
    assert {each.lease.slot for each in queued if each.lease} == set(range(new))


def test_the_last_resize_counts() -> None:
    bench = Bench(3)
    manager = bench.hold(MANAGER)
    bench.queue.resize(manager, 5)
    bench.queue.resize(manager, 2)
    manager.release()
    assert bench.queue.snapshot().slots == 2
    bench.hold(MANAGER).release()
    assert bench.queue.snapshot().slots == 2


def test_only_the_exclusive_lease_resizes() -> None:
    bench = Bench(2)
    request = bench.hold()
    with pytest.raises(ValueError, match="does not hold 'voice' exclusively"):
        bench.queue.resize(request, 3)
    request.release()
    manager = bench.hold(MANAGER)
    with pytest.raises(ValueError, match=r"1\.\.16"):
        bench.queue.resize(manager, 17)
    manager.release()
    with pytest.raises(ValueError, match="does not hold 'voice' exclusively"):
        bench.queue.resize(manager, 3)
    stuck = bench.hold(MANAGER)
    stuck.mark_stuck()
    stuck.release()
    with pytest.raises(ValueError, match="does not hold 'voice' exclusively"):
        bench.queue.resize(stuck, 3)
    foreign = Bench(2).hold(MANAGER)
    with pytest.raises(ValueError, match="does not hold 'voice' exclusively"):
        bench.queue.resize(foreign, 3)
    assert bench.queue.snapshot().slots == 2


# Stuck slots


def test_a_stuck_lease_withholds_its_slot_although_it_was_released() -> None:
    bench = Bench(2)
    lease = bench.hold()
    lease.mark_stuck()
    lease.mark_stuck()
    lease.release()
    assert bench.queue.snapshot() == QueueSnapshot(2, 1, 0, 0, 1, managed=False)
    first, second = bench.enter(), bench.enter()
    assert is_granted(first, second) == [True, False]
    lease.mark_freed()
    lease.mark_freed()
    assert is_granted(second) == [True]
    assert bench.queue.snapshot().stuck_slots == 0
    assert [kind for kind, _ in bench.events if kind in (Kind.STUCK, Kind.FREED)] == [
        Kind.STUCK,
        Kind.FREED,
    ]
    assert bench.events[-3:] == [
        (Kind.FREED, {"ticket": 1, "slots": [0]}),
        (Kind.RELEASED, {"ticket": 1, "slots": [0]}),
        (Kind.GRANTED, {"ticket": 3, "slots": [0]}),
    ]


def test_a_freed_lease_is_still_held_until_it_is_released() -> None:
    bench = Bench(1)
    lease = bench.hold()
    lease.mark_stuck()
    lease.mark_freed()
    ticket = bench.enter()
    assert is_granted(ticket) == [False]
    lease.release()
    assert is_granted(ticket) == [True]


def test_a_lease_that_was_given_back_cannot_become_stuck() -> None:
    bench = Bench(1)
    lease = bench.hold()
    lease.release()
    with pytest.raises(RuntimeError, match="no longer its own"):
        lease.mark_stuck()
    assert bench.queue.snapshot().stuck_slots == 0


def test_a_stuck_slot_blocks_no_request_while_others_are_free() -> None:
    bench = Bench(2)
    bench.hold().mark_stuck()
    bench.now += 1000
    for _ in range(3):
        lease = bench.queue.admit_nowait(REQUEST)
        assert lease is not None
        lease.release()


def test_a_manager_that_an_overdue_stuck_slot_keeps_out_fails_fast_and_says_so() -> None:
    bench = Bench(2)
    lease = bench.hold()
    lease.mark_stuck()
    bench.now += 10
    with pytest.raises(SlotStuckError, match=r"slots \[0\] are stuck") as caught:
        bench.enter(MANAGER, bound_s=5.0)
    assert caught.value.retry_after_s == 30
    assert bench.events[-1] == (Kind.REFUSED, {"why": "slot_stuck"})


def test_a_stuck_slot_beside_one_that_is_only_overdue_is_what_a_manager_is_told_of() -> None:
    bench = Bench(2)
    bench.hold().mark_stuck()
    bench.hold()
    waiting = bench.enter(MANAGER, bound_s=20.0)
    bench.now += 10
    with pytest.raises(SlotStuckError, match=r"slots \[0\] are stuck"):
        bench.enter(MANAGER, bound_s=5.0)
    assert waiting.waiting
    with pytest.raises(ServerBusyError):
        bench.enter(REQUEST, bound_s=5.0)


def test_a_manager_that_a_healthy_slot_keeps_out_waits_despite_a_stuck_one() -> None:
    bench = Bench(2)
    bench.hold().mark_stuck()
    bench.now += 10
    bench.hold()
    assert bench.enter(MANAGER, bound_s=5.0).waiting


def test_a_manager_without_a_bound_leaves_when_only_abandoned_slots_keep_it_out() -> None:
    bench = Bench(2)
    stuck, healthy = bench.hold(), bench.hold()
    manager, follower = bench.enter(MANAGER), bench.enter(REQUEST)
    stuck.mark_stuck()
    stuck.mark_abandoned()
    assert manager.waiting
    healthy.release()
    assert bench.events[-2:] == [
        (Kind.LEFT, {"ticket": manager.number, "why": "slot_stuck"}),
        (Kind.GRANTED, {"ticket": follower.number, "slots": [1]}),
    ]
    assert manager.failure is not None
    with pytest.raises(SlotStuckError, match=r"slots \[0\] are stuck"):
        raise manager.failure()


def test_a_manager_with_a_bound_and_one_at_a_slot_that_may_come_back_wait() -> None:
    bench = Bench(1)
    held = bench.hold()
    managers = [bench.enter(MANAGER), bench.enter(MANAGER, bound_s=5.0)]
    held.mark_stuck()
    assert [each.waiting for each in managers] == [True, True]
    held.mark_abandoned()
    assert [each.waiting for each in managers] == [False, True]


def test_a_slot_that_comes_back_after_all_is_granted_to_managers_again() -> None:
    bench = Bench(1)
    held = bench.hold()
    held.mark_stuck()
    held.mark_abandoned()
    held.release()
    assert bench.enter(MANAGER).lease is None
    held.mark_freed()
    assert bench.enter(MANAGER).lease is not None


def test_a_stuck_manager_keeps_every_slot() -> None:
    bench = Bench(3)
    lease = bench.hold(MANAGER)
    lease.mark_stuck()
    lease.release()
    assert bench.queue.snapshot() == QueueSnapshot(3, 3, 0, 0, 3, managed=True)
    ticket = bench.enter()
    lease.mark_freed()
    assert is_granted(ticket) == [True]


# Closing


def test_closing_fails_everybody_who_waits_and_everybody_who_comes() -> None:
    bench = Bench(1)
    lease = bench.hold()
    waiting = [bench.enter(), bench.enter(MANAGER), bench.enter()]
    bench.queue.close(lambda: ShuttingDownError("the server drains"))
    assert not any(each.waiting for each in waiting)
    assert is_granted(*waiting) == [False] * 3
    assert bench.events[-3:] == [
        (Kind.LEFT, {"ticket": number, "why": "shutting_down"}) for number in (2, 3, 4)
    ]
    with pytest.raises(ShuttingDownError, match="drains"):
        bench.enter()
    assert bench.events[-1] == (Kind.REFUSED, {"why": "shutting_down"})
    assert bench.queue.admit_nowait(MANAGER) is None
    lease.release()
    assert bench.queue.admit_nowait(REQUEST) is None
    assert bench.queue.snapshot() == QueueSnapshot(1, 0, 0, 0, 0, managed=False)


# The journal


def test_the_journal_gets_every_transition_with_its_facts() -> None:
    bench = Bench(2)
    request = bench.queue.enter(REQUEST, bound_s=1.5, request="r1")
    manager = bench.queue.enter(MANAGER)
    assert request.lease is not None
    request.lease.release()
    assert manager.lease is not None
    bench.queue.resize(manager.lease, 4)
    bench.queue.leave(bench.enter())
    manager.lease.release()
    assert bench.events == [
        (Kind.QUEUED, {"ticket": 1, "manager": False, "bound_ms": 1500, "request": "r1"}),
        (Kind.GRANTED, {"ticket": 1, "slots": [0]}),
        (Kind.QUEUED, {"ticket": 2, "manager": True, "bound_ms": None, "request": None}),
        (Kind.RELEASED, {"ticket": 1, "slots": [0]}),
        (Kind.GRANTED, {"ticket": 2, "slots": [0, 1]}),
        (Kind.RESIZED, {"ticket": 2, "slots": 4}),
        (Kind.QUEUED, {"ticket": 3, "manager": False, "bound_ms": None, "request": None}),
        (Kind.LEFT, {"ticket": 3, "why": "cancelled"}),
        (Kind.RELEASED, {"ticket": 2, "slots": [0, 1]}),
    ]


def test_a_queue_that_nobody_records_works_the_same() -> None:
    queue = ModelQueue("voice", 1, clock=lambda: 0.0)
    first, second = queue.enter(REQUEST), queue.enter(MANAGER)
    assert first.lease is not None
    first.lease.mark_stuck()
    first.lease.mark_freed()
    first.lease.release()
    assert second.lease is not None
    second.lease.release()
    queue.close(lambda: ShuttingDownError("over"))
    with pytest.raises(ShuttingDownError):
        queue.enter(REQUEST)
