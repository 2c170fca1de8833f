"""Where connections come from: TCP, a Unix socket, or sockets that the service manager opened."""

import errno
import os
import socket
import ssl
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

from paraudio.errors import ConfigError

BACKLOG: Final = 1024
"""How many connections the system keeps until they are accepted."""

FIRST_INHERITED: Final = 3
"""The first descriptor that systemd passes."""

_PORT_TRIES: Final = 10


async def open_tcp(host: str, port: int) -> list[trio.SocketListener]:
    """Listen on every address of a host.

    Args:
        host: A name or an address, IPv4 or IPv6; empty for every interface.
        port: A port; 0 for any free one, the same for every address.

    Raises:
        OSError: An address cannot be used: taken, forbidden, or not of this machine.
        ConfigError: The host has no address.
    """
    flags = socket.AI_PASSIVE
    try:
        found = await trio.socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=flags
        )
    except socket.gaierror as error:
        raise ConfigError(
            f"host {host!r} has no address: {error.strerror}", param="host"
        ) from error
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    for attempt in range(_PORT_TRIES):
        try:
            return await _bind_all(addresses, port)
        except OSError as error:
            # A free port of the first address may be taken on the second one.
            if port or error.errno != errno.EADDRINUSE or attempt == _PORT_TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def _bind_all(
    addresses: Sequence[tuple[socket.AddressFamily, tuple[object, ...]]], port: int
) -> list[trio.SocketListener]:
    sockets: list[trio.socket.SocketType] = []
    try:
        for family, address in addresses:
            try:
                bound = trio.socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT and len(addresses) > 1:
                    continue  # a machine without IPv6 still has names with IPv6 addresses
                raise
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            host, _, *rest = address
            await bound.bind((host, port, *rest))
            port = bound.getsockname()[1]
            bound.listen(BACKLOG)
        return [trio.SocketListener(bound) for bound in sockets]
    except BaseException:
        for bound in sockets:
            bound.close()
        raise


async def open_unix(path: str | os.PathLike[str], *, mode: int = 0o600) -> trio.SocketListener:
    """Listen on a Unix socket; a socket that a dead process left there is replaced.

    Args:
        path: Where the socket is to appear.
        mode: Who may connect, as the permission bits of a file.

    Raises:
        OSError: Another process listens there, or something else is in the way.
    """
    place = trio.Path(path)
    await _remove_stale(place)
    bound = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await bound.bind(str(place))
        await place.chmod(mode)
        bound.listen(BACKLOG)
        return trio.SocketListener(bound)
    except BaseException:
        bound.close()
        raise


async def _remove_stale(place: trio.Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK((await place.lstat()).st_mode):
            return  # binding says what is wrong
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                await probe.connect(str(place))
            except ConnectionRefusedError:
                await place.unlink()


def inherited_sockets() -> list[trio.SocketListener]:
    """The listening sockets that a service manager passed to this process; none if it did not.

    Follows systemd's protocol: ``LISTEN_PID`` and ``LISTEN_FDS``, descriptors from 3 on. The
    variables are taken away, so that a child does not take them for its own.

    Raises:
        ConfigError: A descriptor is no listening stream socket.
    """
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    return [_inherited(number) for number in range(FIRST_INHERITED, FIRST_INHERITED + int(count))]


def _inherited(number: int) -> trio.SocketListener:
    refusal = f"descriptor {number}, passed in LISTEN_FDS, is no listening stream socket"
    try:
        os.set_inheritable(number, False)
        passed = socket.socket(fileno=number)
    except OSError as error:
        raise ConfigError(refusal, param="LISTEN_FDS") from error
    try:
        return trio.SocketListener(trio.socket.from_stdlib_socket(passed))
    except ValueError as error:
        passed.close()
        raise ConfigError(refusal, param="LISTEN_FDS") from error


def tls_context(cert: str, key: str) -> ssl.SSLContext:
    """What a server needs to speak TLS 1.2 or newer, with HTTP/2 and HTTP/1.1 on offer.

    Args:
        cert: Path of the certificate chain, PEM.
        key: Path of its key, PEM.

    Raises:
        ConfigError: One of them cannot be read, or they do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        hint = "; both must be PEM, and belong together" if isinstance(error, ssl.SSLError) else ""
        raise ConfigError(
            f"the certificate {cert!r} and the key {key!r} cannot be used: {error}{hint}",
            param="tls",
        ) from error
    return context
