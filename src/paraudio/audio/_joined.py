"""Frames of ffmpeg's libraries joined to blocks: one step to the interpreter for many frames."""

from typing import Final

import av
import numpy as np
from av.audio.fifo import AudioFifo

from paraudio.audio._source import BLOCK_SAMPLES, Piece, UnusableError
from paraudio.engines import Samples

_SCALES: Final = {"i2": 2**15, "i4": 2**31, "i8": 2**63}

_MAX_PLANES: Final = 7
"""The most channels that may lie apart. PyAV counts planes up to the first that is null, and the
eight pointers of a frame have none behind them: it would read memory that is nobody's.
"""


class Joined:
    """Collects frames as long as they are alike and a block is not full."""

    def __init__(self) -> None:
        self._queue = AudioFifo()
        self._kind: tuple[int, int, str] | None = None
        self._packing: av.AudioResampler | None = None

    def add(self, frame: av.AudioFrame) -> av.AudioFrame | None:
        """Take a frame.

        Returns:
            The block that is full, or that ended because this frame is of another kind.

        Raises:
            UnusableError: Its samples are of a kind that is not taken, or far too many.
        """
        ended = None
        kind = frame.sample_rate, frame.layout.nb_channels, frame.format.name
        if kind != self._kind:
            # The queue would take another count of channels, and read past their pointers.
            ended, self._queue, self._kind = self.rest(), AudioFifo(), kind
            self._packing = _packing(frame)
        frame.pts = None  # gaps in time are not the queue's affair
        try:
            for packed in (frame,) if self._packing is None else self._packing.resample(frame):
                self._queue.write(packed)
        except ValueError as error:
            raise UnusableError(f"its sound changes on the way ({error})") from error
        except (MemoryError, RuntimeError) as error:  # the queue's words for the same
            raise UnusableError(f"{frame.samples} frames in one packet are too many") from error
        full = self._queue.samples * kind[1] >= BLOCK_SAMPLES
        return self.rest() if full and ended is None else ended

    def rest(self) -> av.AudioFrame | None:
        """What is collected; None if that is nothing."""
        return self._queue.read()


def _packing(frame: av.AudioFrame) -> av.AudioResampler | None:
    """What lays the channels of such frames together; None where they may lie as they do."""
    if not frame.format.is_planar or frame.layout.nb_channels <= _MAX_PLANES:
        return None
    return av.AudioResampler(frame.format.packed.name, frame.layout, frame.sample_rate)


def piece(block: av.AudioFrame) -> Piece:
    """The samples of a block, in [-1, 1] as far as the file keeps to it.

    Raises:
        UnusableError: They are of a kind that is not taken.
    """
    return Piece(_floats(block), block.sample_rate)


def _floats(block: av.AudioFrame) -> Samples:
    """Shape [frames, channels]."""
    try:
        array = block.to_ndarray()
    except ValueError as error:
        raise UnusableError(f"its samples are of a kind that is not taken ({error})") from error
    planar = block.format.is_planar
    shaped = array.T if planar else array.reshape(-1, block.layout.nb_channels)
    kind = array.dtype.str[1:]
    with np.errstate(over="ignore", invalid="ignore"):  # doubles may hold anything
        floats = np.asarray(shaped, dtype=np.float32)
    if kind == "u1":
        floats -= 128
        floats /= 128
    elif kind in _SCALES:
        floats /= _SCALES[kind]
    return floats
