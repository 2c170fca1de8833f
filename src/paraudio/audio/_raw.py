"""Bare samples in: no header says what they are, so whoever sends them does."""

from typing import Final

import numpy as np

from paraudio.audio._pcm import from_int16, tame
from paraudio.engines import Samples

RAW_FORMATS: Final = {"s16le": 2, "f32le": 4}
"""The formats of bare samples, each with the bytes of one sample."""


def from_raw(data: bytes, sample_format: str, channels: int) -> Samples:
    """Read interleaved samples and mix them to one channel.

    Args:
        data: Whole frames.
        sample_format: One of `RAW_FORMATS`.
        channels: How many samples a frame has.

    Returns:
        The mean of the channels, shape [frames], in [-1, 1]; NaN is silence.
    """
    if sample_format == "s16le":
        samples = from_int16(np.frombuffer(data, "<i2"))
    else:
        samples = tame(np.frombuffer(data, "<f4").astype(np.float32))
    if channels == 1:
        return samples
    return np.asarray(samples.reshape(-1, channels).mean(axis=1), dtype=np.float32)
