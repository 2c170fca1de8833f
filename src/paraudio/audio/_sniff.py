"""What a file is, by its bytes; names and declared types are not looked at."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from paraudio.audio._mpeg import mp3_frame

_ReadFrame: TypeAlias = Callable[[bytes], tuple[int, int] | None]
"""Gives the length in bytes of a frame, and what all frames of a file share."""

Kind = Literal["wav", "flac", "mp3", "ogg", "webm", "mp4", "aac"]

TAKEN: Final = "wav, flac, mp3, ogg (vorbis or opus), webm, m4a or mp4, aac"
"""The formats taken, for messages."""

_SEARCHED: Final = 65536
_ID3_HEAD: Final = 10

# Other containers, so that the refusal can say what was sent: offset, magic, name.
_OTHERS: Final = (
    (0, b"ADIF", "aac without frames of its own (ADIF)"),
    (0, b"FORM", "aiff"),
    (0, b"RIFX", "big-endian wav"),
    (0, b"caff", "caf"),
    (0, b".snd", "au"),
    (0, b"#!AMR", "amr"),
    (0, b"0&\xb2u\x8ef\xcf\x11", "wma"),
    (0, b"{", "JSON text"),
    (0, b"<", "HTML or XML text"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
)

_ADTS_RATES: Final = 13

_BOXES: Final = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"})
"""What an mp4 or QuickTime file may begin with."""


def sniff(data: memoryview) -> tuple[Kind, int] | None:
    """Recognise a format that is taken.

    Args:
        data: The whole file, as bytes.

    Returns:
        The kind and the offset at which it begins (an ID3 tag may come before it), or None.
    """
    start = _after_id3(data)
    head = bytes(data[start : start + 12])
    if head[:4] in {b"RIFF", b"RF64", b"BW64"} and head[8:] == b"WAVE":
        return "wav", start
    if head[:4] == b"fLaC":
        return "flac", start
    if head[:4] == b"OggS":
        return "ogg", start
    if head[:4] == b"\x1aE\xdf\xa3":
        return "webm", start
    if head[4:8] in _BOXES:
        return "mp4", start
    kind, first = _find_frames(data[start : start + _SEARCHED], len(data) - start)
    return None if kind is None else (kind, start + first)


def name_other(data: memoryview) -> str:
    """What a file that is not taken seems to be, in words."""
    head = bytes(data[:16])
    for offset, magic, name in _OTHERS:
        if head[offset:].startswith(magic):
            return name
    if head and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return "text"
    return "no audio format that is known here"


def _after_id3(data: memoryview) -> int:
    """The offset behind ID3v2 tags, whose size is four bytes of seven bits (id3.org, v2.4 3.1)."""
    at = 0
    while bytes(data[at : at + 3]) == b"ID3" and len(data) >= at + _ID3_HEAD:
        footer = _ID3_HEAD if data[at + 5] & 0x10 else 0
        size = 0
        for byte in data[at + 6 : at + _ID3_HEAD]:
            size = size << 7 | byte & 0x7F
        at += _ID3_HEAD + size + footer
    return at


def _find_frames(head: memoryview, length: int) -> tuple[Kind | None, int]:
    """The kind and offset of the first of three frames in a row (or of all up to the end).

    One sync word means nothing: random bytes hold one every two kilobytes. A chain of headers
    that agree, each where the one before says, is beyond chance.
    """
    window = bytes(head)
    at = window.find(b"\xff")
    while at >= 0:
        if _is_chain(window, at, length, _mp3_frame):
            return "mp3", at
        if _is_chain(window, at, length, _adts_frame):
            return "aac", at
        at = window.find(b"\xff", at + 1)
    return None, 0


def _is_chain(window: bytes, at: int, length: int, read: _ReadFrame) -> bool:
    want = 0
    for count in range(3):
        frame = read(window[at : at + 6])
        if frame is None or (count and frame[1] != want):
            return False
        at += frame[0]
        want = frame[1]
        if at >= length:
            return at == length and count > 0
        if at + 6 > len(window):
            return count > 0
    return True


def _mp3_frame(head: bytes) -> tuple[int, int] | None:
    frame = mp3_frame(head)
    return None if frame is None else (frame.length, frame.shared)


def _adts_frame(head: bytes) -> tuple[int, int] | None:
    """As for mp3 (ISO 13818-7, 6.2): version, profile, rate and channels are of the whole file."""
    if len(head) < 6 or head[0] != 0xFF or head[1] & 0xF6 != 0xF0:
        return None
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    shortest = 7 if head[1] & 1 else 9
    if head[2] >> 2 & 15 >= _ADTS_RATES or length < shortest:
        return None
    return length, head[1] << 16 | (head[2] & 0xFD) << 8 | head[3] & 0xC0
