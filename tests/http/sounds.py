"""Recordings for the tests of the routes."""

import io

import numpy as np
import soundfile

from paraudio.engines import Samples

RATE = 16_000


def tone(seconds: float = 0.5, rate: int = RATE) -> Samples:
    """A sine, shape [frames]."""
    at = np.arange(round(seconds * rate)) / rate
    return np.asarray(0.3 * np.sin(2 * np.pi * 440 * at), dtype=np.float32)


def sound_file(
    samples: Samples | None = None, rate: int = RATE, container: str = "WAV", **kind: str
) -> bytes:
    """Samples as a file, a tone where none are given."""
    buffer = io.BytesIO()
    data = tone(rate=rate) if samples is None else samples
    soundfile.write(buffer, data, rate, format=container, **kind)
    return buffer.getvalue()


def heard(data: bytes) -> tuple[Samples, int]:
    """The samples of a sound file, and their rate."""
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    return np.asarray(samples, dtype=np.float32), int(rate)
