"""The shelf over a real store, and the removal of a model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from tests.store.fake import FakeModel, Python

from paraudio.store import Shelf, Store, open_shelf


async def test_an_install_brings_the_model_into_the_store_in_use(
    tmp_path: Path, fake: FakeModel
) -> None:
    async with open_shelf(Store(tmp_path / "home", catalogue=fake.catalogue)) as shelf:
        install = shelf.install("fake")
        await until(lambda: not shelf.busy)
        assert (install.state, install.error) == ("installed", None)
        assert shelf.store.path("fake") is not None


async def test_an_install_that_fails_unforeseen_costs_nobody_else(
    tmp_path: Path, fake: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async with open_shelf(Store(tmp_path / "home", catalogue=fake.catalogue)) as shelf:
        with monkeypatch.context() as patched:
            patched.setattr("paraudio.store._store._unpack_and_publish", no_thread)
            install = shelf.install("fake")
            await until(lambda: not shelf.busy)
        assert install.state == "failed"
        assert "can't start new thread" in (install.error or "")
        again = shelf.install("fake")
        await until(lambda: not shelf.busy)
        assert again.state == "installed"


async def test_leaving_ends_an_install(tmp_path: Path, fake: FakeModel, python: Python) -> None:
    python.does("exec sleep 1000")
    async with open_shelf(Store(tmp_path / "home", catalogue=fake.catalogue)) as shelf:
        install = shelf.install("fake")
        await until(lambda: bool(python.pids))
    assert install.state == "stopped"
    assert shelf.store.path("fake") is None


async def test_a_model_that_was_fetched_can_be_removed_and_fetched_again(
    store: Store,
) -> None:
    await store.fetch("fake")
    assert await store.remove("fake")
    assert store.path("fake") is None
    assert [each.name for each in (store.home / "models").iterdir() if each.name[0] != "."] == []
    assert not await store.remove("fake")
    await store.fetch("fake")
    assert store.path("fake") is not None


async def test_a_new_home_is_used_by_what_comes_after(tmp_path: Path) -> None:
    shelf = Shelf(Store(tmp_path / "old"))
    old = shelf.store
    new = await shelf.replace(str(tmp_path / "new"))
    assert shelf.store is new
    assert new.home == tmp_path / "new"
    assert old.home == tmp_path / "old"
    with shelf.fetching() as store:
        assert store is new


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    with trio.fail_after(20):
        while not true():  # noqa: ASYNC110 - a child process sets no event
            await trio.sleep(0.02)
