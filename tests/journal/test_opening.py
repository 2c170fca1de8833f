"""The file as a journal begins: what may be moved, what is kept, and who else writes it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paraudio.errors import ConfigError
from paraudio.journal import Journal, Kind, read
from paraudio.journal import _file as file_module


async def write(path: Path, events: int) -> None:
    async with Journal(path) as journal:
        for _ in range(events):
            journal(Kind.PHASE, phase="running")


def counts(path: Path) -> dict[str, int]:
    """How many events each file of the folder has."""
    return {each.name: len(read(each).events) for each in path.parent.iterdir()}


async def refused(path: Path) -> str:
    """What is said to a journal that may not begin."""
    with pytest.raises(ConfigError) as caught:
        async with Journal(path):
            pytest.fail("the block must not run")
    assert caught.value.param == "journal"
    return str(caught.value)


def content(path: Path) -> str:
    return path.read_text()


def put(path: Path, text: str) -> int:
    """Write a file, and tell which one it is."""
    path.write_text(text)
    return path.stat().st_ino


def kill_a_writer(path: Path) -> int:
    """Run a process that ends in the midst of its journal; its exit code."""
    script = (
        "import os, sys, trio\n"
        "from paraudio.journal import Journal, Kind\n"
        "async def main():\n"
        "    async with Journal(sys.argv[1]) as journal:\n"
        "        journal(Kind.PHASE, phase='running')\n"
        "        journal.flush()\n"
        "        os.kill(os.getpid(), 9)\n"
        "trio.run(main)\n"
    )
    return subprocess.run([sys.executable, "-c", script, path], check=False, timeout=60).returncode


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


async def test_journals_of_earlier_processes_are_kept_the_newest_as_1(path: Path) -> None:
    for events in (1, 2, 3):
        await write(path, events)
    assert counts(path) == {"journal": 3, "journal.1": 2, "journal.2": 1}


async def test_beyond_the_number_that_is_kept_the_oldest_goes(path: Path) -> None:
    for events in range(1, file_module.KEPT + 4):
        await write(path, events)
    kept = {f"journal.{number}": 12 - number for number in range(1, 10)}
    assert counts(path) == {"journal": 12, **kept}


async def test_a_free_number_is_filled_and_what_is_behind_it_stays(path: Path) -> None:
    for events in (1, 2, 3, 4):
        await write(path, events)
    path.with_name("journal.2").unlink()
    await write(path, 5)
    assert counts(path) == {"journal": 5, "journal.1": 4, "journal.2": 3, "journal.3": 1}


async def test_an_empty_file_is_used_as_it_is(path: Path) -> None:
    node = put(path, "")
    await write(path, 1)
    assert counts(path) == {"journal": 1}
    assert os.lstat(path).st_ino == node


@pytest.mark.parametrize("text", ["shopping\n", "{", '{"format": "other"}\n', "\n\n", "x" * 99])
async def test_a_file_that_is_no_journal_is_left_as_it_is(path: Path, text: str) -> None:
    put(path, text)
    assert "is no journal and is left as it is" in await refused(path)
    assert content(path) == text
    assert not path.with_name("journal.1").exists()


async def test_a_journal_of_another_version_is_kept_too(path: Path) -> None:
    text = '{"format": "paraudio-journal", "version": 99}\n'
    put(path, text)
    await write(path, 1)
    assert content(path.with_name("journal.1")) == text


async def test_a_file_that_another_journal_writes_is_in_use(path: Path) -> None:
    async with Journal(path) as journal:
        journal(Kind.PHASE, phase="running")
        journal.flush()
        assert "in use by another process" in await refused(path)
        journal(Kind.PHASE, phase="draining")
    assert counts(path) == {"journal": 2}
    await write(path, 1)
    assert counts(path) == {"journal": 1, "journal.1": 2}


async def test_a_process_that_is_killed_claims_nothing_any_more(path: Path) -> None:
    assert kill_a_writer(path) == -9
    await write(path, 2)
    assert counts(path) == {"journal": 2, "journal.1": 1}


async def test_whoever_opened_the_file_that_is_just_moved_away_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(path, 1)
    real = fcntl.flock

    def late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        path.replace(path.with_name("journal.1"))  # between its open and its lock
        path.touch()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert "in use by another process" in await refused(path)
    assert content(path) == ""
    assert len(read(path.with_name("journal.1")).events) == 1


async def test_a_deferred_journal_touches_nothing_until_it_is_opened(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await write(path, 1)
    before = content(path)
    async with Journal(path, deferred=True) as journal:
        journal(Kind.PHASE, phase="running")
        journal.flush()
    assert content(path) == before
    assert counts(path) == {"journal": 1}
    assert not caplog.records
    async with Journal(path, deferred=True) as journal:
        journal(Kind.PHASE, phase="running")
        await journal.open()
        journal(Kind.PHASE, phase="draining")
    assert [event.seq for event in read(path).events] == [1, 2]
    assert counts(path) == {"journal": 2, "journal.1": 1}


async def test_a_deferred_journal_without_a_file_opens_nothing() -> None:
    async with Journal(deferred=True) as journal:
        await journal.open()
        journal(Kind.PHASE, phase="running")
    assert journal.lost == 0
