"""Sounds and files for the tests of the audio room."""

import io
import struct

import numpy as np
import soundfile

from paraudio.engines import Samples

RATE = 16_000


def tone(seconds: float = 1.0, rate: int = RATE, hertz: float = 440.0) -> Samples:
    """A sine at a third of full scale, shape [frames]."""
    at = np.arange(round(seconds * rate)) / rate
    return np.asarray(0.3 * np.sin(2 * np.pi * hertz * at), dtype=np.float32)


def file_of(
    samples: Samples, rate: int = RATE, container: str = "WAV", subtype: str | None = None
) -> bytes:
    """The samples, shape [frames] or [frames, channels], as a file."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=container, subtype=subtype)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    """A RIFF chunk; ``size`` is what it says, where that is not the truth."""
    head = struct.pack("<4sI", name, len(content) if size is None else size)
    return head + content + b"\0" * (len(content) % 2)


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    """A wav file of chunks."""
    content = b"WAVE" + b"".join(chunks)
    return struct.pack("<4sI", b"RIFF", len(content) if size is None else size) + content


def fmt(rate: int = RATE, channels: int = 1, bits: int = 16, tag: int = 1) -> bytes:
    """A format chunk."""
    block = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits))


def pcm16(samples: Samples) -> bytes:
    """Little-endian 16 bit samples."""
    return np.asarray(np.rint(samples * 32767), dtype="<i2").tobytes()


def pitch(samples: Samples, rate: int) -> float:
    """The strongest frequency, in Hz."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate / len(samples)
