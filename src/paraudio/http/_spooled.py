"""What the disk refuses while an upload is kept there, as an error with its own answer."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from paraudio.errors import InsufficientStorageError, StorageError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def spooled() -> Iterator[None]:
    """Whatever the block does with files of uploads.

    Raises:
        InsufficientStorageError: The folder for temporary files is full, or its quota is used up.
        StorageError: A file cannot be made, written or read there for another reason.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in _FULL:
            raise InsufficientStorageError(
                f"there is no room for this upload in the server's {_folder()}: {why}; make room "
                "there, or start the server with TMPDIR set to a folder that has more"
            ) from error
        raise StorageError(
            f"this upload cannot be kept in the server's {_folder()}: {why}; TMPDIR names the "
            "folder"
        ) from error


def _folder() -> str:
    """The folder in words; where Python found none that can be written to, without its name."""
    try:
        return f"temporary folder {tempfile.gettempdir()}"
    except OSError:
        return "temporary folder"
