"""Live sound at whatever rate it is captured, brought to the rate that a family listens at."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from paraudio.audio import Resampler
from paraudio.engines._pieces import sound_piece
from paraudio.engines._values import Piece, Samples

_BLOCK: Final = 1 << 18
"""Samples of a block: a long piece must not hold up a stop."""


class Intake:
    """Takes the pieces of one sound; where they are cut changes not a bit of what comes out.

    Attributes:
        rate: Frames a second of what is fed; None before the first piece.
    """

    def __init__(self, target: int) -> None:
        self.rate: int | None = None
        self._target = target
        self._resampler: Resampler | None = None

    def blocks(self, piece: Piece) -> Iterator[Samples]:
        """The sound of a piece, as far as it is ready, in blocks.

        Raises:
            InvalidRequestError: It is no sound, or at another rate than the one before.
        """
        audio = sound_piece(piece, self.rate)
        if self.rate is None and audio.rate != self._target:
            self._resampler = Resampler(audio.rate, self._target)
        self.rate = audio.rate
        for start in range(0, len(audio.samples), _BLOCK):
            block = audio.samples[start : start + _BLOCK]
            yield block if self._resampler is None else self._resampler.push(block, last=False)

    def rest(self) -> Samples:
        """What was held back until the end."""
        nothing: Samples = np.empty(0, dtype=np.float32)
        return nothing if self._resampler is None else self._resampler.push(nothing, last=True)
