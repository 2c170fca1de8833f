"""A model of the store that fails to load is told what is wrong with its files."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.store.fake import WEIGHTS, FakeModel, build

from paraudio.engines import Family, Load
from paraudio.engines.catalog import families
from paraudio.engines.isolation import (
    AbandonedCall,
    Inspection,
    Isolation,
    ModelHandle,
    open_thread_isolation,
)
from paraudio.errors import (
    BackendCrashedError,
    InvalidRequestError,
    LoadError,
    ParaudioError,
    ServerBusyError,
)
from paraudio.server import StoredModels
from paraudio.store import Shelf, Store

LOAD = Load(
    path="store:fake",
    task="tts",
    mode="offline",
    config=None,
    weight=None,
    options={},
    session_options={},
    model_id="voice",
)


class Failing:
    """An isolation in which everything fails."""

    def __init__(self, error: Callable[[], ParaudioError]) -> None:
        self._error = error
        self.asked: list[tuple[str, str]] = []
        self.loads: list[Load] = []

    async def inspect(self, family: Family, load: Load) -> Inspection:
        self.asked.append((family.name, load.path))
        raise self._error()

    async def load(self, family: Family, load: Load) -> ModelHandle:
        self.asked.append((family.name, load.path))
        self.loads.append(load)
        raise self._error()

    def abandoned_of(self, model_id: str) -> Sequence[AbandonedCall]:
        assert model_id
        return ()

    def abandoned(self) -> list[str]:
        return []


@pytest.fixture
def fake(tmp_path: Path) -> FakeModel:
    return build(tmp_path / "links")


@pytest.fixture
async def store(tmp_path: Path, fake: FakeModel, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with the fake model in it, which is the user's own one."""
    monkeypatch.setenv("PARAUDIO_HOME", str(tmp_path / "home"))
    store = Store(catalogue=fake.catalogue)
    await store.install(fake.wheel)
    return store


def failing(store: Store, error: Callable[[], ParaudioError]) -> StoredModels:
    return over(Failing(error), store)


def over(inner: Isolation, store: Store) -> StoredModels:
    return StoredModels(inner, Shelf(store), lambda _: nullcontext(lambda *_: None))


@pytest.mark.parametrize(
    "error",
    [
        lambda: LoadError("it failed"),
        lambda: BackendCrashedError("it failed"),
        lambda: InvalidRequestError("it failed", param="path"),
    ],
)
@pytest.mark.parametrize("step", ["load", "inspect"])
async def test_a_load_that_fails_of_a_damaged_file_names_the_command_that_mends_it(
    store: Store, error: Callable[[], ParaudioError], step: str
) -> None:
    store.place("fake").write_bytes(WEIGHTS.swapcase())
    family = families()["simulated"]
    with pytest.raises(type(error())) as caught:
        await getattr(failing(store, error), step)(family, LOAD)
    told = "it failed; weights.onnx is damaged: `paraudio pull fake` mends that"
    assert caught.value.message == str(caught.value) == told
    assert caught.value.param == error().param


async def test_the_command_names_a_store_that_is_not_the_users_own(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.place("fake").write_bytes(WEIGHTS.swapcase())
    monkeypatch.setenv("PARAUDIO_HOME", str(tmp_path / "other"))
    with pytest.raises(LoadError, match=f"`PARAUDIO_HOME={store.home} paraudio pull fake`"):
        await failing(store, lambda: LoadError("it failed")).load(families()["simulated"], LOAD)


async def test_a_load_that_fails_with_whole_files_blames_none(store: Store) -> None:
    inner = Failing(lambda: LoadError("it failed"))
    with pytest.raises(LoadError, match=r"^it failed$"):
        await over(inner, store).load(families()["simulated"], LOAD)
    assert inner.asked == [("simulated", str(store.place("fake")))]


async def test_only_files_of_the_store_are_known_not_to_change(store: Store) -> None:
    inner = Failing(lambda: LoadError("it failed"))
    own = dataclasses.replace(LOAD, path=str(store.place("fake")))
    for load in (LOAD, own):
        with pytest.raises(LoadError):
            await over(inner, store).load(families()["simulated"], load)
    assert [load.settled for load in inner.loads] == [True, False]
    assert len({load.path for load in inner.loads}) == 1


async def test_what_is_no_failure_of_the_backend_blames_no_file(store: Store) -> None:
    store.place("fake").write_bytes(WEIGHTS.swapcase())
    with pytest.raises(ServerBusyError, match=r"^busy$"):
        await failing(store, lambda: ServerBusyError("busy")).load(families()["simulated"], LOAD)


async def test_a_real_family_that_cannot_read_its_damaged_file_is_explained(store: Store) -> None:
    store.place("fake").write_bytes(WEIGHTS.swapcase())
    async with open_thread_isolation() as threads:
        with pytest.raises(ParaudioError, match=r"weights\.onnx is damaged"):
            await over(threads, store).load(families()["piper_tts"], LOAD)


async def test_a_fetch_that_fails_unforeseen_is_a_failed_load(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> Path:
        raise RuntimeError("can't start new thread")

    await store.remove("fake")
    monkeypatch.setattr(Store, "fetch", refuse)
    async with open_thread_isolation() as threads:
        stored = StoredModels(threads, Shelf(store), lambda _: nullcontext(lambda *_: None))
        with pytest.raises(LoadError, match="model 'voice': its fetch failed: RuntimeError"):
            await stored.load(families()["simulated"], LOAD)
