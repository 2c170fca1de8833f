"""What every way to read a sound file has in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from paraudio.engines import Samples

BLOCK_SAMPLES: Final = 1 << 18
"""About how many samples of all channels are read between two looks at the limits."""

_SPARE: Final = 1 << 13
_MOST_AHEAD: Final = 1 << 28
"""The most frames that are asked for before they are there: 4 h at 16 kHz, a gibibyte."""


class UnusableError(Exception):
    """Why a file cannot be used, in words for the caller."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a file says of itself before anything is unpacked.

    Attributes:
        rate: Frames a second.
        channels: How many.
        seconds: How long it is; None where it does not say.
    """

    rate: int
    channels: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some frames.

    Attributes:
        samples: Shape [frames, channels], float32; there may be none in it.
        rate: Frames a second, which may change within a file.
    """

    samples: Samples
    rate: int

    def mono(self) -> Samples:
        """The mean of the channels, shape [frames]."""
        if self.samples.shape[1] == 1:
            return self.samples[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):  # floats may hold anything
            return np.asarray(self.samples.mean(axis=1), dtype=np.float32)


class Source(Protocol):
    """An open sound file; leaving it frees it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    @property
    def claim(self) -> Claim:
        """What it says of itself."""

    def pieces(self) -> Iterator[Piece]:
        """Its sound; a step is a fraction of a second at most.

        Raises:
            UnusableError: It is damaged, or ends before it said.
        """


class Sink:
    """Grows like a list but holds one array, so that the sound is in memory about once.

    What is asked for ahead and never filled costs addresses, no memory.
    """

    def __init__(self, expected: float = 0.0) -> None:
        """Start empty.

        Args:
            expected: About how many frames will come, if that is known.
        """
        ahead = min(round(expected * 1.01) + _SPARE, _MOST_AHEAD)
        self._buffer: NDArray[np.float32] = np.empty(ahead, dtype=np.float32)
        self._used = 0

    def add(self, piece: Samples) -> None:
        """Append a piece, shape [frames]."""
        need = self._used + len(piece)
        if need > len(self._buffer):
            grown = np.empty(max(need, len(self._buffer) * 3 // 2), dtype=np.float32)
            grown[: self._used] = self._buffer[: self._used]
            self._buffer = grown
        self._buffer[self._used : need] = piece
        self._used = need

    def samples(self) -> Samples:
        """All pieces joined, shape [frames]; nothing much larger is kept alive by them."""
        samples = self._buffer[: self._used]
        return samples if 2 * self._used > len(self._buffer) else samples.copy()
