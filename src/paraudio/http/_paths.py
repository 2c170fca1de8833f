"""Files of the server that a request may name: only those inside the allowed folders."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from paraudio.errors import InvalidRequestError, PayloadTooLargeError

_CHUNK: Final = 2**20


def read_allowed(path: str, roots: Iterable[str], *, limit: int, param: str) -> bytes:
    """Read a file inside one of the allowed folders; blocking.

    What is refused is refused in the same words whether it exists or not.

    Args:
        path: Absolute; symbolic links are followed, and judged by where they lead.
        roots: The allowed folders, absolute.
        limit: The largest size, in bytes; 0 is no bound.
        param: The field that holds the path, for the error.

    Raises:
        InvalidRequestError: It is no ordinary file there, or cannot be read.
        PayloadTooLargeError: It is larger than ``limit``.
    """
    wants = (
        f"{param} must be the absolute path of a file inside a folder that this server allows "
        "(allowed_paths)"
    )
    try:
        found = _resolved(path)
        if not any(_holds(root, found) for root in roots):
            raise InvalidRequestError(wants, param=param)
        data = _read(found, limit)
    except (OSError, ValueError) as error:
        raise InvalidRequestError(wants, param=param) from error
    if data is None:
        raise PayloadTooLargeError(f"{param} names a file of more than {limit} bytes", param=param)
    return data


def _holds(root: str, path: Path) -> bool:
    """Whether a folder holds a path; one that is not there holds nothing."""
    try:
        return path.is_relative_to(_resolved(root))
    except (OSError, ValueError):
        return False


def _resolved(path: str) -> Path:
    """Where a path leads, with every link and ``..`` followed.

    Raises:
        OSError: It leads nowhere.
        ValueError: It is relative, or holds a NUL.
    """
    given = Path(path)
    if not given.is_absolute():
        raise ValueError("a relative path")
    try:
        return given.resolve(strict=True)
    except RuntimeError as error:
        raise ValueError("a link that leads to itself") from error  # as 3.12 and older tell it


def _read(path: Path, limit: int) -> bytes | None:
    """The whole of an ordinary file; None where it is over the limit."""
    # Not blocking, so that a pipe cannot hold the thread; no link, as the path has none left.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not an ordinary file")
        if limit and status.st_size > limit:
            return None
        data = file.read(limit + 1 if limit else -1)
    return None if limit and len(data) > limit else data
