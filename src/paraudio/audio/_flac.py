"""Which flac files are as they should be: whole, and as long as their heads say.

Only those go to the quicker library, which reads as far as the head says and no further. Layout of
heads and frames: RFC 9639, sections 8.2 and 9.1.
"""

import re
from dataclasses import dataclass
from typing import Final

_HEAD: Final = 8 + 34
"""The mark, the head of the first block of metadata, and that block, which tells the shape."""

_TAIL: Final = 1 << 18
"""Where the last frame is looked for; one of usual size, behind it tags, is in less."""

_MARK: Final = b"fLaC"
_SEARCHED: Final = 1 << 20
"""Bytes that are searched at once: the interpreter's lock is held as long as that takes."""

_SYNC: Final = re.compile(rb"\xff[\xf8\xf9]")
_MOST_SYNCS: Final = 1000
"""How many marks are looked at; sound holds one in 32 KiB by chance, a file made to hurt any."""

_MOST_BYTES: Final = 16
"""Of the head of a frame."""

_EXTRA: Final = {6: 1, 7: 2}
"""Bytes at the end of a frame's head that hold its length, by its code."""

_RATES: Final = {
    1: 88_200,
    2: 176_400,
    3: 192_000,
    4: 8000,
    5: 16_000,
    6: 22_050,
    7: 24_000,
    8: 32_000,
    9: 44_100,
    10: 48_000,
    11: 96_000,
}
"""In Hz, by their codes."""

_RATE_EXTRA: Final = {12: (1, 1000), 13: (2, 1), 14: (2, 10)}
"""Bytes behind those that hold the rate, by its code, and the unit that they count, in Hz."""


def is_plain(data: memoryview) -> bool:
    """Whether the last frame of a file ends where its head says that the sound ends.

    Args:
        data: The file, from ``fLaC`` on. A head that tells no length is not plain, nor is a file
            behind which there is another one.
    """
    if len(data) < _HEAD:
        return False
    last = _last(bytes(data[_HEAD:][-_TAIL:]))
    if last is None:
        return False
    block = int.from_bytes(data[10:12])
    rate = int.from_bytes(data[18:21]) >> 4
    told = int.from_bytes(data[21:26]) & 0xF_FFFF_FFFF
    ends = (last.number if last.varies else last.number * block) + last.samples
    return ends == told > 0 and last.rate in {0, rate} and not _has_second(data)


def _has_second(data: memoryview) -> bool:
    """Whether there is the mark of another file; by chance, there rarely is."""
    return any(
        bytes(data[at : at + _SEARCHED + len(_MARK) - 1]).find(_MARK) >= 0
        for at in range(_HEAD, len(data), _SEARCHED)
    )


def _last(tail: bytes) -> "_Frame | None":
    """The last frame; None where there is none."""
    syncs = [sync.start() for sync in _SYNC.finditer(tail)]
    for at in reversed(syncs[-_MOST_SYNCS:]):
        found = _frame(tail[at : at + _MOST_BYTES])
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a frame's head says.

    Attributes:
        varies: Whether ``number`` counts samples, not frames, since frames differ in length.
        number: Its place.
        samples: Its length.
        rate: In Hz; 0 where it is that of the file.
    """

    varies: bool
    number: int
    samples: int
    rate: int


def _frame(data: bytes) -> _Frame | None:
    """Read the head of a frame; None where it is none after all."""
    if len(data) < 6 or data[3] & 1:
        return None
    length, code = data[2] >> 4, data[2] & 15
    numbered = _number(data[4:])
    if numbered is None or length == 0:
        return None
    number, at = numbered[0], 4 + numbered[1]
    extra = _EXTRA.get(length, 0)
    samples = _samples(length, data[at : at + extra])
    at += extra
    extra, unit = _RATE_EXTRA.get(code, (0, 0))
    rate = int.from_bytes(data[at : at + extra]) * unit or _RATES.get(code, 0)
    at += extra
    if at >= len(data) or _crc8(data[:at]) != data[at]:
        return None
    return _Frame(data[1] & 1 == 1, number, samples, rate)


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
