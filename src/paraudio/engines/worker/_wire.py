"""Messages over a socket: pickles, with the arrays beside them.

A frame is a head, the sizes of its buffers, a pickle (protocol 5), and the buffers themselves:
behind the pickle, or, where they are very large and the system can, in a memory file whose
descriptor travels with the head. The receiver maps that file, so that sound is copied once.

Both ends are our own processes, joined by a socket pair that nothing else can reach; that is what
makes pickles safe here.
"""

import array
import errno
import mmap
import os
import pickle
import socket
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

SHARE_FROM: Final = 4 * 2**20
"""Buffers of at least so many bytes together (a minute of sound) go through a memory file.

Below, the socket is faster: filling fresh shared pages costs more than two copies through warm ones
(``benchmarks/isolation.py``).
"""

_HEAD: Final = struct.Struct("<IIB")  # bytes of the pickle, number of buffers, whether shared
_SIZE: Final = struct.Struct("<Q")
_ALIGN: Final = 64
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize

ANCILLARY: Final = socket.CMSG_SPACE(_DESCRIPTOR_BYTES)
"""Room for the one descriptor that a head may carry."""

Ancillary: TypeAlias = Sequence[tuple[int, int, bytes]]
"""What ``recvmsg`` gives and ``sendmsg`` takes beside the data."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A message that is ready to be sent.

    Attributes:
        parts: What to send, in order; ``ancillary`` goes with the first of them.
        shared: The memory file that ``ancillary`` passes on, for its maker to close; or None.
    """

    parts: tuple[memoryview, ...]
    shared: int | None

    @property
    def ancillary(self) -> Ancillary:
        """The descriptor of the memory file, if there is one."""
        if self.shared is None:
            return []
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.shared]).tobytes())]

    def close(self) -> None:
        """Close the memory file, once it was sent or given up."""
        if self.shared is not None:
            os.close(self.shared)


@dataclass(frozen=True, slots=True)
class Dumped:
    """A pickled message whose buffers are still where they were.

    Attributes:
        body: The pickle.
        buffers: The arrays, not copied.
    """

    body: bytes
    buffers: tuple[memoryview, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def frame(self) -> Frame:
        """Make the frame; copies large buffers into a memory file, so it takes time."""
        shared = _share(self.buffers) if self.nbytes >= SHARE_FROM else None
        head = _HEAD.pack(len(self.body), len(self.buffers), shared is not None)
        sizes = b"".join(_SIZE.pack(buffer.nbytes) for buffer in self.buffers)
        first = memoryview(head + sizes + self.body)
        return Frame((first, *self.buffers) if shared is None else (first,), shared)


def dump(message: object) -> Dumped:
    """Pickle a message without its arrays.

    Raises:
        Exception: Something in it cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    return Dumped(body, tuple(buffer.raw() for buffer in buffers))


def receiving() -> Generator[memoryview, int | None, object]:
    """Receive one message, whatever does the input.

    Yields memory that is to be filled completely, and takes the descriptor that came with it.
    Returns the message.
    """
    head = bytearray(_HEAD.size)
    descriptor = yield memoryview(head)
    try:
        size, count, shared = _HEAD.unpack(head)
        rest = bytearray(count * _SIZE.size + size)
        yield memoryview(rest)
        sizes = [_SIZE.unpack_from(rest, index * _SIZE.size)[0] for index in range(count)]
        if shared:
            buffers = _mapped(descriptor, sizes)
        else:
            buffers = []
            for each in sizes:
                buffers.append(memoryview(bytearray(each)))
                if each:
                    yield buffers[-1]
    finally:
        if descriptor is not None:
            os.close(descriptor)
    body = memoryview(rest)[count * _SIZE.size :]
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - a private socket pair, see above


def descriptor_in(ancillary: Ancillary) -> int | None:
    """The descriptor in what ``recvmsg`` gave beside the data."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            return int.from_bytes(data[:_DESCRIPTOR_BYTES], "little", signed=True)
    return None


def send(sock: socket.socket, message: object) -> None:
    """Send a message over a blocking socket."""
    frame = dump(message).frame()
    try:
        first, *others = frame.parts
        sent = sock.sendmsg([first], frame.ancillary)
        for part in (first[sent:], *others):
            sock.sendall(part)
    finally:
        frame.close()


def receive(sock: socket.socket) -> object:
    """Receive a message over a blocking socket.

    Raises:
        EOFError: The other end is gone.
        OSError: The same, or there was no room for what came beside the socket.
    """
    steps = receiving()
    want = next(steps)
    while True:
        descriptor = _fill(sock, want)
        try:
            want = steps.send(descriptor)
        except StopIteration as done:
            return done.value


def _fill(sock: socket.socket, want: memoryview) -> int | None:
    descriptor = None
    while want:
        count, ancillary, _, _ = sock.recvmsg_into([want], ANCILLARY)
        if not count:
            raise EOFError
        found = descriptor_in(ancillary)
        descriptor = descriptor if found is None else found
        want = want[count:]
    return descriptor


def _share(buffers: Sequence[memoryview]) -> int | None:
    """Copy buffers into a memory file; None where the system has none to give."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        shared = os.memfd_create("paraudio")
    except OSError:
        return None
    try:
        offset = 0
        for buffer in buffers:
            _write(shared, buffer, offset)
            offset = _aligned(offset + buffer.nbytes)
        os.truncate(shared, max(offset, 1))
    except OSError:
        os.close(shared)
        return None
    return shared


def _write(file: int, buffer: memoryview, offset: int) -> None:
    while buffer:
        written = os.pwrite(file, buffer, offset)
        buffer, offset = buffer[written:], offset + written


def _mapped(file: int | None, sizes: Sequence[int]) -> list[memoryview]:
    if file is None:  # it was sent, and the system had no number for it here
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    memory = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_COPY))
    buffers, offset = [], 0
    for size in sizes:
        buffers.append(memory[offset : offset + size])
        offset = _aligned(offset + size)
    return buffers


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
