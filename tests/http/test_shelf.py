"""``/v1/ui``: the store's root is replaced whole or not at all; models are fetched on demand."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.http.client import Reply
from tests.http.conftest import OpenWorld, World, spec
from trio.testing import MockClock, wait_all_tasks_blocked

from paraudio.store import FetchError, Progress, Shelf, Store, no_progress

ROOT = "/v1/ui/models-root"
INSTALL = "/v1/ui/models/install"
STATUS = "/v1/ui/models/install-status"
MODEL = "silero-vad"
CELL = pytest.mark.contract("fail/models_root_replacement")


class HeldStore(Store):
    """A store whose fetches wait for the test, and then end as it says."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.go_on = trio.Event()
        self.failure: Exception | None = None

    async def fetch(
        self, name: str, *, anew: bool = False, progress: Progress = no_progress
    ) -> Path:
        del name, anew
        progress(10, 100)
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        return self.home


class Staged:
    """Makes stores, and fails when it is told to."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.begins: Callable[[], None] = lambda: None

    def __call__(self, home: Path) -> Store:
        self.begins()
        if self.error is not None:
            raise self.error
        return HeldStore(home)


@asynccontextmanager
async def opened(
    open_world: OpenWorld, tmp_path: Path, stage: Callable[[Path], Store] = HeldStore, **more: Any
) -> AsyncIterator[tuple[World, Shelf]]:
    async with trio.open_nursery() as nursery:
        shelf = Shelf(HeldStore(tmp_path / "old"), stage=stage, nursery=nursery)
        settings = {"ui_management": True, **more}
        async with open_world(spec(), settings=settings, shelf=shelf) as world:
            yield world, shelf
        nursery.cancel_scope.cancel()


def pair(shelf: Shelf) -> tuple[object, object]:
    return shelf.store, shelf.installer


async def replace(world: World, path: object) -> Reply:
    return await world.client.post(ROOT, {"path": path})


async def shown(world: World) -> str:
    path: str = (await world.client.get(ROOT)).json()["path"]
    return path


@CELL
async def test_the_root_is_replaced_with_its_installer(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        assert await shown(world) == str(tmp_path / "old")
        before = pair(shelf)
        new = tmp_path / "deep" / "new"
        reply = await replace(world, str(new))
        assert reply.status == 200
        assert reply.json() == {"path": str(new)}
        assert await shown(world) == str(new)
        assert shelf.store.home == new
        assert shelf.installer is not before[1]
        assert os.listdir(new / "models") == []  # noqa: PTH208 - names, not paths
        started = shelf.install(MODEL)
        assert shelf.installer._store is shelf.store
        assert started.state == "fetching"


@CELL
@pytest.mark.parametrize(
    "path", ["", "relative/folder", "~/models", "/bad\0path", "/proc/nothing/here", 5, None]
)
async def test_a_root_that_cannot_be_used_is_refused(
    open_world: OpenWorld, tmp_path: Path, path: object
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        before = pair(shelf)
        reply = await replace(world, path)
        assert reply.status == 400
        assert reply.error()["param"] == "path"
        assert pair(shelf) == before


@CELL
async def test_a_file_and_a_folder_under_a_file_are_no_roots(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    async with opened(open_world, tmp_path) as (world, shelf):
        before = pair(shelf)
        for path in (file, file / "below"):
            assert (await replace(world, str(path))).status == 400
        assert pair(shelf) == before


@CELL
async def test_a_root_that_cannot_be_written_is_refused(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # A superuser may write anywhere, so the refusal is the test's.
    monkeypatch.setattr("paraudio.store._staging.tempfile.NamedTemporaryFile", refuse)
    async with opened(open_world, tmp_path) as (world, shelf):
        before = pair(shelf)
        reply = await replace(world, str(tmp_path / "new"))
        assert reply.status == 400
        assert "Permission denied" in reply.error()["message"]
        assert pair(shelf) == before
        assert not (tmp_path / "new").exists()


@CELL
@pytest.mark.parametrize("error", [RuntimeError("the constructor failed"), MemoryError()])
async def test_a_store_that_cannot_be_made_leaves_the_old_pair(
    open_world: OpenWorld, tmp_path: Path, error: Exception
) -> None:
    stage = Staged()
    async with opened(open_world, tmp_path, stage) as (world, shelf):
        stage.error = error
        before = pair(shelf)
        assert (await replace(world, str(tmp_path / "new"))).status == 500
        assert pair(shelf) == before
        assert await shown(world) == str(tmp_path / "old")
        assert not (tmp_path / "new").exists()
        stage.error = None
        assert (await replace(world, str(tmp_path / "new"))).status == 200


@CELL
async def test_the_root_stays_while_a_model_is_installed_or_fetched(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        before = pair(shelf)
        await world.client.post(INSTALL, {"id": MODEL})
        refused = await replace(world, str(tmp_path / "new"))
        assert refused.status == 409
        assert refused.error()["code"] == "conflict"
        assert pair(shelf) == before
        await world.client.post(f"{INSTALL}/stop", {"id": MODEL})
        await wait_all_tasks_blocked()
        with shelf.fetching() as store:
            assert store is before[0]
            assert (await replace(world, str(tmp_path / "new"))).status == 409
        assert (await replace(world, str(tmp_path / "new"))).status == 200


@CELL
async def test_a_fetch_that_begins_during_the_staging_keeps_the_old_pair(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    stage = Staged()
    async with opened(open_world, tmp_path, stage) as (world, shelf):
        before = pair(shelf)
        stage.begins = lambda: None if shelf.busy else void(shelf.install(MODEL))
        assert (await replace(world, str(tmp_path / "new"))).status == 409
        assert pair(shelf) == before
        assert not (tmp_path / "new").exists()


def void(_: object) -> None:
    """Forget a value."""


@CELL
async def test_two_replacements_at_once_are_one_and_a_refusal(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        calls = [
            world.client.start("POST", ROOT, {"path": str(tmp_path / name)}) for name in ("a", "b")
        ]
        for call in calls:
            await call.ended.wait()
        assert sorted(call.reply.status for call in calls) == [200, 409]
        (winner,) = [call for call in calls if call.reply.status == 200]
        assert str(shelf.store.home) == winner.reply.json()["path"]


@CELL
async def test_a_client_that_leaves_during_the_staging_changes_nothing(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = trio.Event()
    async with opened(open_world, tmp_path) as (world, shelf):
        before = pair(shelf)
        call = world.client.start("POST", ROOT, {"path": str(tmp_path / "new")})

        def hang_up(*_: object) -> None:
            trio.from_thread.run_sync(call.hang_up)
            trio.from_thread.run_sync(begun.set)

        monkeypatch.setattr("paraudio.store._staging._try_to_write", hang_up)
        await begun.wait()
        await call.ended.wait()
        assert pair(shelf) == before
        assert not (tmp_path / "new").exists()
        assert world.idle()


async def test_an_install_is_shown_while_it_runs_and_when_it_has_ended(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        assert (await world.client.get(STATUS)).json() == {"object": "list", "data": []}
        begun = await world.client.post(INSTALL, {"id": MODEL})
        assert begun.json()["state"] == "fetching"
        await wait_all_tasks_blocked()
        again = await world.client.post(INSTALL, {"id": MODEL})
        expected = {"id": MODEL, "done_bytes": 10, "total_bytes": 100, "error": None}
        assert again.json() == {**expected, "state": "fetching"}
        assert (await world.client.get(ROOT)).json()["busy"] is True
        store = shelf.store
        assert isinstance(store, HeldStore)
        store.go_on.set()
        await wait_all_tasks_blocked()
        (one,) = (await world.client.get(STATUS)).json()["data"]
        assert one == {**expected, "state": "installed"}
        assert (await world.client.get(ROOT)).json()["busy"] is False


async def test_an_install_that_fails_or_is_stopped_says_so(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path) as (world, shelf):
        store = shelf.store
        assert isinstance(store, HeldStore)
        nothing = await world.client.post(f"{INSTALL}/stop", {"id": MODEL})
        assert nothing.json() == {"id": MODEL, "stopped": False}
        await world.client.post(INSTALL, {"id": MODEL})
        stopped = await world.client.post(f"{INSTALL}/stop", {"id": MODEL})
        assert stopped.json() == {"id": MODEL, "stopped": True}
        await wait_all_tasks_blocked()
        assert (await world.client.get(STATUS)).json()["data"][0]["state"] == "stopped"
        store.failure = FetchError("no index answered")
        store.go_on.set()
        await world.client.post(INSTALL, {"id": MODEL})
        await wait_all_tasks_blocked()
        (one,) = (await world.client.get(STATUS)).json()["data"]
        assert (one["state"], one["error"]) == ("failed", "no index answered")


async def test_a_model_is_deleted_unless_it_is_loaded(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    delete = "/v1/ui/models/delete"
    async with opened(open_world, tmp_path) as (world, shelf):
        gone = await world.client.post(delete, {"id": MODEL})
        assert gone.json() == {"id": MODEL, "deleted": False}
        folder = shelf.store.place(MODEL)
        folder.mkdir(parents=True)
        (folder / "weights").write_text("x")
        kept = {"id": "v", "family": "simulated", "path": f"store:{MODEL}", "task": "tts"}
        assert (await world.client.post("/v1/models/load", kept)).status == 200
        refused = await world.client.post(delete, {"id": MODEL})
        assert refused.status == 409
        assert refused.error()["param"] == "id"
        assert (folder / "weights").exists()
        assert (await world.client.post("/v1/models/unload", {"id": "v"})).status == 200
        done = await world.client.post(delete, {"id": MODEL})
        assert done.json() == {"id": MODEL, "deleted": True}
        assert not folder.exists()
        builtin = await world.client.post(delete, {"id": "pocketsphinx-en"})
        assert (builtin.status, builtin.error()["param"]) == (400, "id")


@pytest.mark.parametrize("path", [INSTALL, f"{INSTALL}/stop", "/v1/ui/models/delete"])
async def test_a_model_that_the_catalogue_lacks_is_not_found(
    open_world: OpenWorld, tmp_path: Path, path: str
) -> None:
    async with opened(open_world, tmp_path) as (world, _):
        reply = await world.client.post(path, {"id": "nobody"})
        assert reply.status == 404
        assert reply.error()["param"] == "id"
        assert (await world.client.post(path, {"id": MODEL, "x": 1})).status == 400


@CELL
async def test_the_store_is_managed_only_where_management_is_on(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    async with opened(open_world, tmp_path, ui_management=False) as (world, shelf):
        before = pair(shelf)
        assert (await world.client.get(ROOT)).status == 403
        assert (await replace(world, str(tmp_path / "new"))).status == 403
        assert pair(shelf) == before


async def test_without_a_store_its_routes_are_not_found(
    open_world: OpenWorld, autojump_clock: MockClock
) -> None:
    async with open_world(settings={"ui_management": True}) as world:
        assert (await world.client.get(ROOT)).status == 404
