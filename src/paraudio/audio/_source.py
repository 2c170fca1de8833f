"""What every way to read a sound file has in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np

from paraudio.engines import Samples

BLOCK_SAMPLES: Final = 1 << 18
"""About how many samples of all channels are read between two looks at the limits."""


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
