"""Making a folder ready to be a store's home, or leaving everything as it was; blocking code."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paraudio.errors import InvalidRequestError
from paraudio.store._errors import DiskFullError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def prepared(given: str) -> Iterator[Path]:
    """A home that exists and can be written; on an error in the block, what was made is removed.

    Args:
        given: An absolute path. Folders that are missing are made.

    Raises:
        InvalidRequestError: It cannot be used; ``param`` is ``path``.
        DiskFullError: There is no space left.
    """
    home = _checked(given)
    made: list[Path] = []
    try:
        try:
            _make(home / "models", made)
            _try_to_write(home / "models")
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFullError(f"the disk that holds {home} is full") from error
            raise _unusable(given, f"it cannot be used: {error.strerror}") from error
        yield home
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _checked(given: str) -> Path:
    if "\0" in given:
        raise _unusable(given, "it has a NUL character")
    home = Path(given)
    if not home.is_absolute():
        raise _unusable(given, "it is not absolute")
    return home


def _make(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _try_to_write(folder: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".try-"):
        pass


def _unusable(given: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"path must be an absolute path of a folder that can be written; {given!r}: {why}",
        param="path",
    )
