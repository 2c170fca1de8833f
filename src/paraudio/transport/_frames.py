"""Frames of HTTP/2, counted as they come, so that nobody's small ones hold up the others."""

from collections.abc import Iterator
from typing import Final

from paraudio.transport._limits import TURN

_PREFACE_BYTES: Final = 24
_HEAD_BYTES: Final = 9

_HEADERS: Final = 1
_COST_OF_HEADERS: Final = 16
"""A frame that begins a request starts a whole call, and costs as much as so many others."""

MAX_FRAME_BYTES: Final = 16_384
"""The largest frame that a client may send: what HTTP/2 allows before anything else is agreed."""


class FrameTooLargeError(Exception):
    """A frame says that it is larger than it may be."""


class FrameMeter:
    """Knows where the frames of one connection begin, whatever pieces they arrive in."""

    def __init__(self) -> None:
        self._left = _PREFACE_BYTES
        self._cost = 1
        self._head = bytearray()

    def turns(self, data: bytes) -> Iterator[bytes]:
        """Cut what was read behind every few frames, so that each piece takes a moment at most.

        Yields:
            The whole of ``data``, in order.

        Raises:
            FrameTooLargeError: A frame is over `MAX_FRAME_BYTES`. It is seen by its head, so that
                nobody waits for a frame that would be refused.
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
            return step
        piece = data[at : at + _HEAD_BYTES - len(self._head)]
        self._head += piece
        if len(self._head) == _HEAD_BYTES:
            self._left = int.from_bytes(self._head[:3], "big")
            self._cost = _COST_OF_HEADERS if self._head[3] == _HEADERS else 1
            self._head.clear()
            if self._left > MAX_FRAME_BYTES:
                raise FrameTooLargeError
        return len(piece)
