"""Long texts of a JSON document, taken out before it is parsed.

The parser looks at each character of a text in one go, with the interpreter's lock held: a
recording of an hour in base64 would hold up every other request. So such texts are cut out piece by
piece, a mark stands in for each while the rest is parsed, and then they are put back.
"""

import itertools
import secrets
from collections.abc import Iterator
from typing import Final

LONG: Final = 2**20
"""A longer document or text is treated so; a shorter one takes the parser a millisecond."""

_SLICE: Final = 2**20

_MOST_QUOTES: Final = 500_000
"""Looking for long texts among more quotes would take longer than the parser does."""

_MOST_SLASHES: Final = 64


class Lifted:
    """A document without its long texts."""

    def __init__(self, data: bytes) -> None:
        """Take them out.

        Args:
            data: The document, which need not be valid.
        """
        self._mark = secrets.token_hex(16)
        self._texts: list[str] = []
        self.rest = self._lift(data)
        """The document with marks."""

    def put_back(self, value: object) -> object:
        """The parsed document with its texts again."""
        if not self._texts:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.put_back(item) for item in value]
        if isinstance(value, dict):
            return {self._text(key): self.put_back(item) for key, item in value.items()}
        return value

    def _lift(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        done = at = 0
        quotes = itertools.count()
        while (start := data.find(b'"', at)) >= 0:
            end = _closing(data, start + 1, quotes)
            if end is None:
                break
            if end - start > LONG and (text := _plain(data, start + 1, end)) is not None:
                kept += [data[done : start + 1], f"{self._mark}{len(self._texts)}".encode()]
                self._texts.append(text)
                done = end
            at = end + 1
        return b"".join([*kept, data[done:]]) if kept else data

    def _text(self, value: str) -> str:
        if not value.startswith(self._mark):
            return value
        return self._texts[int(value[len(self._mark) :])]


def _closing(data: bytes, start: int, quotes: Iterator[int]) -> int | None:
    """Where a text that begins at a place ends; None where it does not, or it is hard to say."""
    at = start
    while (at := data.find(b'"', at)) >= 0 and next(quotes) < _MOST_QUOTES:
        before = data[max(start, at - _MOST_SLASHES) : at]
        slashes = len(before) - len(before.rstrip(b"\\"))
        if slashes == _MOST_SLASHES:
            return None
        if slashes % 2 == 0:
            return at
        at += 1
    return None


def _plain(data: bytes, start: int, end: int) -> str | None:
    """A text in which each byte is a letter as it stands, as in base64; None for any other."""
    pieces: list[str] = []
    for at in range(start, end, _SLICE):
        piece = data[at : min(at + _SLICE, end)]
        if not piece.isascii() or b"\\" in piece:
            return None
        text = piece.decode("ascii")
        if not text.isprintable():
            return None
        pieces.append(text)
    return "".join(pieces)
