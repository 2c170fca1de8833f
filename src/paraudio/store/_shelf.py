"""The store in use: a pair of store and installer that is replaced whole, while models go on."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from paraudio.errors import ConflictError
from paraudio.store._installer import Install, Installer
from paraudio.store._staging import prepared
from paraudio.store._store import Store


class Pair(NamedTuple):
    """A store, and the installer that works in it and in no other."""

    store: Store
    installer: Installer


class Shelf:
    """Holds the pair that is in use. Who needs the store asks for it each time.

    Args:
        store: The first one; None takes the default home.
        stage: Makes the store of a home; a test's may fail.
        nursery: Where installs run; None allows none.
    """

    # Invariants: ``_pair`` changes in one assignment, and only while nothing is fetched.

    def __init__(
        self,
        store: Store | None = None,
        *,
        stage: Callable[[Path], Store] = Store,
        nursery: trio.Nursery | None = None,
    ) -> None:
        self._pair = _pair(store or Store())
        self._stage = stage
        self._nursery = nursery
        self._fetches = 0
        self._replacing = False

    @property
    def store(self) -> Store:
        """The store in use now."""
        return self._pair.store

    @property
    def installer(self) -> Installer:
        """The installer in use now."""
        return self._pair.installer

    @property
    def busy(self) -> bool:
        """Whether something is being brought into the store."""
        return self._fetches > 0 or self._pair.installer.busy

    @contextmanager
    def fetching(self) -> Iterator[Store]:
        """The store, which is not replaced before the block ends."""
        self._fetches += 1
        try:
            yield self._pair.store
        finally:
            self._fetches -= 1

    def install(self, name: str) -> Install:
        """Begin to fetch a model; it goes on when the caller has left.

        Raises:
            ModelNotFoundError: There is none of that name.
            RuntimeError: This shelf has nowhere to run it.
        """
        if self._nursery is None:
            raise RuntimeError("this shelf was opened without a place for installs")
        return self._pair.installer.start(name, self._nursery)

    async def replace(self, path: str) -> Store:
        """Use another home from now on.

        The new pair is made whole before it takes the old one's place, in one step. On any error,
        and cancelled, the old pair stays and nothing of the new one is left. What is loaded
        stays loaded; the next load looks into the new store.

        Args:
            path: The new home, absolute; made if it is missing.

        Raises:
            InvalidRequestError: It cannot be used; ``param`` is ``path``.
            DiskFullError: There is no space to make it.
            ConflictError: A fetch is under way, or another replacement.
        """
        self._check_quiet()
        if self._replacing:
            raise ConflictError("the models root is being replaced by another request")
        self._replacing = True
        try:
            with ExitStack() as undo:
                home = await trio.to_thread.run_sync(undo.enter_context, prepared(path))
                await trio.lowlevel.checkpoint_if_cancelled()
                staged = _pair(self._stage(home))
                self._check_quiet()
                self._pair = staged
        finally:
            self._replacing = False
        return staged.store

    def _check_quiet(self) -> None:
        if self.busy:
            raise ConflictError(
                "the models root cannot be replaced while a model is fetched or installed"
            )


@asynccontextmanager
async def open_shelf(store: Store | None = None) -> AsyncIterator[Shelf]:
    """A shelf whose installs end with the block."""
    async with trio.open_nursery() as nursery:
        yield Shelf(store, nursery=nursery)
        nursery.cancel_scope.cancel("the server ends")


def _pair(store: Store) -> Pair:
    return Pair(store, Installer(store))
