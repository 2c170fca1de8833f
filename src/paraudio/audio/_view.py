"""A read-only file over pieces of memory, so that nothing is copied to be read."""

import io
from typing import Final

_WHENCE: Final = (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END)


class View:
    """What the libraries need of a file, over a head and a body that lie apart in memory."""

    def __init__(self, *parts: bytes | memoryview) -> None:
        self._parts = [memoryview(part).cast("B") for part in parts]
        self._size = sum(len(part) for part in self._parts)
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place; places outside the file are moved to its ends."""
        base = (0, self._at, self._size)[_WHENCE.index(whence)]
        self._at = min(max(base + offset, 0), self._size)
        return self._at

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, none at the end."""
        buffer = bytearray(min(size, self._size - self._at))
        return bytes(memoryview(buffer)[: self.readinto(buffer)])

    def tell(self) -> int:
        """The place of the next read."""
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` as far as the file goes, and return how far that was."""
        target = memoryview(buffer).cast("B")
        done = 0
        start = 0
        for part in self._parts:
            offset = self._at + done - start
            if 0 <= offset < len(part) and done < len(target):
                piece = part[offset : offset + len(target) - done]
                target[done : done + len(piece)] = piece
                done += len(piece)
            start += len(part)
        self._at += done
        return done
