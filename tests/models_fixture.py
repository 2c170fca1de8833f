"""A pytest plugin: the real models, fetched once into a store that later runs find again."""

import os
from pathlib import Path

import pytest
import trio

from paraudio.store import Store


@pytest.fixture(scope="session")
def model_store(request: pytest.FixtureRequest) -> Store:
    """A store with every model of the catalogue in it.

    It lies in ``PARAUDIO_HOME`` where that is set, else in pytest's cache folder, so that tests
    leave the user's own store alone.
    """
    assert request.config.cache is not None
    home = os.environ.get("PARAUDIO_HOME") or request.config.cache.mkdir("paraudio-home")
    store = Store(Path(home))
    trio.run(_fetch_all, store)
    return store


async def _fetch_all(store: Store) -> None:
    for entry in store.entries():
        await store.fetch(entry.name)
