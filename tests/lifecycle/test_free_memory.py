"""How much memory the process may still take: the least of the host and of its control groups."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import proclimits
import psutil
import pytest
from tests.lifecycle.stage import open_stage, spec
from trio.testing import MockClock

from paraudio.engines.families.simulated import SimulatedFamily
from paraudio.errors import InsufficientMemoryError
from paraudio.lifecycle import Runtime, RuntimeSettings, find_free_memory

MIB = 2**20
HOST = 900 * MIB
UNLIMITED_V1 = 9223372036854771712
V2 = "29 23 0:26 {root} {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 {root} {mount} rw,relatime - cgroup cgroup rw,memory\n"
BESIDE_V1 = (
    "31 23 0:28 / {mount}/.. rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "36 31 0:33 / {mount}/../cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / {mount}/../unified rw,relatime - cgroup2 cgroup2 rw\n"
)


def level(limit: str | int, usage: int, cached: int = 0, unwritten: int = 0) -> Mapping[str, str]:
    """The files of a control group of version 2; all amounts but a word in MiB."""
    return {
        "memory.max": f"{limit if isinstance(limit, str) else limit * MIB}\n",
        "memory.high": f"{MIB}\n",
        "memory.current": f"{usage * MIB}\n",
        "memory.stat": f"anon 4096\nfile_dirty {unwritten * MIB}\nfile_writeback 0\n"
        f"inactive_anon 99\nactive_file 8192\ninactive_file {cached * MIB}\n",
    }


def level_v1(limit: int, usage: int, cached: int = 0) -> Mapping[str, str]:
    """The same of version 1."""
    return {
        "memory.limit_in_bytes": f"{limit if limit == UNLIMITED_V1 else limit * MIB}\n",
        "memory.usage_in_bytes": f"{usage * MIB}\n",
        "memory.stat": f"cache 1\ninactive_file 7\ntotal_inactive_file {cached * MIB}\n",
    }


@dataclass
class Tree:
    """What the kernel would show.

    Attributes:
        own: The content of ``/proc/self/cgroup``.
        groups: The files of each folder below the mount.
        mounts: The content of ``/proc/self/mountinfo``.
        root: What the mount shows of the hierarchy.
    """

    own: str
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mounts: str = V2
    root: str = "/"


Show = Callable[[Tree], Path]


@pytest.fixture(autouse=True)
def _found_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=HOST))
    proclimits.clear_cache()
    yield
    proclimits.clear_cache()


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Show:
    def lay(tree: Tree) -> Path:
        mount = tmp_path / "tree" / "memory"
        for folder, files in {"": {}, **tree.groups}.items():
            (mount / folder).mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (mount / folder / name).write_bytes(content.encode("latin-1"))
        mounts, own = tmp_path / "mountinfo", tmp_path / "cgroup"
        mounts.write_text(tree.mounts.format(root=tree.root, mount=mount))
        own.write_text(tree.own)
        monkeypatch.setattr("proclimits._cgroup._PROC_SELF_MOUNTINFO", mounts)
        monkeypatch.setattr("proclimits._cgroup._PROC_SELF_CGROUP", own)
        return mount

    return lay


SERVICE = "0::/system.slice/paraudio.service\n"
SLICE, UNIT = "system.slice", "system.slice/paraudio.service"

BOUND = {
    "the unit's own limit": (Tree(SERVICE, {UNIT: level(500, 300)}), 200),
    "a slice around it, whose other units use most": (
        Tree(SERVICE, {UNIT: level(500, 100), SLICE: level(600, 550)}),
        50,
    ),
    "the unit within a roomy slice": (
        Tree(SERVICE, {UNIT: level(500, 400), SLICE: level(800, 600)}),
        100,
    ),
    "a limited slice around a unit without a limit": (
        Tree(SERVICE, {UNIT: level("max", 300), SLICE: level(600, 400)}),
        200,
    ),
    "file cache is given up first": (Tree(SERVICE, {UNIT: level(500, 490, cached=90)}), 100),
    "but not before it is written": (
        Tree(SERVICE, {UNIT: level(500, 490, cached=90, unwritten=50)}),
        50,
    ),
    "a limit that was lowered below the usage": (Tree(SERVICE, {UNIT: level(300, 400)}), 0),
    "a container with a namespace of its own": (Tree("0::/\n", {"": level(256, 56)}), 200),
    "a container that sees its part of the tree": (
        Tree(
            "0::/kubepods/pod7/c1\n",
            {"c1": level("max", 10), "": level(300, 200)},
            V2,
            "/kubepods/pod7",
        ),
        100,
    ),
    "version 1": (
        Tree(
            "9:name=systemd:/\n4:memory:/docker/c1\n1:cpu,cpuacct:/docker/c1\n0::/elsewhere\n",
            {
                "docker/c1": level_v1(400, 350, cached=30),
                "docker": level_v1(UNLIMITED_V1, 700),
                "": level_v1(UNLIMITED_V1, 800),
            },
            BESIDE_V1 + V1,
        ),
        80,
    ),
    "version 1 in a container that sees its own group only": (
        Tree("4:memory:/docker/c1\n", {"": level_v1(400, 350)}, V1, "/docker/c1"),
        50,
    ),
}


@pytest.mark.parametrize(("tree", "left"), BOUND.values(), ids=BOUND)
def test_what_is_left_of_the_nearest_limit_is_free(tree: Tree, left: int, show: Show) -> None:
    show(tree)
    assert find_free_memory()() == left * MIB


WITHOUT = {
    "no limit": Tree(SERVICE, {UNIT: level("max", 300), SLICE: level("max", 400)}),
    "a limit that the host reaches first": Tree(SERVICE, {UNIT: level(1000, 50)}),
    "no limit in version 1": Tree(
        "4:memory:/a\n", {"a": level_v1(UNLIMITED_V1, 9), "": level_v1(UNLIMITED_V1, 9)}, V1
    ),
    "no file": Tree(SERVICE),
    "no group": Tree(""),
    "no mount": Tree(SERVICE, {UNIT: level(500, 300)}, ""),
    "no amount": Tree(SERVICE, {UNIT: {"memory.max": "500000000\n"}}),
    "empty": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.max": ""}}),
    "no number": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.max": "lots\n"}}),
    "a number without end": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.max": "9" * 5000}}),
    "below nothing": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.max": "-5\n"}}),
    "no text": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.max": "\xff\xfe\x00"}}),
    "an amount that is none": Tree(SERVICE, {UNIT: {**level(500, 300), "memory.current": "?"}}),
    "odd lines": Tree("one\n\n0:\n::::\n", {}, "29 23\n - \n\\0 - cgroup2\n"),
    "odd paths": Tree("0::/../../\0x\n", {UNIT: level(500, 300)}),
}


@pytest.mark.parametrize("tree", WITHOUT.values(), ids=WITHOUT)
def test_where_no_limit_can_be_read_the_host_decides(tree: Tree, show: Show) -> None:
    show(tree)
    assert find_free_memory()() == HOST


def test_a_folder_in_place_of_a_file_is_no_limit(show: Show) -> None:
    mount = show(Tree(SERVICE, {UNIT: level(500, 300)}))
    (mount / UNIT / "memory.max").unlink()
    (mount / UNIT / "memory.max").mkdir()
    assert find_free_memory()() == HOST


def test_a_group_that_is_gone_is_no_limit_any_more(show: Show) -> None:
    mount = show(Tree(SERVICE, {UNIT: level(500, 300)}))
    free = find_free_memory()
    assert free() == 200 * MIB
    for file in (mount / UNIT).iterdir():
        file.unlink()
    (mount / UNIT).rmdir()
    assert free() == HOST


def test_without_what_the_kernel_tells_the_host_decides(
    tmp_path: Path, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(Tree(SERVICE, {UNIT: level(500, 300)}))
    (tmp_path / "cgroup").unlink()
    (tmp_path / "mountinfo").unlink()
    assert find_free_memory()() == HOST


def test_free_memory_of_this_process_is_a_plausible_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    assert 2**20 < find_free_memory()() <= psutil.virtual_memory().total


@pytest.mark.contract("fail/memory_refusal")
async def test_a_load_that_the_container_has_no_room_for_is_refused_and_retried_later(
    show: Show, autojump_clock: MockClock
) -> None:
    mount = show(Tree("0::/\n", {"": level(500, 200)}))
    model = spec("a", memory_mb=250)
    async with open_stage(model, min_free_memory_mb=100, free_memory=None) as stage:
        await stage.ask("first", "a")
        error = stage.errors["first"]
        assert isinstance(error, InsufficientMemoryError)
        assert "only 300 MiB are free" in error.message
        (mount / "memory.current").write_text(f"{150 * MIB}\n")
        await stage.ask("second", "a")
        assert stage.ends()["second"][0] == "done"


@pytest.mark.parametrize("headroom_mb", [0, 1])
def test_only_who_guards_memory_pays_for_finding_its_limits(
    headroom_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "proclimits")
    settings = RuntimeSettings(min_free_memory_mb=headroom_mb)
    Runtime(settings, families={"simulated": SimulatedFamily()}, isolations={})
    assert ("proclimits" in sys.modules) == bool(headroom_mb)
