"""Fetches that somebody asked for by name, and how they fare."""

import logging
from dataclasses import dataclass
from typing import Literal, TypeAlias

import trio

from paraudio.errors import ParaudioError
from paraudio.store._store import Store

log = logging.getLogger(__name__)

State: TypeAlias = Literal["fetching", "installed", "failed", "stopped"]


@dataclass(slots=True)
class Install:
    """One fetch.

    Attributes:
        name: The model of the store.
        state: How it stands.
        done: Bytes downloaded so far.
        total: Bytes to download, or None while that is unknown.
        error: Why it failed, or None.
    """

    name: str
    state: State = "fetching"
    done: int = 0
    total: int | None = None
    error: str | None = None


class Installer:
    """The fetches of one store, at most one a model, and how the last one of each ended.

    Args:
        store: Where models are brought.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._installs: dict[str, Install] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    @property
    def busy(self) -> bool:
        """Whether a fetch is under way."""
        return bool(self._scopes)

    def installs(self) -> list[Install]:
        """The last fetch of every model that somebody asked for."""
        return list(self._installs.values())

    def start(self, name: str, nursery: trio.Nursery) -> Install:
        """Begin to fetch a model; one that is being fetched already is left to that.

        Raises:
            ModelNotFoundError: There is none of that name.
        """
        self._store.entry(name)
        if name not in self._scopes:
            self._installs[name] = Install(name)
            self._scopes[name] = trio.CancelScope()
            nursery.start_soon(self._work, self._installs[name], self._scopes[name])
        return self._installs[name]

    def stop(self, name: str) -> bool:
        """Stop a fetch; the store is as it was before. Returns whether there was one."""
        scope = self._scopes.get(name)
        if scope is None:
            return False
        scope.cancel("somebody stopped the fetch")
        return True

    async def _work(self, install: Install, scope: trio.CancelScope) -> None:
        def progress(done: int, total: int | None) -> None:
            install.done, install.total = done, total

        try:
            with scope:
                await self._store.fetch(install.name, progress=progress)
                install.state = "installed"
        except ParaudioError as error:
            install.state, install.error = "failed", error.message
        except Exception as error:
            # Whatever it is, it costs this fetch only, and not the server that runs it.
            log.exception("the fetch of %s failed", install.name)
            install.state, install.error = "failed", f"it failed inside: {error!r}"
        finally:
            if install.state == "fetching":
                install.state = "stopped"
            del self._scopes[install.name]
