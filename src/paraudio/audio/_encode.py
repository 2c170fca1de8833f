"""Sound out: whole files and growing streams."""

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import soundfile

from paraudio.audio._pcm import to_int16
from paraudio.audio._resample import resample
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class _Compression:
    """What libsndfile calls a format, and the sample rates that it takes; none are all."""

    container: str
    subtype: str
    rates: tuple[int, ...] = ()


_COMPRESSED: Final = {
    "flac": _Compression("FLAC", "PCM_16"),
    "mp3": _Compression(
        "MP3", "MPEG_LAYER_III", (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
    ),
    "opus": _Compression("OGG", "OPUS", (8000, 12000, 16000, 24000, 48000)),
}

_CONTENT_TYPES: Final = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
}

FORMATS: Final = ("wav", "mp3", "flac", "opus", "pcm")
"""The names that `encode` takes."""

_BLOCK: Final = 65_536
"""Samples that are compressed between two looks at whether anybody still waits."""

_UNKNOWN_SIZE: Final = 0xFFFFFFFF
_HEADER_BYTES: Final = 44


def content_type(container: str, /, *, param: str = "response_format") -> str:
    """The content type of an audio format.

    Raises:
        InvalidRequestError: The format is none of `FORMATS`.
    """
    try:
        return _CONTENT_TYPES[container]
    except KeyError:
        raise InvalidRequestError(
            f"{param} must be one of {', '.join(FORMATS)}, not {container!r}", param=param
        ) from None


def encode(
    audio: Audio,
    container: str,
    /,
    *,
    param: str = "response_format",
    check: Callable[[], None] | None = None,
) -> bytes:
    """Encode a whole sound.

    Args:
        audio: Mono sound.
        container: ``wav`` (16 bit, with a header), ``pcm`` (bare little-endian 16 bit), ``mp3``,
            ``flac`` (16 bit) or ``opus`` (in ogg). mp3 and opus know few sample rates; a sound of
            another one is resampled to the next higher that they know, or to their highest.
        param: The field that holds the format, for the error.
        check: Called between blocks of what is compressed; what it raises ends the encoding.

    Raises:
        InvalidRequestError: The format is none of `FORMATS`.
    """
    content_type(container, param=param)
    if container in _COMPRESSED:
        return _compressed(audio, _COMPRESSED[container], check)
    pcm = _pcm(audio)
    return _header(audio.rate, len(pcm)) + pcm if container == "wav" else pcm


class WavStream:
    """A wav file that grows: one header with unknown sizes, then nothing but samples.

    Players take sizes of 0xFFFFFFFF as "until the end", so the pieces play without gaps.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate

    def header(self) -> bytes:
        """The first bytes of the stream; sent once."""
        return _header(self._rate, None)

    def piece(self, audio: Audio) -> bytes:
        """The bytes of the next piece of sound.

        Raises:
            ValueError: The piece has another rate than the header said.
        """
        if audio.rate != self._rate:
            raise ValueError(f"a stream of {self._rate} Hz got a piece of {audio.rate} Hz")
        return _pcm(audio)


def _compressed(audio: Audio, kind: _Compression, check: Callable[[], None] | None) -> bytes:
    if kind.rates:
        enough = [rate for rate in kind.rates if rate >= audio.rate]
        audio = resample(audio, enough[0] if enough else kind.rates[-1])
    buffer = io.BytesIO()
    samples = to_int16(audio.samples)
    if not len(samples):
        # These encoders write no head where there is no sound; one silent sample brings it.
        samples = np.zeros(1, np.int16)
    with soundfile.SoundFile(
        buffer, "w", audio.rate, 1, subtype=kind.subtype, format=kind.container
    ) as file:
        # Never the whole at once: that could not be stopped.
        for start in range(0, len(samples), _BLOCK):
            if check is not None:
                check()
            file.write(samples[start : start + _BLOCK])
    return buffer.getvalue()


def _pcm(audio: Audio) -> bytes:
    return to_int16(audio.samples).astype("<i2", copy=False).tobytes()


def _header(rate: int, size: int | None) -> bytes:
    """RIFF, ``fmt`` and ``data`` heads for mono 16 bit; a size that does not fit is unknown."""
    fits = size is not None and size + _HEADER_BYTES - 8 < _UNKNOWN_SIZE
    data = size if size is not None and fits else _UNKNOWN_SIZE
    riff = data + _HEADER_BYTES - 8 if fits else _UNKNOWN_SIZE
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16),
        *(b"data", data),
    )
