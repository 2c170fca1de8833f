"""The journal's file: claimed by one process, and the journals before it kept.

The claim is a lock that the system lets go of with the last descriptor, however the process ends.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from paraudio.errors import ConfigError
from paraudio.journal._format import HEADER_BEGINS

log = logging.getLogger(__name__)

KEPT: Final = 9
"""Journals of earlier processes that are kept."""
_FLAGS: Final = os.O_APPEND | os.O_CLOEXEC


def open_file(path: str) -> int:
    """Open the file of a journal that begins; nothing is moved unless that succeeds.

    An empty file is used as it is. One that holds a journal becomes ``PATH.1``, the one that was
    there before ``PATH.2``, and so on up to ``PATH.9``. What is no file (a pipe, a terminal) is
    only opened.

    Returns:
        A descriptor; the file is empty, and locked for as long as it is open.

    Raises:
        ConfigError: Another process writes it, or it holds something else than a journal.
        OSError: It cannot be opened, read or moved.
    """
    if Path(path).exists() and not Path(path).is_file():
        return os.open(path, os.O_WRONLY | _FLAGS)
    file = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o640)
    try:
        _claim(file, path)
        if _is_empty(file, path):
            return file
        _move(path)
        fresh = _new(path)
    except BaseException:
        os.close(file)
        raise
    os.close(file)  # only now: until the new file is locked, the old one keeps others out
    return fresh


def _new(path: str) -> int:
    """Create the file, which nobody else may have created meanwhile."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o640)
    except FileExistsError:
        raise _in_use(path) from None
    try:
        _claim(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _claim(file: int, path: str) -> None:
    """Lock the file, which must still be the one that the path names."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path) from None
    except OSError as error:  # some network file systems have no locks
        log.warning("the journal %s cannot be locked: %s", path, error.strerror)
    if not os.path.samestat(os.fstat(file), Path(path).stat()):
        raise _in_use(path)  # it was moved away by a process that begins a journal right now


def _is_empty(file: int, path: str) -> bool:
    """Whether the file holds nothing; what it holds otherwise must be a journal."""
    begins = os.pread(file, len(HEADER_BEGINS), 0)
    if not begins:
        return True
    if begins != HEADER_BEGINS:
        raise ConfigError(
            f"the file {path!r} is no journal and is left as it is; "
            "name one that does not exist, is empty or holds a journal",
            param="journal",
        )
    return False


def _move(path: str) -> None:
    """Make room: each journal of before moves one on, as far as the first free number."""
    free = next((n for n in range(1, KEPT) if not os.path.lexists(f"{path}.{n}")), KEPT)
    for number in range(free, 1, -1):
        Path(f"{path}.{number - 1}").replace(f"{path}.{number}")
    Path(path).replace(f"{path}.1")


def _in_use(path: str) -> ConfigError:
    return ConfigError(
        f"the journal {path!r} is in use by another process; each server needs its own",
        param="journal",
    )
