"""Where the server listens: what ``bind`` names; else what it inherited; else host and port."""

import errno
import os
import stat
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from paraudio.config import INHERITED, UNIX_PREFIX, Settings, split_address
from paraudio.errors import ConfigError
from paraudio.transport import inherited_sockets, open_tcp, open_unix


@asynccontextmanager
async def open_listeners(settings: Settings) -> AsyncIterator[list[trio.SocketListener]]:
    """Open the listeners; leaving closes them and takes the Unix sockets off the file system.

    Sockets that a service manager passed are used where ``bind`` says ``inherited``, or nothing.

    Raises:
        ConfigError: An address cannot be had; the message says which and why.
    """
    with ExitStack() as closing:
        listeners: list[trio.SocketListener] = []
        passed = inherited_sockets()
        for place in settings.bind or ([INHERITED] if passed else [""]):
            opened = passed if place == INHERITED else await _open(settings, place, closing)
            if not opened:
                raise ConfigError("no socket was inherited (LISTEN_FDS)", param="bind")
            for listener in opened:
                closing.callback(listener.socket.close)
            listeners += opened
        yield listeners


async def _open(settings: Settings, place: str, closing: ExitStack) -> list[trio.SocketListener]:
    """Open one place of ``bind``; an empty one is host and port."""
    address = place or f"{settings.host}:{settings.port}"
    try:
        if place.startswith(UNIX_PREFIX):
            path = place.removeprefix(UNIX_PREFIX)
            listener = await open_unix(path)
            closing.callback(_remove, Path(path), (await trio.Path(path).stat()).st_ino)
            return [listener]
        host, port = split_address(place) if place else (settings.host, settings.port)
        return await open_tcp(host, port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address}: {error.strerror or error}{_hint(error, place)}",
            param="bind" if place else "port",
        ) from error


def _hint(error: OSError, place: str) -> str:
    """What is behind an error, and what would do."""
    if error.errno == errno.EADDRINUSE:
        if place:  # places may overlap without being equal, as ":80" and "127.0.0.1:80" do
            return "; another program, or another place of bind, listens there"
        free = "--port takes another one, and with 0 any that is free"
        return f"; another program listens there; {free}"
    if error.errno == errno.EACCES and not place.startswith(UNIX_PREFIX):
        return "; ports below 1024 need a privilege"
    return ""


def _remove(path: Path, inode: int) -> None:
    """Take a socket off the file system, unless another server has put its own there."""
    with suppress(OSError):
        found = path.lstat()
        if stat.S_ISSOCK(found.st_mode) and found.st_ino == inode:
            path.unlink()


def urls_of(settings: Settings, listeners: list[trio.SocketListener]) -> list[str]:
    """The address of each listener, in their order: a URL, or ``unix:PATH``."""
    scheme = "http" if settings.tls is None else "https"
    return [_url_of(scheme, listener.socket.getsockname()) for listener in listeners]


def _url_of(scheme: str, address: Any) -> str:
    if isinstance(address, str | bytes):
        return f"{UNIX_PREFIX}{os.fsdecode(address)}"
    host, port = address[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
