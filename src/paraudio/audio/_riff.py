"""Wav files, made plain before a library reads them.

Recorders write sizes that they do not know yet (0, 0x7FFFFFFF, 0xFFFFFFFF), put chunks of their own
before the sound, and lose their ends. Libraries differ in what they make of that; so the chunks are
read here, and what is passed on is one canonical head and the bytes of the sound.
"""

import struct
from dataclasses import dataclass
from typing import Final

_MAX_CHUNKS: Final = 1000
_UNKNOWN_FROM: Final = 0x7FFF0000
"""Sizes from here on are what pipes write when they cannot know the size."""

_LONG_UNKNOWN_FROM: Final = 2**62
"""The same for sizes of 64 bits; besides, a pipe leaves the room for one at zero."""

_FOLLOWERS: Final = frozenset({b"LIST", b"id3 ", b"ID3 ", b"fact", b"cue ", b"smpl", b"bext"})
_FMT_MIN: Final = 16
_PLAIN_KINDS: Final = frozenset({1, 3, 0xFFFE})
"""Integers, floats and the extensible form; the others pack samples in ways of their own."""


class BadWavError(Exception):
    """The file is no complete wav file; the message says why, for the caller."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The name of a chunk, where its content starts, and what it says is its size."""

    name: bytes
    start: int
    size: int


def plain_wav(data: memoryview) -> tuple[bytes, memoryview]:
    """Split a wav file into a canonical head and its sound.

    Args:
        data: The file, from ``RIFF`` or ``RF64`` on.

    Returns:
        Bytes of a head that names exactly the sound that follows, and the bytes of the sound.

    Raises:
        BadWavError: A chunk is missing, or the sound is shorter than the file says.
    """
    fmt, fact, long_size, sound = _chunks(data)
    body, whole = _body(data, sound, long_size, fmt)
    extra = fact if whole else b""
    size = 4 + len(fmt) + len(extra) + 8 + len(body)
    head = b"".join(
        (
            struct.pack("<4sI4s", b"RIFF", min(size, 0xFFFFFFFF), b"WAVE"),
            fmt,
            extra,
            struct.pack("<4sI", b"data", min(len(body), 0xFFFFFFFF)),
        )
    )
    return head, body


def _chunks(data: memoryview) -> tuple[bytes, bytes, int | None, _Chunk]:
    """The ``fmt`` and ``fact`` chunks whole, the 64 bit size if there is one, and ``data``."""
    fmt = fact = b""
    long_size: int | None = None
    at = 12
    for _ in range(_MAX_CHUNKS):
        if at + 8 > len(data):
            raise BadWavError("the wav file ends before its sound begins")
        name, size = struct.unpack_from("<4sI", data, at)
        chunk = _Chunk(name, at + 8, size)
        if name == b"data":
            if not fmt:
                raise BadWavError("the wav file has no format chunk before its sound")
            _check_frames(fmt)
            return fmt, fact, long_size, chunk
        if name == b"fmt ":
            fmt = _whole(data, chunk)
        elif name == b"fact":
            fact = _whole(data, chunk)
        elif name == b"ds64" and size >= 16 and chunk.start + 16 <= len(data):
            (long_size,) = struct.unpack_from("<Q", data, chunk.start + 8)
        at = chunk.start + size + size % 2
    raise BadWavError(f"the wav file has more than {_MAX_CHUNKS} chunks before its sound")


def _check_frames(fmt: bytes) -> None:
    """Refuse frames that are too small for the samples that they are said to hold."""
    kind, channels, _, _, block, bits = struct.unpack_from("<HHIIHH", fmt, 8)
    if kind in _PLAIN_KINDS and block < channels * -(-bits // 8):
        raise BadWavError(
            f"the wav file says that {channels} samples of {bits} bits are {block} bytes"
        )


def _whole(data: memoryview, chunk: _Chunk) -> bytes:
    """The chunk with its head and pad byte; only small ones are kept."""
    if chunk.start + chunk.size > len(data) or chunk.size > 4096:
        raise BadWavError(f"the {chunk.name.decode('latin-1')!r} chunk of the wav file is broken")
    if chunk.name == b"fmt " and chunk.size < _FMT_MIN:
        raise BadWavError("the format chunk of the wav file is too short")
    content = bytes(data[chunk.start : chunk.start + chunk.size])
    return struct.pack("<4sI", chunk.name, chunk.size) + content + b"\0" * (chunk.size % 2)


def _body(
    data: memoryview, sound: _Chunk, long_size: int | None, fmt: bytes
) -> tuple[memoryview, bool]:
    """The bytes of the sound, and whether the file itself says where it ends."""
    rest = data[sound.start :]
    size = sound.size
    if size == 0xFFFFFFFF and long_size is not None and 0 < long_size < _LONG_UNKNOWN_FROM:
        size = long_size
    elif size >= _UNKNOWN_FROM and size > len(rest):
        return rest, False
    elif size == 0:
        return (rest[:0], True) if _is_chunk(rest) else (rest, False)
    (block,) = struct.unpack_from("<H", fmt, 8 + 12)
    if size - len(rest) > max(block, 1):
        raise BadWavError(
            f"the wav file is cut off: it says that it holds {size} bytes of sound"
            f" and holds {len(rest)}"
        )
    return rest[:size], True


def _is_chunk(rest: memoryview) -> bool:
    """Whether another chunk follows at once, so that a size of 0 means what it says."""
    if len(rest) < 8 or bytes(rest[:4]) not in _FOLLOWERS:
        return False
    (size,) = struct.unpack_from("<I", rest, 4)
    return bool(8 + size <= len(rest))
