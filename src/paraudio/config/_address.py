"""The places that ``bind`` names: ``HOST:PORT``, ``unix:PATH``, ``inherited``."""

import os
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
