"""Fetching: one download, checked files, one rename, and nothing half-done."""

import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing
from tests.store.fake import CONFIG, REAL_PYTHON, WEIGHTS, FakeModel, Python

from paraudio.errors import ModelNotFoundError
from paraudio.store import Entry, Store

HANGS = 'echo "Progress 10 of 40"; exec sleep 600'


def left_behind(store: Store) -> list[Path]:
    """Everything in the store's home but lock files and folders."""
    return [path for path in store.home.rglob("*") if path.is_file() and path.stat().st_size]


def runs(pid: int) -> bool:
    """Whether a process that is not ours to reap has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_fetched_model_is_complete_and_alone_in_the_store(store: Store) -> None:
    assert store.path("fake") is None
    path = await store.fetch("fake")
    assert path == store.path("fake") == store.place("fake")
    assert path.name == "weights.onnx"
    assert path.read_bytes() == WEIGHTS
    assert (path.parent / "config.json").read_bytes() == CONFIG
    assert sorted(left_behind(store)) == sorted(path.parent.iterdir())
    assert len(left_behind(store)) == 2


async def test_a_model_that_is_here_needs_no_pip(store: Store, python: Python) -> None:
    await store.fetch("fake")
    python.does("exit 7")
    assert await store.fetch("fake") == store.place("fake")
    assert len(python.pids) == 1


async def test_callers_who_want_one_model_at_once_share_one_download(
    store: Store, python: Python
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(store.fetch, "fake")
    assert store.path("fake") is not None
    assert len(python.pids) == 1


@pytest.mark.process
async def test_two_processes_share_one_download(
    store: Store, fake: FakeModel, python: Python, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib, sys, trio\n"
        "from paraudio.store import Store\n"
        "from tests.store.fake import build\n"
        "sys.executable, home, links = sys.argv[1:]\n"
        "catalogue = build(pathlib.Path(links)).catalogue\n"
        "os.write(1, b'ready')\n"
        "sys.stdin.read()\n"
        "trio.run(Store(pathlib.Path(home), catalogue=catalogue).fetch, 'fake')\n"
    )
    root = str(Path(__file__).parents[2])
    arguments = [str(python.script), str(store.home), str(tmp_path / "unused")]
    start = partial(
        trio.run_process,
        [REAL_PYTHON, str(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
    )
    async with trio.open_nursery() as nursery:
        others: list[trio.Process] = [await nursery.start(start) for _ in range(2)]
        for other in others:
            assert other.stdout is not None
            assert await other.stdout.receive_some() == b"ready"
        for other in others:
            assert other.stdin is not None
            await other.stdin.aclose()
    assert [other.returncode for other in others] == [0, 0]
    assert store.path("fake") is not None
    assert len(python.pids) == 1


async def test_progress_is_told_as_pip_tells_it(store: Store, python: Python) -> None:
    python.works(
        'printf "Collecting\\nProgress 0 of 0\\nProgress 10 of 40\\r\\nProgress 40 "; echo "of 40"'
    )
    told: list[tuple[int, int | None]] = []
    await store.fetch("fake", progress=lambda done, total: told.append((done, total)))
    assert told == [(0, None), (10, 40), (40, 40)]


async def test_cancelling_a_fetch_kills_pip_and_leaves_nothing(
    store: Store, python: Python
) -> None:
    python.does(HANGS)
    with trio.CancelScope() as scope:
        await store.fetch("fake", progress=lambda _done, _total: scope.cancel())
    assert scope.cancelled_caught
    assert not alive(python.pids[0])
    assert store.path("fake") is None
    assert left_behind(store) == []
    assert not list((store.home / "models" / ".partial").iterdir())


async def test_cancelling_a_fetch_kills_what_pip_was_started_through_and_pip(
    store: Store, python: Python, tmp_path: Path
) -> None:
    noted = tmp_path / "child"
    python.does(f'sleep 600 & echo $! > {noted}; echo "Progress 10 of 40"; wait')
    with trio.CancelScope() as scope:
        await store.fetch("fake", progress=lambda _done, _total: scope.cancel())
    child = int(noted.read_text())
    with trio.fail_after(20):
        while runs(child):  # noqa: ASYNC110 - it is the kernel that we wait for
            await trio.sleep(0.02)


async def test_a_ctrl_c_in_the_terminal_is_not_sent_to_pip_too(
    store: Store, python: Python
) -> None:
    python.does(HANGS)
    groups: set[int] = set()
    with trio.CancelScope() as scope:

        def report(_done: int, _total: int | None) -> None:
            groups.add(os.getpgid(python.pids[0]))
            scope.cancel()

        await store.fetch("fake", progress=report)
    assert groups == {python.pids[0]}
    assert os.getpgid(0) not in groups


async def test_a_fetch_works_after_a_cancelled_one(store: Store, python: Python) -> None:
    python.does(HANGS)
    with trio.CancelScope() as scope:
        await store.fetch("fake", progress=lambda _done, _total: scope.cancel())
    python.works()
    assert (await store.fetch("fake")).read_bytes() == WEIGHTS


async def test_a_caller_who_waits_for_another_ones_fetch_can_leave(
    store: Store, python: Python
) -> None:
    python.does(HANGS)
    downloads = trio.Event()

    async def fetch_until(scope: trio.CancelScope) -> None:
        with scope:
            await store.fetch("fake", progress=lambda _done, _total: downloads.set())

    first, second = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetch_until, first)
        await downloads.wait()
        async with trio.open_nursery() as waiting:
            waiting.start_soon(fetch_until, second)
            await trio.testing.wait_all_tasks_blocked(0.01)
            second.cancel()
        assert second.cancelled_caught
        assert alive(python.pids[0])
        first.cancel()
    assert len(python.pids) == 1
    assert left_behind(store) == []


async def test_a_waiting_caller_takes_over_when_the_first_one_fails(
    store: Store, python: Python
) -> None:
    python.does(HANGS)
    first, downloads = trio.CancelScope(), trio.Event()

    async def fetch_first() -> None:
        with first:
            await store.fetch("fake", progress=lambda _done, _total: downloads.set())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetch_first)
        await downloads.wait()
        python.works()
        nursery.start_soon(store.fetch, "fake")
        await trio.testing.wait_all_tasks_blocked(0.01)
        first.cancel()
    assert store.path("fake") is not None
    assert len(python.pids) == 2


async def test_what_a_killed_process_left_is_removed(store: Store) -> None:
    litter = store.home / "models" / ".partial" / "fake" / "tmp123"
    litter.mkdir(parents=True)
    (litter / "half.whl").write_bytes(b"half")
    await store.fetch("fake")
    assert not litter.exists()
    assert len(left_behind(store)) == 2


@pytest.mark.parametrize("damage", ["shorter", "gone"])
async def test_an_incomplete_model_is_not_here_and_is_fetched_again(
    store: Store, damage: str
) -> None:
    path = await store.fetch("fake")
    if damage == "shorter":
        path.write_bytes(WEIGHTS[:-1])
    else:
        path.unlink()
    assert store.path("fake") is None
    assert (await store.fetch("fake")).read_bytes() == WEIGHTS
    assert len(left_behind(store)) == 2


async def test_an_unknown_name_is_told_the_known_ones(store: Store) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no model 'joe'.*known: fake"):
        await store.fetch("joe")


async def test_the_model_of_an_installed_package_is_always_here(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    path = await store.fetch("pocketsphinx-en")
    assert path == store.path("pocketsphinx-en")
    assert (path / "en-us.lm.bin").is_file()
    assert not store.home.exists()


@pytest.mark.models
async def test_a_real_model_comes_from_the_package_index(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    told: list[tuple[int, int | None]] = []
    folder = await store.fetch(
        "silero-vad", progress=lambda done, total: told.append((done, total))
    )
    for file in store.entry("silero-vad").files:
        assert hashlib.sha256((folder / file.name).read_bytes()).hexdigest() == file.sha256
    # A wheel that pip finds on this machine comes in one step, with nothing to tell.
    assert told == sorted(told, key=lambda step: step[0])
    assert told == [] or told[-1] == (store.entry("silero-vad").wheel_bytes,) * 2


def test_every_figure_of_the_catalogue_is_complete() -> None:
    for entry in Store(Path("unused")).entries():
        assert entry.version
        assert entry.licence
        assert (entry.installed is None) == bool(entry.files) == bool(entry.wheel_bytes)
        assert not entry.main or entry.main in [file.name for file in entry.files]
        assert all(len(bytes.fromhex(file.sha256)) == 32 for file in entry.files)
        assert 0 < entry.bytes < 5 * entry.wheel_bytes or isinstance(entry.installed, str)


def test_the_store_names_no_host() -> None:
    import paraudio.store

    for source in Path(paraudio.store.__file__).parent.glob("*.py"):
        assert "://" not in source.read_text(), source


def test_no_entry_shadows_another() -> None:
    entries: tuple[Entry, ...] = Store(Path("unused")).entries()
    assert len({entry.package for entry in entries}) == len(entries)
