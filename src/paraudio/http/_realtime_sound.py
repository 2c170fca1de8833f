"""The sound of a realtime session: what a client's bytes are, and the track that they lie on."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Frames: TypeAlias = NDArray[np.int16]
"""Mono sound of 16 bits, shape [frames]."""

MIN_RATE: Final = 8_000
MAX_RATE: Final = 48_000
DEFAULT_RATE: Final = 24_000
TELEPHONE_RATE: Final = 8_000


@dataclass(frozen=True, slots=True)
class Format:
    """How a client sends sound.

    Attributes:
        kind: ``audio/pcm`` (16 bits, little-endian), ``audio/pcmu`` or ``audio/pcma`` (G.711).
        rate: Frames a second.
    """

    kind: str = "audio/pcm"
    rate: int = DEFAULT_RATE

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        return 2 if self.kind == "audio/pcm" else 1

    def read(self, data: bytes) -> Frames:
        """The frames that bytes hold; of a frame that is not whole, nothing.

        Args:
            data: A whole number of frames.
        """
        if self.kind == "audio/pcm":
            whole = len(data) - len(data) % 2
            return np.frombuffer(data, dtype="<i2", count=whole // 2).astype(np.int16, copy=False)
        return _TABLES[self.kind][np.frombuffer(data, dtype=np.uint8)]


def _mu_law() -> Frames:
    """What each byte of G.711's mu-law stands for, by the formula of ITU-T G.711."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent = ((code >> 4) & 7).astype(np.int32)
    magnitude = ((((code & 15).astype(np.int32) << 3) + 0x84) << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _a_law() -> Frames:
    """What each byte of G.711's A-law stands for, by the formula of ITU-T G.711."""
    code = np.arange(256, dtype=np.uint8) ^ np.uint8(0x55)
    exponent = ((code >> 4) & 7).astype(np.int32)
    mantissa = (code & 15).astype(np.int32) << 4
    linear = np.where(
        exponent == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(exponent - 1, 0)
    )
    return np.where(code & 0x80, linear, -linear).astype(np.int16)


_TABLES: Final[Mapping[str, Frames]] = {"audio/pcmu": _mu_law(), "audio/pcma": _a_law()}


_BLOCK: Final = 4096
"""Pieces are joined to this many frames: an array costs a hundred bytes, however few it holds."""


def add(pieces: deque[Frames], frames: Frames) -> None:
    """Put frames behind others, so that their number decides what is kept, not how they came."""
    if pieces and len(pieces[-1]) + len(frames) <= _BLOCK:
        frames = np.concatenate((pieces.pop(), frames))
    pieces.append(frames)


class Track:
    """Sound as it came, by its place since the session began; what is not needed is forgotten.

    Attributes:
        start: The first frame that is still there.
        end: Behind the last frame.
    """

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self._pieces: deque[Frames] = deque()

    def append(self, frames: Frames) -> None:
        """Add what came."""
        if len(frames):
            add(self._pieces, frames)
            self.end += len(frames)

    def between(self, start: int, end: int) -> Frames:
        """The frames from ``start`` to ``end``; both must still be there."""
        parts = self.parts(start, end)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int16)

    def parts(self, start: int, end: int) -> list[Frames]:
        """The same in the pieces that are there, none of them empty; nothing is copied."""
        parts: list[Frames] = []
        at = self.start
        for piece in self._pieces:
            if at >= end:
                break
            part = piece[max(start - at, 0) : end - at]
            if len(part):
                parts.append(part)
            at += len(piece)
        return parts

    def forget(self, before: int) -> None:
        """Let go of what lies before a place, piece by whole piece."""
        while self._pieces and self.start + len(self._pieces[0]) <= before:
            self.start += len(self._pieces.popleft())
        if not self._pieces:
            self.start = self.end

    def rescale(self, before: int, after: int) -> None:
        """Count the places at another rate from now on; the track must be empty."""
        self.end = self.start = round(self.end * after / before)
