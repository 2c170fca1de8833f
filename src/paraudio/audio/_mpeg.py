"""The headers of mp3 frames."""

from typing import Final, NamedTuple

# Layer III and II bit rates in kbit/s by the header's index (ISO 11172-3, 13818-3), MPEG 1 and 2.
_BITRATES: Final = {
    (1, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (1, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (2, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES: Final = (44100, 48000, 32000)


class Frame(NamedTuple):
    """What the header of a frame says.

    Attributes:
        length: Bytes, with the header.
        samples: Frames of sound in it.
        rate: Frames of sound a second.
        shared: What all frames of a file have in common: version, layer, rate.
    """

    length: int
    samples: int
    rate: int
    shared: int


def mp3_frame(head: bytes) -> Frame | None:
    """Read a header; None where there is none of layer II or III."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version = head[1] >> 3 & 3  # 3: MPEG 1, 2: MPEG 2, 0: MPEG 2.5
    layer = 4 - (head[1] >> 1 & 3)
    index, rate_index = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer not in {2, 3} or index in {0, 15} or rate_index == 3:
        return None
    first = version == 3
    bitrate = _BITRATES[1 if first else 2, layer][index] * 1000
    rate = _RATES[rate_index] >> (0 if first else 1 if version == 2 else 2)
    samples = 1152 if first or layer == 2 else 576
    length = samples // 8 * bitrate // rate + (head[2] >> 1 & 1)
    return Frame(length, samples, rate, version << 4 | layer << 2 | rate_index)
