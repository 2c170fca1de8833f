"""The file: what it holds, when it is written, and what becomes of it when the disk fails."""

import errno
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from paraudio.errors import ConfigError
from paraudio.journal import Event, Journal, Kind, check, read
from paraudio.journal import _journal as journal_module
from paraudio.journal import _writer as writer_module
from paraudio.journal._format import decode_event, encode_event
from paraudio.spec import Json


def tick(journal: Journal, times: int = 1) -> None:
    for _ in range(times):
        journal(Kind.DESTROYED, "voice", generation=journal.revision + 1)


class Disk:
    """Stands between the journal and ``os.write``: counts, and fails when it is told to.

    Attributes:
        full: Whether it takes no data.
        takes: How many bytes of the next write it takes although it is full.
        writes: How many lines each write had that it took.
        tries: How many writes failed.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.takes = 0
        self.writes: list[int] = []
        self.tries = 0
        self._changed = threading.Condition()
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, file: int, data: memoryview) -> int:
        with self._changed:
            self._changed.notify_all()
            if self.full and not self.takes:
                self.tries += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = data[: self.takes] if self.full else data
            self.takes = 0
            self.writes.append(bytes(taken).count(b"\n"))
            return self._write(file, taken)

    async def wrote(self, lines: int) -> None:
        await self._until(lambda: sum(self.writes) >= lines)

    async def failed(self, times: int) -> None:
        await self._until(lambda: self.tries >= times)

    async def _until(self, true: Callable[[], bool]) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(true, timeout=10)

        assert await trio.to_thread.run_sync(wait)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


async def test_everything_recorded_inside_the_block_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 1000)
    trace = read(path)
    assert list(trace.events) == [
        event._replace(at=round(event.at, 6)) for event in journal.since(0)
    ]
    assert trace.torn is None
    assert journal.lost == 0


async def test_the_first_line_names_format_and_start(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Journal(path):
        pass
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["format"], first["version"]) == ("paraudio-journal", 1)
    assert (first["pid"], first["started"][:2]) == (os.getpid(), "20")
    assert read(path).header.pid == os.getpid()


async def test_the_file_grows_while_the_block_runs(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        for count in (3, 5, 9):
            tick(journal, count - journal.revision)
            await disk.wrote(count + 1)
            assert lines(path) == count + 1


async def test_between_two_writes_events_gather(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PAUSE_S", 1000)
    async with Journal(tmp_path / "journal") as journal:
        tick(journal)
        await disk.wrote(2)
        for _ in range(5):
            tick(journal, 10)
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert disk.writes == [1, 1, 50]


async def test_what_was_recorded_before_a_cancellation_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with trio.CancelScope() as scope:
        async with Journal(path) as journal:
            scope.cancel()
            tick(journal, 5)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [event.seq for event in read(path).events] == [1, 2, 3, 4, 5]


async def test_an_error_inside_the_block_is_not_lost_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with pytest.RaisesGroup(KeyError):
        async with Journal(path) as journal:
            tick(journal)
            raise KeyError
    assert len(read(path).events) == 1


async def test_events_before_the_block_are_in_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    tick(journal, 2)
    journal.flush()  # there is no file yet
    async with journal:
        tick(journal)
    assert [event.seq for event in read(path).events] == [1, 2, 3]
    assert journal.lost == 0


async def test_events_after_the_block_are_counted_as_lost(tmp_path: Path) -> None:
    async with Journal(tmp_path / "journal") as journal:
        tick(journal)
    tick(journal, 3)
    assert (journal.lost, journal.revision) == (3, 4)


async def test_flushing_writes_what_is_pending_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 7)
        journal.flush()
        assert lines(path) == 8


async def test_a_file_that_cannot_be_opened_is_a_mistake_in_the_configuration(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="No such file or directory") as caught:
        async with Journal(tmp_path / "no" / "journal"):
            pytest.fail("the block must not run")
    assert caught.value.param == "journal"


async def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    async with Journal(path) as journal:
        tick(journal, 3)
    reader.join()
    assert got[0].count(b"\n") == 4


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            -7,
            10**30,
            1.5,
            True,
            False,
            None,
            "",
            "a b",
            'q"uo\\te',
            "\n\t\x00\x7f",
            "\u00fc\U0001f600",
        ),
        *("\ud800", [], [0, 1], ["a", None, [True]], {}, {"k": ["v", {"w": 1}]}),
    ],
)
def test_every_value_comes_back_as_it_was(value: Json) -> None:
    event = Event(3, 1.25, Kind.CUT, 'm"odel', {"what": "", "value": value})
    line = encode_event(event)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode_event(line, 2) == event


async def test_what_json_cannot_say_is_written_as_its_repr(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        journal(Kind.CUT, what=cast("str", Path("x")))
    assert read(path).events[0].facts == {"what": f"{Path('x')!r}"}


async def test_a_disk_that_is_full_for_a_while_costs_nothing(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 3)
        journal.flush()
        disk.full, disk.takes = True, 20
        for tries in (1, 2):
            tick(journal, 2)
            await disk.failed(tries)
        journal.flush()  # waits for the write that has just failed
        assert lines(path) == 4  # the half line was taken back
        disk.full = False
        tick(journal)
    assert [event.seq for event in read(path).events] == list(range(1, 9))
    assert journal.lost == 0
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "No space left on device" in caplog.text
    assert caplog.messages[1].endswith("is written again; 0 events were lost")


async def test_a_disk_that_has_room_again_gets_the_events_although_none_follows(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "RETRY_S", 0.01)
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        disk.full = True
        tick(journal, 3)
        await disk.failed(2)
        disk.full = False
        await disk.wrote(4)
        assert lines(path) == 4


async def test_each_outage_is_logged_as_it_begins_and_as_it_ends(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer_module, "MAX_PENDING", 3)
    async with Journal(tmp_path / "journal") as journal:
        for events in (2, 7):
            disk.full = True
            tick(journal, events)
            for _ in range(3):
                journal.flush()
            disk.full = False
            journal.flush()
    said = [message.partition("/journal ")[2] for message in caplog.messages]
    begins = "cannot be written: No space left on device"
    assert said == [
        begins,
        "is written again; 0 events were lost",
        begins,
        "is written again; 4 events were lost",
    ]


async def test_a_disk_that_stays_full_costs_the_events_and_leaves_a_gap(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 3)
        journal.flush()
        disk.full = True
        tick(journal, 4)
        journal.flush()
        tick(journal, 5)
    trace = read(path)
    # Only the numbers can tell, so the latest event stands where the last two had been.
    assert [event.seq for event in trace.events] == [1, 12]
    assert "sequence" in [violation.rule for violation in check(trace.events)]
    assert journal.lost == 10
    assert len(journal.since(0)) == 12
    begin, end = caplog.messages
    assert "cannot be written: No space left on device" in begin
    assert end.endswith("lacks 10 events")


async def test_a_file_that_somebody_closed_fails_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        writer = journal._writer
        assert writer is not None
        assert writer._file is not None
        spare = os.dup(writer._file)
        os.close(writer._file)
        tick(journal, 2)
        journal.flush()
        os.dup2(spare, writer._file)
        os.close(spare)
        tick(journal)
    assert "Bad file descriptor" in caplog.text
    assert len(read(path).events) == 3


async def test_more_than_can_be_pending_is_lost_and_not_kept(
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(writer_module, "MAX_PENDING", 10)
    caplog.set_level(logging.CRITICAL)
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        disk.full = True
        tick(journal, 25)
        assert journal.lost == 15
        disk.full = False
    # The latest is kept, and its number tells that others are missing.
    assert [event.seq for event in read(path).events] == [*range(1, 10), 25]


async def test_many_pending_events_are_encoded_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "BATCH", 7)
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 100)
    assert len(read(path).events) == 100


async def test_a_write_that_hangs_does_not_keep_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE_S", 0.01)
    hung, release, done = threading.Event(), threading.Event(), threading.Event()
    real = os.write

    def hang(file: int, data: memoryview) -> int:
        if b"destroyed" not in bytes(data):
            return real(file, data)
        hung.set()
        release.wait(10)
        written = real(file, data)
        done.set()
        return written

    monkeypatch.setattr(os, "write", hang)
    path = tmp_path / "journal"
    async with Journal(path) as journal:
        tick(journal, 3)
        assert await trio.to_thread.run_sync(hung.wait, 10)
        tick(journal, 2)
        journal.flush()  # gives up
    assert journal.lost == 2
    assert "a write hangs" in caplog.text
    release.set()
    assert await trio.to_thread.run_sync(done.wait, 10)
    assert lines(path) == 4
