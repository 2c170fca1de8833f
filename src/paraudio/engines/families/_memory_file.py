"""A file that lies in memory, for libraries that only open paths."""

import os
import tempfile
from collections.abc import Iterable, Iterator
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
