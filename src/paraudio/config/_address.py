"""The places that ``bind`` names: ``HOST:PORT``, ``unix:PATH``, ``inherited``."""

import os
import stat
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from paraudio.config._problems import refuse, shown

UNIX_PREFIX: Final = "unix:"
"""What the path of a Unix socket stands behind."""

INHERITED: Final = "inherited"
"""The sockets that a service manager passed to this process."""


def split_address(place: str) -> tuple[str, int]:
    """Split ``HOST:PORT``; an IPv6 address stands in brackets, no host is every interface.

    Raises:
        ValueError: It is not of that form.
    """
    host, colon, port = place.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address must stand in brackets")
    if not colon or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError("there must be a port, 0 to 65535")
    return host, int(port)


def checked_place(place: str) -> str:
    """Refuse a place that nothing can listen on."""
    if place == INHERITED:
        return place
    if place.startswith(UNIX_PREFIX):
        if not os.path.isabs(place.removeprefix(UNIX_PREFIX)):  # noqa: PTH117 - it is a string
            raise refuse(f"must name a Unix socket by its absolute path, not {shown(place)}")
        return place
    try:
        split_address(place)
    except ValueError as error:
        raise refuse(
            f"must be HOST:PORT, unix:PATH or inherited, not {shown(place)}: {error}"
        ) from None
    return place


def checked_places(places: Sequence[str]) -> tuple[str, ...]:
    """Refuse a place that is named twice: the second could not be listened on."""
    first: dict[object, int] = {}
    for index, place in enumerate(places):
        same = _identity(place)
        if same is not None and first.setdefault(same, index) != index:
            reason = f"must not be {shown(place)}, which bind[{first[same]}] is already"
            raise refuse(f"{reason}; keep one of them", index)
    return tuple(places)


def _identity(place: str) -> object:
    """What two spellings of a place have in common; None where it may be named again."""
    if place == INHERITED:
        return place
    if place.startswith(UNIX_PREFIX):
        return os.path.normpath(place.removeprefix(UNIX_PREFIX))
    host, port = split_address(place)
    try:
        host = str(ip_address(host))
    except ValueError:
        host = host.lower()
    return (host, port) if port else None  # each 0 takes another free port


def obstacle(place: str) -> str | None:
    """What stands where a Unix socket is to appear and is none, in words; None where nothing is."""
    if not place.startswith(UNIX_PREFIX):
        return None
    try:
        mode = os.lstat(place.removeprefix(UNIX_PREFIX)).st_mode
    except OSError:
        return None
    if stat.S_ISSOCK(mode):
        return None  # of a server that is dead, or else listening says that it lives
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a link" if stat.S_ISLNK(mode) else "a file"
