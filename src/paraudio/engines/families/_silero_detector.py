"""Silero's detector itself: frames in, probabilities of speech out, in two forms of one model."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from paraudio.engines._ort import OrtSession, Tensor
from paraudio.engines._stop import Stop
from paraudio.engines._values import Samples
from paraudio.engines.families._spans import RATE

FRAME: Final = 512
"""Samples of a frame: 32 ms."""

CONTEXT: Final = 64
"""Samples of the frame before that stand before each frame."""

BLOCK: Final = 512
"""Frames of one call, sixteen seconds: what a stop waits for at most, and what memory holds."""

_STATE: Final = 128


def frames(samples: Samples) -> Iterator[Samples]:
    """The frames of a sound, each behind the last samples of the one before.

    Args:
        samples: Shape [samples], at 16 kHz.

    Yields:
        Shape [frames, 576]; silence stands before the first frame and fills the last.
    """
    count = -(-len(samples) // FRAME)
    if not count:
        return
    padded = np.zeros(CONTEXT + count * FRAME, dtype=np.float32)
    padded[CONTEXT : CONTEXT + len(samples)] = samples
    yield from blocks(padded)


def blocks(padded: Samples) -> Iterator[Samples]:
    """The frames of a sound that begins with the samples before its first frame.

    Args:
        padded: Shape [64 + whole frames], at 16 kHz.

    Yields:
        Shape [frames, 576].
    """
    windows = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + FRAME)[::FRAME]
    for first in range(0, len(windows), BLOCK):
        yield np.ascontiguousarray(windows[first : first + BLOCK])


class Detector(Protocol):
    """One form of the model."""

    def start(self) -> Sequence[Tensor]:
        """The state before the first frame."""

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        """Probabilities of a block of frames, shape [frames], and the state behind it."""


class Rowwise:
    """Reads a row of frames in one call."""

    def __init__(self, session: OrtSession) -> None:
        self._session = session

    def start(self) -> Sequence[Tensor]:
        return [np.zeros((1, 1, _STATE), dtype=np.float32) for _ in range(2)]

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        hidden, cell = state
        found, *state = self._session.run({"input": block, "h": hidden, "c": cell}, stop)
        return found.reshape(-1), state


class Stepwise:
    """Reads one frame a call."""

    def __init__(self, session: OrtSession) -> None:
        self._session = session
        self._rate = np.array(RATE, dtype=np.int64)

    def start(self) -> Sequence[Tensor]:
        return [np.zeros((2, 1, _STATE), dtype=np.float32)]

    def step(
        self, block: Samples, state: Sequence[Tensor], stop: Stop
    ) -> tuple[Samples, Sequence[Tensor]]:
        (current,) = state
        found = np.empty(len(block), dtype=np.float32)
        for index, frame in enumerate(block):
            feeds = {"input": frame[np.newaxis], "state": current, "sr": self._rate}
            probability, current = self._session.run(feeds, stop)
            found[index] = probability.item()
        return found, [current]
