"""Models of the store: ``store:NAME`` in a path becomes a folder, fetched at the first load."""

import dataclasses
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from paraudio.engines import Family, Load
from paraudio.engines.isolation import AbandonedCall, Inspection, Isolation, ModelHandle
from paraudio.errors import BackendError, InvalidRequestError, LoadError, ParaudioError
from paraudio.server._progress import Progress
from paraudio.spec import ModelSpec
from paraudio.store import Shelf, Store, default_home

SCHEME: Final = "store:"
"""What a path starts with that names a model of the store."""


async def is_here(shelf: Shelf, spec: ModelSpec) -> bool:
    """Whether a model's files need no fetch.

    Raises:
        ParaudioError: The store has no such model.
    """
    if not spec.path.startswith(SCHEME):
        await trio.lowlevel.checkpoint()
        return True
    find, name = shelf.store.path, spec.path.removeprefix(SCHEME)
    # It reads sizes of files, and nobody need wait for a disk that does not answer.
    return await trio.to_thread.run_sync(find, name, abandon_on_cancel=True) is not None


def installs_cut(shelf: Shelf) -> list[str]:
    """One line for each install that goes on while the server ends."""
    going = [each for each in shelf.installer.installs() if each.state == "fetching"]
    return [f"the install of {each.name} was cut off" for each in going]


def _repair(store: Store, name: str) -> str:
    """The command that repairs a model of this store."""
    command = f"paraudio pull {shlex.quote(name)}"
    if store.home == default_home():
        return command
    return f"PARAUDIO_HOME={shlex.quote(str(store.home))} {command}"


class StoredModels:
    """An isolation that fetches what a load needs before the one behind it runs the load.

    The fetch is part of the load: it runs under the same lease, is cancelled with it, and its
    failure is a failed load. Everything else passes through.
    """

    def __init__(self, inner: Isolation, shelf: Shelf, progress: Progress) -> None:
        self._inner = inner
        self._shelf = shelf
        self._progress = progress

    async def inspect(self, family: Family, load: Load) -> Inspection:
        """Inspect the model, fetched first if it has to be."""
        found = await self._resolved(load)
        async with self._explaining(load):
            return await self._inner.inspect(family, found)

    async def load(self, family: Family, load: Load) -> ModelHandle:
        """Load the model, fetched first if it has to be."""
        found = await self._resolved(load)
        async with self._explaining(load):
            return await self._inner.load(family, found)

    def abandoned_of(self, model_id: str) -> Sequence[AbandonedCall]:
        """What the isolation behind this one had to abandon of one model."""
        return self._inner.abandoned_of(model_id)

    def abandoned(self) -> list[str]:
        """What the isolation behind this one had to abandon."""
        return self._inner.abandoned()

    @asynccontextmanager
    async def _explaining(self, load: Load) -> AsyncIterator[None]:
        """Add to a failure of a stored model which files are damaged, and what repairs them.

        Only a failure is worth reading the files whole. Cancelled meanwhile: the load is, too.
        """
        store = self._shelf.store
        try:
            yield
        except (BackendError, InvalidRequestError) as error:
            name = load.path.removeprefix(SCHEME)
            if name != load.path and (wrong := await store.damaged(name)):
                verb = "is" if len(wrong) == 1 else "are"
                error.message += (
                    f"; {', '.join(wrong)} {verb} damaged: `{_repair(store, name)}` mends that"
                )
                error.args = (error.message,)
            raise

    async def _resolved(self, load: Load) -> Load:
        if not load.path.startswith(SCHEME):
            return load
        try:
            path = await self._fetched(load.path.removeprefix(SCHEME))
        except ParaudioError:
            raise
        except Exception as error:  # nobody behind a load is prepared for anything else
            raise LoadError(f"model {load.model_id!r}: its fetch failed: {error!r}") from error
        return dataclasses.replace(load, path=str(path), settled=True)

    async def _fetched(self, name: str) -> Path:
        with self._shelf.fetching() as store:
            path = store.path(name)
            if path is None:
                with self._progress(name) as report:
                    path = await store.fetch(name, progress=report)
            return path
