"""Files that are written whole or not at all."""

import errno
import os
import secrets
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from paraudio.cli._signals import Interrupted

_KERNEL: Final = Path("/proc")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one step: on an error, and on a signal, ``path`` is what it was before.

    It is written beside its place, in the same folder, and renamed. What is no ordinary file (a
    pipe, a device, an open file of this process such as ``/dev/stdout``) is written directly, and
    so is a file that may be written in a folder that may not. A link goes on to lead to its file.

    Raises:
        OSError: It cannot be written.
        Interrupted: SIGTERM or SIGHUP came, and nobody had asked to have it ignored or handled.
    """
    place = _end_of_links(path)
    if place is None or (place.exists() and not place.is_file()):
        path.write_bytes(data)
        return
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    beside = place.with_name(f".paraudio-{secrets.token_hex(8)}.part")
    with _raising():
        try:
            descriptor = _created(beside, place)
            if descriptor is None:
                place.write_bytes(data)
                return
            with os.fdopen(descriptor, "wb") as sink:
                sink.write(data)
                sink.flush()
                # Some file systems find out only here that there is no space.
                os.fsync(sink.fileno())
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Find out that a file cannot be written, before there is anything to write.

    Raises:
        OSError: Its folder is missing or closed, or it is one that may not be written, or a folder.
    """
    place = _end_of_links(path)
    if place is None:
        return
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(place))
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def _end_of_links(path: Path) -> Path | None:
    """Where a chain of links leads; None where that is an open file of a process.

    The kernel shows those as links to a name, and a new file of that name would not be the file
    that is open.
    """
    for _ in range(40):
        try:
            path = path.parent.resolve() / path.name
        except RuntimeError:  # a ring of links: writing says so as an OSError
            return None
        if path.is_relative_to(_KERNEL):
            return None
        if not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    return None


def _created(beside: Path, place: Path) -> int | None:
    """Make the file beside; None where that is not allowed and ``place`` is there to be written."""
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except PermissionError:
        if place.exists():
            return None
        raise
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))
    return descriptor


@contextmanager
def _raising() -> Iterator[None]:
    """Let the signals that would end the process at once raise instead, so that it cleans up."""

    def leave(number: int, frame: object) -> None:  # noqa: ARG001 - the interpreter's shape
        raise Interrupted(number)

    replaced = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
