"""A socket's stream that can be ended from outside, and that shows when it is stuck."""

import os
import select
import socket
import struct
from contextlib import suppress
from typing import Final

import trio

from paraudio.transport._limits import LINGER_BYTES, READ_SIZE

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends a reset and frees everything at once."""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A machine that vanished without a word is noticed within two minutes."""


class GuardedStream(trio.abc.Stream):
    """The bytes of one connection, below TLS if there is TLS.

    Attributes:
        socket: The socket.
        sending_since: When the socket last took a part of what is being sent; None if nothing
            waits.
        linger_s: How long `aclose` reads and drops what the client still sends.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.socket = stream.socket
        self.sending_since: float | None = None
        self.linger_s = 0.0
        self._filled = False
        if self.socket.family in (socket.AF_INET, socket.AF_INET6):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    self.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def readable(self) -> bool:
        """Whether something waits to be read, or the end of it."""
        return self._is_ready(select.POLLIN)

    def writable(self) -> bool:
        """Whether the socket takes something, or is broken."""
        return self._is_ready(select.POLLOUT)

    def _is_ready(self, event: int) -> bool:
        if self.socket.fileno() == -1:
            return False
        poll = select.poll()
        poll.register(self.socket.fileno(), event)
        return bool(poll.poll(0))

    def send_now(self, data: bytes) -> int:
        """Give the socket what it takes at once; returns how many bytes that was, maybe none.

        Raises:
            BrokenResourceError: The connection is gone.
        """
        try:
            return os.write(self.socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything; cancelled or on an error, a part may have been sent."""
        try:
            with memoryview(data) as view:
                sent = 0
                while sent < len(view):
                    self.sending_since = trio.current_time()
                    sent += await self.socket.send(view[sent:])
        except OSError as error:
            raise trio.BrokenResourceError from error
        finally:
            self.sending_since = None

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket takes something."""
        await self.socket.wait_writable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes; none at all means that the client has closed its side."""
        size = max_bytes or READ_SIZE
        while True:
            # A read that came back full has left more; after any other there is nothing yet, and a
            # try would only cost.
            if self._filled:
                await trio.lowlevel.checkpoint()
            elif self.socket.fileno() == -1:
                raise trio.ClosedResourceError
            else:
                await trio.lowlevel.wait_readable(self.socket)
            try:
                data = os.read(self.socket.fileno(), size)
            except BlockingIOError:
                self._filled = False
            except OSError as error:
                raise trio.BrokenResourceError from error
            else:
                self._filled = len(data) == size
                return data

    def abort(self) -> None:
        """End the connection now, with a reset; whoever waits for the socket gets an error."""
        if self.socket.fileno() != -1:
            with suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.socket.close()

    async def aclose(self) -> None:
        """Say that nothing more comes, let the client finish if ``linger_s`` says so, and close."""
        try:
            if self.linger_s > 0 and self.socket.fileno() != -1:
                with trio.move_on_after(self.linger_s), suppress(OSError, trio.ClosedResourceError):
                    await self._drop_the_rest()
        finally:
            self.socket.close()
        await trio.lowlevel.checkpoint()

    async def _drop_the_rest(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        while left > 0 and (data := await self.socket.recv(READ_SIZE)):
            left -= len(data)
