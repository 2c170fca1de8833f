"""The tables of mp4 files, looked at before a demuxer builds what they ask for.

A table of a few bytes can say that a thousand million pieces of sound follow, and a demuxer makes
room for each before it reads any. So the counts are added up first, and an absurd sum is refused.
All else, also what is broken, is left to the demuxer. (ISO 14496-12: 4.2 boxes, 8.6 and 8.7 tables,
8.8 fragments.)
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from paraudio.audio._source import UnusableError

MAX_PIECES: Final = 4_000_000
"""The most pieces of sound or picture that one file may list: 23 hours of aac as it is usual."""

_MAX_BOXES: Final = 300_000
_LOOK_EVERY: Final = 10_000
_MAX_DEPTH: Final = 12
_FOLDERS: Final = frozenset(
    {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"free", b"hoov"}
    | {b"udta", b"dinf", b"sinf", b"schi", b"wave", b"tref", b"mvex", b"ilst", b"skip", b"strk"}
)
"""Boxes in which a demuxer looks for others, usual or not."""

_WHOLE: Final = frozenset({b"mdat", b"moov", b"moof", b"trak", b"mdia", b"minf", b"stbl", b"traf"})
"""Boxes without whose end a file is not complete."""

_PLAIN_SOUND: Final = frozenset(
    {b"raw ", b"NONE", b"twos", b"sowt", b"in24", b"in32", b"fl32", b"fl64", b"lpcm", b"ipcm"}
    | {b"ulaw", b"alaw", b"fpcm"}
)
_AT_ONCE: Final = 1024
"""Frames of plain sound, each of which is a piece of its own, that a demuxer takes together."""


def check_tables(data: memoryview, look: Callable[[], None]) -> None:
    """Refuse an mp4 file whose tables list too much.

    Args:
        data: The file.
        look: Called now and then; what it raises ends the work.

    Raises:
        UnusableError: They do, or the file has more boxes than any.
    """
    _Walk(data, look).folder(0, len(data), 0)


@dataclass
class _Track:
    """What the tables of one track say."""

    pieces: int = 0
    chunks: int = 0
    most_in_chunk: int = 0
    edits: int = 0
    durations: list[bytes] = field(default_factory=list)
    codecs: list[bytes] = field(default_factory=list)

    def listed(self) -> int:
        """How many pieces a demuxer makes room for."""
        held = self.chunks * self.most_in_chunk
        if self._is_plain():
            return held // _AT_ONCE + self.chunks
        return min(self.pieces, held) * max(self.edits, 1)

    def _is_plain(self) -> bool:
        """Whether each frame of sound is a piece, and they are taken many at once."""
        return (
            len(self.durations) == len(self.codecs) == 1
            and self.codecs[0] in _PLAIN_SOUND
            and self.durations[0][:4] == b"\0\0\0\1"
            and self.durations[0][8:] == b"\0\0\0\1"
        )


class _Walk:
    """One walk over all boxes, in order."""

    def __init__(self, data: memoryview, look: Callable[[], None]) -> None:
        self._data = data
        self._look = look
        self._boxes = 0
        self._listed = 0
        self._track = _Track()

    def folder(self, start: int, end: int, depth: int) -> None:
        """Look at the boxes between two places."""
        for name, content in self._each(start, end):
            if name == b"cmov":
                raise UnusableError("its head is compressed (cmov)")
            if name == b"trak":
                self._track = _Track()
            if name in _FOLDERS:
                if depth < _MAX_DEPTH:
                    self.folder(*content, depth + 1)
            else:
                self._table(name, self._data[slice(*content)])
            if name == b"trak":
                self._add(self._track.listed())

    def _each(self, start: int, end: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """The name of each box, and where its content begins and ends."""
        at = start
        while at + 8 <= end:
            self._boxes += 1
            if self._boxes % _LOOK_EVERY == 0:
                self._look()
            if self._boxes > _MAX_BOXES:
                raise UnusableError(f"it has more than {_MAX_BOXES} boxes")
            size, name = struct.unpack_from(">I4s", self._data, at)
            begin = at + 8
            if size == 1 and at + 16 <= end:
                (size,) = struct.unpack_from(">Q", self._data, begin)
                begin += 8
            stop = end if size == 0 else min(at + size, end)
            if at + size > len(self._data) and name in _WHOLE:
                raise UnusableError("the mp4 is cut off, or its boxes are damaged")
            if stop < begin:
                return
            yield name, (begin, stop)
            at = stop

    def _table(self, name: bytes, table: memoryview) -> None:
        track = self._track
        if name in {b"stsz", b"stz2"}:
            track.pieces += _word(table, 2)
        elif name in {b"stco", b"co64"}:
            track.chunks += _word(table, 1)
        elif name == b"stsc":
            track.most_in_chunk = max(track.most_in_chunk, _most_in_chunk(table))
        elif name == b"elst":
            track.edits += _word(table, 1)
        elif name == b"stts":
            track.durations.append(bytes(table[4:17]))
        elif name == b"stsd":
            track.codecs.append(bytes(table[12:16]))
        elif name == b"trun":
            self._add(_word(table, 1))

    def _add(self, pieces: int) -> None:
        self._listed += pieces
        if self._listed > MAX_PIECES:
            raise UnusableError(f"its tables list more than {MAX_PIECES} pieces of sound")


def _word(table: memoryview, index: int) -> int:
    """The word at an index, of 32 bits; 0 where the table is shorter."""
    if len(table) < 4 * index + 4:
        return 0
    (value,) = struct.unpack_from(">I", table, 4 * index)
    return int(value)


def _most_in_chunk(table: memoryview) -> int:
    """The largest count of pieces in one chunk: the second of the three words of a run."""
    whole = (len(table) - 8) // 12
    if whole < 1:
        return 0
    runs = np.frombuffer(table, dtype=">u4", count=whole * 3, offset=8)
    return int(runs[1::3].max())
