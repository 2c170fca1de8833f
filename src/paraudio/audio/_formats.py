"""The formats that sound goes out in."""

from dataclasses import dataclass
from typing import Final

from paraudio.errors import InvalidRequestError

_MPEG_RATES: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_WIDE_FROM: Final = 32_000


@dataclass(frozen=True, slots=True)
class Codec:
    """How ffmpeg's libraries make one format.

    Attributes:
        muxer: Their name for the container.
        encoder: Their name for the codec.
        layout: How the encoder wants its samples.
        rates: The sample rates that it knows, in Hz, rising; none are all.
        bits: Bits a second, for rates up to 24 kHz and above that; 0 where sound keeps each sample.
        options: Of the encoder.
        packing: Of the container.
        growing: Of the container where it goes out while it grows.
    """

    muxer: str
    encoder: str
    layout: str
    rates: tuple[int, ...] = ()
    bits: tuple[int, int] = (0, 0)
    options: tuple[tuple[str, str], ...] = ()
    packing: tuple[tuple[str, str], ...] = ()
    growing: tuple[tuple[str, str], ...] = ()

    def rate_for(self, rate: int) -> int:
        """The rate for a sound of another one: the next higher that there is, or the highest."""
        if not self.rates:
            return rate
        return next((known for known in self.rates if known >= rate), self.rates[-1])

    def bit_rate(self, rate: int) -> int:
        """Bits a second for one channel of speech, such that nobody hears the codec."""
        return self.bits[rate >= _WIDE_FROM]


CODECS: Final = {
    "mp3": Codec(
        "mp3",
        "libmp3lame",
        "s16p",
        rates=_MPEG_RATES,
        bits=(64_000, 96_000),
        # Level 7 takes two thirds of the time of the usual 5.
        options=(("compression_level", "7"),),
        packing=(("id3v2_version", "0"),),
        # The frame that tells the length comes first, and would be a silent one.
        growing=(("write_xing", "0"),),
    ),
    # Without the room that is usually left for tags: 8 KB before the first sound.
    "flac": Codec("flac", "flac", "s16", packing=(("metadata_header_padding", "0"),)),
    "opus": Codec(
        "ogg",
        "libopus",
        "s16",
        rates=(8000, 12000, 16000, 24000, 48000),
        bits=(40_000, 64_000),
        options=(("compression_level", "5"),),
        # A page is what a player gets; the usual second of sound is a second too late.
        growing=(("page_duration", "100000"),),
    ),
    "aac": Codec(
        "adts",
        "aac",
        "fltp",
        rates=_MPEG_RATES,
        bits=(64_000, 96_000),
        options=(("aac_coder", "fast"),),
    ),
}

_CONTENT_TYPES: Final = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "pcm": "audio/pcm",
}

FORMATS: Final = tuple(_CONTENT_TYPES)
"""The names of the formats."""


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
