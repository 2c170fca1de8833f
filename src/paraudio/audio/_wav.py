"""Wav and bare samples out: 16 bit, one channel, little-endian."""

import struct
from typing import Final

from paraudio.audio._pcm import to_int16
from paraudio.engines import Audio

_UNKNOWN_SIZE: Final = 0xFFFFFFFF
_HEADER_BYTES: Final = 44


def pcm(audio: Audio) -> bytes:
    """The samples and nothing else."""
    return to_int16(audio.samples).astype("<i2", copy=False).tobytes()


def wav_header(rate: int, size: int | None) -> bytes:
    """RIFF, ``fmt`` and ``data`` heads for bare samples.

    Args:
        rate: Frames a second.
        size: Bytes of samples that follow; None, like 4 GB and more, is written as unknown.
    """
    fits = size is not None and size + _HEADER_BYTES - 8 < _UNKNOWN_SIZE
    data = size if size is not None and fits else _UNKNOWN_SIZE
    riff = data + _HEADER_BYTES - 8 if fits else _UNKNOWN_SIZE
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16),
        *(b"data", data),
    )
