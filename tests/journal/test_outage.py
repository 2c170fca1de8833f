"""A disk that fills up for real: what the file may be is limited, and the limit is lifted."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from paraudio.journal import Journal, Kind, check, read

EVENTS = 2_500
BATCH = 1_000
"""Less than all events, and more than the space that there is again later."""


@pytest.fixture
def room() -> Iterator["Room"]:
    room = Room()
    yield room
    room.all()


class Room:
    """How large a file of this process may become."""

    def __init__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(self, size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._before[1]))

    def all(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


def tick(journal: Journal, times: int) -> None:
    for _ in range(times):
        journal(Kind.REFUSED, "voice", why="server_busy")


async def test_a_disk_with_little_room_again_takes_what_fits_and_nothing_is_torn(
    tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paraudio.journal._writer.BATCH", BATCH)
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        sizes = []
        for size in (5_000, 20_000, 60_000):  # a whole batch never fits
            room.limit(size)
            tick(journal, EVENTS // 5)
            journal.flush()
            trace = read(path)
            assert trace.torn is None
            assert size - 200 < path.stat().st_size <= size
            sizes.append(len(trace.events))
        assert sizes == sorted(set(sizes))
        room.all()
        tick(journal, EVENTS - journal.revision)
    assert [event.seq for event in read(path).events] == list(range(1, EVENTS + 1))
    assert journal.lost == 0


async def test_a_process_that_ends_in_haste_on_a_full_disk_leaves_a_gap_too(
    tmp_path: Path, room: Room
) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 3)
        journal.flush()
        room.limit(path.stat().st_size)
        tick(journal, 4)
        journal.flush()
        assert [event.seq for event in read(path).events] == [1, 2, 3]
        journal.flush(last=True)
        assert [event.seq for event in read(path).events] == [1, 2, 7]
        room.all()


async def test_a_disk_that_stays_full_to_the_end_leaves_a_journal_that_says_so(
    tmp_path: Path, room: Room
) -> None:
    path = tmp_path / "journal"
    room.limit(5_000)
    async with Journal(path) as journal:
        tick(journal, 1_000)
        journal(Kind.PHASE, phase="stopped")
    room.all()
    trace = read(path)
    assert (trace.torn, trace.events[-1].seq) == (None, 1_001)
    assert journal.lost == 1_001 - len(trace.events)
    (violation,) = [each for each in check(trace.events) if each.rule == "sequence"]
    assert violation.message.startswith(
        f"the journal is incomplete: it lacks {journal.lost} events"
    )


async def test_a_system_without_a_thread_to_give_puts_the_writing_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, run_sync, refused = tmp_path / "journal", trio.to_thread.run_sync, trio.Event()

    async def refuse(*_: object, **__: object) -> None:
        refused.set()
        raise RuntimeError("can't start new thread")

    async with Journal(path) as journal:
        monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
        tick(journal, 1)
        await refused.wait()
        monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
        tick(journal, 1)
        with trio.fail_after(20):
            while len(read(path).events) < 2:  # noqa: ASYNC110 - a file sets no event
                await trio.sleep(0.05)
    assert journal.lost == 0
    assert any("cannot be written: can't start new thread" in line for line in caplog.messages)
