"""Sound out: whole files and growing streams."""

import struct
from typing import Final

from paraudio.audio._pcm import to_int16
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError

_CONTENT_TYPES: Final = {"wav": "audio/wav", "pcm": "audio/pcm"}

FORMATS: Final = tuple(sorted(_CONTENT_TYPES))
"""The names that `encode` takes."""

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


def encode(audio: Audio, container: str, /, *, param: str = "response_format") -> bytes:
    """Encode a whole sound.

    Args:
        audio: Mono sound.
        container: ``wav`` (16 bit, with a header) or ``pcm`` (bare little-endian 16 bit).
        param: The field that holds the format, for the error.

    Raises:
        InvalidRequestError: The format is none of `FORMATS`.
    """
    content_type(container, param=param)
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
