"""Change of sample rate, by soxr."""

from collections.abc import Callable
from typing import Final

import numpy as np
import soxr

from paraudio.audio._pcm import tame
from paraudio.engines import Audio, Samples

MIN_RATE: Final = 1000
"""The lowest sample rate that is taken or made, in Hz."""

MAX_RATE: Final = 384_000
"""The highest sample rate that is taken or made, in Hz."""

_BLOCK: Final = 1 << 20


def resample(audio: Audio, rate: int, *, check: Callable[[], None] | None = None) -> Audio:
    """The same sound at another rate.

    Args:
        audio: Mono sound at any rate from `MIN_RATE` to `MAX_RATE`.
        rate: Frames a second wanted, in the same range.
        check: Called between blocks; what it raises ends the work (a stop, a cancellation).

    Returns:
        ``audio`` itself where the rate is right already.

    Raises:
        ValueError: A rate is out of range.
    """
    if audio.rate == rate:
        return audio
    resampler = Resampler(audio.rate, rate)
    pieces = []
    for start in range(0, max(len(audio.samples), 1), _BLOCK):
        if check is not None:
            check()
        last = start + _BLOCK >= len(audio.samples)
        pieces.append(resampler.push(audio.samples[start : start + _BLOCK], last=last))
    return Audio(np.concatenate(pieces), rate)


class Resampler:
    """Resamples a sound piece by piece; the pieces joined equal the whole resampled at once."""

    def __init__(self, source: int, target: int) -> None:
        for rate in (source, target):
            if not MIN_RATE <= rate <= MAX_RATE:
                raise ValueError(f"{rate} Hz is not from {MIN_RATE} to {MAX_RATE}")
        self._stream = (
            None
            if source == target
            else soxr.ResampleStream(source, target, 1, dtype="float32", quality="HQ")
        )

    def push(self, samples: Samples, *, last: bool) -> Samples:
        """Take the next piece and return what is ready; ``last`` also returns what was held back.

        Args:
            samples: Shape [frames], float32.
            last: Whether this was the last piece; nothing may follow.

        Returns:
            Shape [frames], float32, in [-1, 1]; ``samples`` itself where nothing changes.
        """
        if self._stream is None:
            return tame(samples)
        piece = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return tame(np.asarray(piece, dtype=np.float32))
