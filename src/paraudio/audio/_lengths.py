"""How long a file is whose head does not say it, found without unpacking anything."""

import struct
from typing import Final

from paraudio.audio._mpeg import mp3_frame
from paraudio.audio._source import UnusableError

ADTS_RATES: Final = (
    *(96_000, 88_200, 64_000, 48_000, 44_100, 32_000),
    *(24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350),
)
"""Frames a second by the index in an ADTS header (ISO 14496-3, 1.6.3.4)."""

_ADTS_FRAMES: Final = 1024
_ADTS_MARK: Final = 0xFFF6 << 40
_ADTS_SYNC: Final = 0xFFF0 << 40
_XING_BY: Final = 48
_CLUSTER: Final = b"\x1f\x43\xb6\x75"
_TIMESTAMP: Final = 0xE7
_TAIL: Final = 1 << 22
_TICK_S: Final = 0.001


def adts_seconds(data: memoryview) -> float:
    """The length of bare aac, by the headers of its frames, up to the first place without one."""
    blocks = [0] * 16
    at = 0
    while len(head := data[at : at + 7]) == 7:
        bits = int.from_bytes(head)
        length = bits >> 13 & 0x1FFF
        if bits & _ADTS_MARK != _ADTS_SYNC or length < 7:
            break
        blocks[bits >> 34 & 15] += (bits & 3) + 1
        at += length
    pairs = zip(blocks, ADTS_RATES, strict=False)
    return sum(_ADTS_FRAMES * count / rate for count, rate in pairs)


def mp3_seconds(data: memoryview) -> float:
    """The length of an mp3: what its first frame says of the others, else by their headers."""
    seconds, at = 0.0, 0
    while (frame := mp3_frame(bytes(data[at : at + 4]))) is not None:
        if not at and (count := _counted(data[: frame.length])):
            return count * frame.samples / frame.rate
        seconds += frame.samples / frame.rate
        at += frame.length
    return seconds


def _counted(frame: memoryview) -> int:
    """How many frames follow, by the first one; 0 where it does not say."""
    head = bytes(frame)
    for name in (b"Xing", b"Info"):
        place = head.find(name, 4, _XING_BY)
        if place > 0 and len(head) >= place + 12 and head[place + 7] & 1:
            return int.from_bytes(head[place + 8 : place + 12])
    return 0


def check_pages(data: memoryview) -> None:
    """Refuse an ogg that ends within a page (RFC 3533, 6).

    Raises:
        UnusableError: It does.
    """
    at = 0
    while bytes(data[at : at + 4]) == b"OggS":
        count = data[at + 26] if at + 26 < len(data) else 255
        at += 27 + count + sum(data[at + 27 : at + 27 + count])
        if at > len(data):
            raise UnusableError("the ogg is damaged or cut off")


def last_cluster_s(data: memoryview) -> float | None:
    """The time of the last cluster of a webm, where its head has no length: it was recorded live.

    Its ticks are taken for milliseconds, as every recorder has them. (RFC 8794, RFC 9559 5.1.3.)

    Returns:
        Seconds, or None where there is no cluster in the last 4 MB.
    """
    tail = bytes(data[max(0, len(data) - _TAIL) :])
    at = tail.rfind(_CLUSTER)
    if at < 0:
        return None
    at += len(_CLUSTER)
    at += _width(tail, at)
    if tail[at : at + 1] != bytes((_TIMESTAMP,)):
        return None
    width = tail[at + 1] & 0x7F if at + 1 < len(tail) and tail[at + 1] & 0x80 else 0
    if not 0 < width <= 8:
        return None
    raw = tail[at + 2 : at + 2 + width]
    (ticks,) = struct.unpack(">Q", raw.rjust(8, b"\0"))
    return float(ticks) * _TICK_S


def _width(data: bytes, at: int) -> int:
    """How many bytes the size at a place has."""
    return 9 - data[at].bit_length() if at < len(data) and data[at] else 1
