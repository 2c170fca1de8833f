"""Which flac files are as they should be: whole, and as long as their heads say.

Only those go to the quicker library, which reads as far as the head says and no further. Layout of
heads and frames: RFC 9639, sections 8.2 and 9.1.
"""

from dataclasses import dataclass
from typing import Final

_HEAD: Final = 8 + 34
"""The mark, the head of the first block of metadata, and that block, which tells the shape."""

_TAIL: Final = 1 << 18
"""Where the last frame is looked for; one of usual size, behind it tags, is in less."""

_SYNCS: Final = (b"\xff\xf8", b"\xff\xf9")
_MOST_BYTES: Final = 16
"""Of the head of a frame."""

_EXTRA: Final = {6: 1, 7: 2}
"""Bytes at the end of a frame's head that hold its length, by its code."""

_RATE_EXTRA: Final = {12: 1, 13: 2, 14: 2}


def is_plain(data: memoryview) -> bool:
    """Whether the last frame of a file ends where its head says that the sound ends.

    Args:
        data: The file, from ``fLaC`` on. A head that tells no length is not plain.
    """
    if len(data) < _HEAD:
        return False
    block = int.from_bytes(data[10:12])
    told = int.from_bytes(data[21:26]) & 0xF_FFFF_FFFF
    return told > 0 and _end(bytes(data[_HEAD:][-_TAIL:]), block) == told


def _end(tail: bytes, block: int) -> int | None:
    """Where the last frame ends, in frames of sound; None where there is none.

    Args:
        tail: The end of a file.
        block: Samples of each but the last frame, where all are equal.
    """
    behind = len(tail)
    while (at := max(tail.rfind(sync, 0, behind) for sync in _SYNCS)) >= 0:
        found = _frame(tail[at : at + _MOST_BYTES])
        if found is not None:
            start = found.number if found.varies else found.number * block
            return start + found.samples
        behind = at + 1  # marks do not overlap
    return None


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a frame's head says.

    Attributes:
        varies: Whether ``number`` counts samples, not frames, since frames differ in length.
        number: Its place.
        samples: Its length.
    """

    varies: bool
    number: int
    samples: int


def _frame(data: bytes) -> _Frame | None:
    """Read the head of a frame; None where it is none after all."""
    if len(data) < 6 or data[3] & 1:
        return None
    length, rate = data[2] >> 4, data[2] & 15
    numbered = _number(data[4:])
    if numbered is None or length == 0:
        return None
    number, at = numbered[0], 4 + numbered[1]
    extra = _EXTRA.get(length, 0)
    samples = _samples(length, data[at : at + extra])
    at += extra + _RATE_EXTRA.get(rate, 0)
    if at >= len(data) or _crc8(data[:at]) != data[at]:
        return None
    return _Frame(data[1] & 1 == 1, number, samples)


def _samples(code: int, extra: bytes) -> int:
    if code in _EXTRA:
        return int.from_bytes(extra) + 1
    if code >= 8:
        return 256 << code - 8
    return 192 if code == 1 else 576 << code - 2


def _number(data: bytes) -> tuple[int, int] | None:
    """A number coded as UTF-8 codes letters, up to 36 bits, and how many bytes it takes."""
    first = data[0]
    if first < 0x80:
        return first, 1
    ones = 8 - (first ^ 0xFF).bit_length()
    rest = data[1:ones]
    if ones < 2 or ones == 8 or len(rest) < ones - 1 or any(byte >> 6 != 2 for byte in rest):
        return None
    number = first & (0x7F >> ones)
    for byte in rest:
        number = number << 6 | byte & 0x3F
    return number, ones


def _crc8(data: bytes) -> int:
    """The check of a frame's head, with the polynomial x^8 + x^2 + x + 1."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc << 1 ^ (0x107 if crc & 0x80 else 0)
    return crc
