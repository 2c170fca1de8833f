"""Frames of HTTP/2, counted as they come, so that nobody's small ones hold up the others.

h2 hands on whole frames, and whole header blocks. What is begun and not complete is seen here.
"""

from collections.abc import Iterator
from typing import Final

from paraudio.transport._limits import TURN

_PREFACE_BYTES: Final = 24
_HEAD_BYTES: Final = 9

_DATA: Final = 0
_HEADERS: Final = 1
_CONTINUATION: Final = 9
_END_HEADERS: Final = 4
_COST_OF_HEADERS: Final = 16
"""A frame that begins a request starts a whole call, and costs as much as so many others."""

MAX_FRAME_BYTES: Final = 16_384
"""The largest frame that a client may send: what HTTP/2 allows before anything else is agreed."""


MAX_BLOCK_BYTES: Final = 65_536
"""The most bytes that a header block may have, packed."""

MAX_BLOCK_FRAMES: Final = 32
"""The most frames that a header block may come in."""


class FrameTooLargeError(Exception):
    """A frame says that it is larger than it may be."""


class BlockTooLargeError(Exception):
    """A header block goes on for longer than any request's."""


class FrameMeter:
    """Knows where the frames of one connection begin, whatever pieces they arrive in.

    Args:
        max_block_bytes: The most bytes of one header block.

    Attributes:
        units: How many frames and header blocks are complete.
    """

    def __init__(self, max_block_bytes: int = MAX_BLOCK_BYTES) -> None:
        self.units = 0
        self._max_block_bytes = max_block_bytes
        self._left = _PREFACE_BYTES
        self._cost = 1
        self._head = bytearray()
        self._kind = self._stream = -1
        self._block_bytes = self._block_frames = 0

    @property
    def begun(self) -> bool:
        """Whether a part of a frame, of a header block or of the preface has come."""
        if not self.units:
            return self._left != _PREFACE_BYTES
        return bool(self._head or self._left or self._block_frames)

    @property
    def body_of(self) -> int | None:
        """The stream whose body the unfinished frame is a piece of, if it is one."""
        return self._stream if self._left and self._kind == _DATA else None

    def turns(self, data: bytes) -> Iterator[bytes]:
        """Cut what was read behind every few frames, so that each piece takes a moment at most.

        Yields:
            The whole of ``data``, in order.

        Raises:
            FrameTooLargeError: A frame is over `MAX_FRAME_BYTES`. It is seen by its head, so that
                nobody waits for a frame that would be refused.
            BlockTooLargeError: A header block is over its bounds; seen in the same way.
        """
        begun = at = cost = 0
        while at < len(data):
            at += self._advance(data, at)
            if not self._left:
                cost += self._cost
            if cost >= TURN:
                yield data[begun:at]
                begun, cost = at, 0
        if begun < at:
            yield data[begun:at]

    def _advance(self, data: bytes, at: int) -> int:
        """Go on to the end of the frame, of its head, or of the data; returns by how much."""
        if self._left:
            step = min(self._left, len(data) - at)
            self._left -= step
            if not self._left:
                self._finish()
            return step
        piece = data[at : at + _HEAD_BYTES - len(self._head)]
        self._head += piece
        if len(self._head) == _HEAD_BYTES:
            self._begin(bytes(self._head))
            self._head.clear()
        return len(piece)

    def _begin(self, head: bytes) -> None:
        self._left = int.from_bytes(head[:3], "big")
        self._kind = head[3]
        self._stream = int.from_bytes(head[5:], "big") & 0x7FFF_FFFF
        self._cost = _COST_OF_HEADERS if self._kind == _HEADERS else 1
        if self._left > MAX_FRAME_BYTES:
            raise FrameTooLargeError
        if self._kind in (_HEADERS, _CONTINUATION):
            self._measure_block(ends=bool(head[4] & _END_HEADERS))
        if not self._left:
            self._finish()

    def _measure_block(self, *, ends: bool) -> None:
        if self._kind == _HEADERS:
            self._block_frames = self._block_bytes = 0
        self._block_frames += 1
        self._block_bytes += self._left
        if self._block_bytes > self._max_block_bytes or self._block_frames > MAX_BLOCK_FRAMES:
            raise BlockTooLargeError
        if ends:
            self._block_frames = self._block_bytes = 0

    def _finish(self) -> None:
        if not self._block_frames:
            self.units += 1
