"""The recorder in memory: numbers, times, the ring, and who waits for changes."""

import threading

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from paraudio.journal import Event, Journal, Kind


async def test_events_are_numbered_and_timed(autojump_clock: MockClock) -> None:
    journal = Journal()
    began = trio.current_time()
    journal(Kind.PHASE, phase="running")
    await trio.sleep(5)
    journal(Kind.LEFT, "voice", ticket=1, why="timeout")
    assert journal.since(0) == [
        Event(1, began, Kind.PHASE, None, {"phase": "running"}),
        Event(2, began + 5, Kind.LEFT, "voice", {"ticket": 1, "why": "timeout"}),
    ]
    assert journal.revision == 2
    assert journal.lost == 0


async def test_facts_may_have_any_name() -> None:
    journal = Journal()
    journal(Kind.STATE, "voice", **{"from": "ready", "model": "x", "kind": "y"})
    assert journal.since(0)[0].facts == {"from": "ready", "model": "x", "kind": "y"}


def test_a_kind_is_found_by_its_text() -> None:
    kinds: dict[str, int] = {Kind.LOAD_STARTED: 1}
    assert kinds["load_started"] == 1


def test_a_clock_can_be_given_and_no_loop_is_needed() -> None:
    journal = Journal(clock=iter([1.5, 2.5]).__next__)
    journal(Kind.PHASE, phase="running")
    journal(Kind.PHASE, phase="draining")
    assert [event.at for event in journal.since(0)] == [1.5, 2.5]


def test_without_loop_and_clock_time_is_that_of_the_machine() -> None:
    journal = Journal()
    for _ in range(3):
        journal(Kind.PHASE, phase="running")
    times = [event.at for event in journal.since(0)]
    assert times == sorted(times)


def test_memory_keeps_the_latest_events_only() -> None:
    journal = Journal(ring=4, clock=lambda: 0.0)
    for number in range(10):
        journal(Kind.DESTROYED, "voice", generation=number)
    assert [event.seq for event in journal.since(0)] == [7, 8, 9, 10]
    assert [event.seq for event in journal.since(7)] == [8, 9, 10]
    assert [event.seq for event in journal.since(9)] == [10]
    assert journal.since(10) == journal.since(99) == []


def test_a_journal_without_memory_still_counts() -> None:
    journal = Journal(ring=0, clock=lambda: 0.0)
    journal(Kind.PHASE, phase="running")
    assert (journal.revision, journal.since(0)) == (1, [])


async def test_waiting_ends_with_the_next_event(autojump_clock: MockClock) -> None:
    journal = Journal()
    seen: list[int] = []

    async def watch() -> None:
        revision = 0
        while revision < 3:
            await journal.wait_change(revision)
            revision = journal.revision
            seen.append(revision)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(watch)
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()
            journal(Kind.PHASE, phase="running")
    assert sorted(seen) == [1, 1, 2, 2, 3, 3]


async def test_waiting_for_what_has_happened_is_only_a_checkpoint() -> None:
    journal = Journal()
    journal(Kind.PHASE, phase="running")
    with trio.testing.assert_checkpoints():
        await journal.wait_change(0)


async def test_a_cancelled_waiter_disturbs_nobody(autojump_clock: MockClock) -> None:
    journal = Journal()
    with trio.move_on_after(1):
        await journal.wait_change(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.wait_change, 0)
        await trio.testing.wait_all_tasks_blocked()
        journal(Kind.PHASE, phase="running")


async def test_a_thread_records_without_disturbing_those_who_wait() -> None:
    journal = Journal()
    journal(Kind.PHASE, phase="running")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.wait_change, 1)
        await trio.testing.wait_all_tasks_blocked()
        # A watchdog's thread, which is none of Trio's own.
        thread = threading.Thread(target=journal, args=(Kind.CUT,), kwargs={"what": "a call"})
        thread.start()
        thread.join()
        assert journal.since(1)[0].facts == {"what": "a call"}
        journal(Kind.PHASE, phase="draining")


async def test_a_journal_without_a_file_can_be_entered_too() -> None:
    async with Journal() as journal:
        journal(Kind.PHASE, phase="running")
        journal.flush()
    assert journal.revision == 1
    with pytest.raises(KeyError):
        async with Journal():
            raise KeyError


def test_followers_see_each_event_as_it_is_recorded_and_cannot_harm_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal()
    journal(Kind.PHASE, phase="running")
    seen: list[tuple[int, int]] = []

    def broken(event: Event) -> None:
        raise RuntimeError(f"cannot follow {event.seq}")

    journal.follow(broken)
    journal.follow(lambda event: seen.append((event.seq, journal.revision)))
    journal(Kind.PHASE, phase="draining")
    journal(Kind.PHASE, phase="stopping")
    assert seen == [(2, 2), (3, 3)]
    assert journal.revision == 3
    assert "cannot follow 2" in caplog.text
