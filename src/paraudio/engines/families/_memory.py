"""Memory by hand: a file that lies in it, and giving back what was freed."""

import ctypes
import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_file(parts: Iterable[bytes | memoryview]) -> Iterator[str]:
    """A file with the parts as its content; it is gone when the block ends.

    On Linux it never touches a disk; elsewhere it lies in the folder for temporary files.

    Args:
        parts: The content, in pieces, which are written once.

    Yields:
        A path of the file, good in this process only.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("paraudio-model", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.TemporaryDirectory(prefix="paraudio-") as folder:
        path = Path(folder, "model")
        with path.open("wb") as file:
            file.writelines(parts)
        yield str(path)


def give_back() -> None:
    """Return freed memory to the system, where the C library would keep it for itself.

    After a model of 63 MB was freed, glibc kept 100 MB of it without this.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
