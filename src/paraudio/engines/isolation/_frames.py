"""The server's end of the wire to a worker: frames over a trio socket."""

import os

import trio

from paraudio.engines.worker._wire import (
    ANCILLARY,
    SHARE_FROM,
    Dumped,
    Frame,
    descriptor_in,
    dump,
    receiving,
)


async def send_message(sock: trio.socket.SocketType, message: object) -> None:
    """Send a message.

    Raises:
        ConnectionError: The other end is gone.
        OSError: The system could not send it, or not all of it.
        Exception: Something in the message cannot be pickled; nothing was sent.

    Cancelled: part of the message may have been sent; the connection is of no more use.
    """
    frame = await _framed(dump(message))
    try:
        first, *others = frame.parts
        sent = await sock.sendmsg([first], frame.ancillary)
        for part in (first[sent:], *others):
            await _send_all(sock, part)
    finally:
        frame.close()


async def receive_message(sock: trio.socket.SocketType) -> object:
    """Receive a message.

    Raises:
        EOFError: The other end is gone.
        OSError: The same, or there was no room for what came beside the socket.

    Cancelled: part of a message may be lost; the connection is of no more use.
    """
    steps = receiving()
    want = next(steps)
    try:
        while True:
            descriptor = await _fill(sock, want)
            try:
                want = steps.send(descriptor)
            except StopIteration as done:
                return done.value
    finally:
        steps.close()


async def _framed(dumped: Dumped) -> Frame:
    """Make the frame; filling a memory file is work for a thread."""
    if dumped.nbytes < SHARE_FROM:
        return dumped.frame()
    return await trio.to_thread.run_sync(dumped.frame)


async def _send_all(sock: trio.socket.SocketType, part: memoryview) -> None:
    while part:
        part = part[await sock.send(part) :]


async def _fill(sock: trio.socket.SocketType, want: memoryview) -> int | None:
    descriptor = None
    try:
        while want:
            count, found = await _receive(sock, want)
            descriptor = descriptor if found is None else found
            want = want[count:]
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    return descriptor


async def _receive(sock: trio.socket.SocketType, want: memoryview) -> tuple[int, int | None]:
    count, ancillary, _, _ = await sock.recvmsg_into([want], ANCILLARY)
    if not count:
        raise EOFError
    return count, descriptor_in(ancillary)
