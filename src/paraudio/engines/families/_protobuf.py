"""As much of the protocol buffer wire format as an ONNX file needs to be changed in a few places.

A message is a row of fields, each a key (number and wire type) and a value; a value of a length
gives its bytes (protobuf.dev, "Encoding"). Fields are found as spans of the original memory, so a
file of a hundred megabytes is changed without being copied or understood as a whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

MODEL_GRAPH: Final = 7
GRAPH_INPUT: Final = 11
"""Numbers of fields in onnx.proto3: the graph of a model, and an input of a graph."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_HEAD_BYTES: Final = 20
"""A key and a length have no more."""


class WireError(ValueError):
    """The bytes are no protocol buffer message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: Its number in the schema.
        whole: All its bytes, key included.
        value: The bytes of a field that has a length; empty for the others.
        at: Where ``value`` begins, in bytes from the start of the outermost message.
        integer: The value of a varint field; 0 for the others.
    """

    number: int
    whole: memoryview
    value: memoryview
    at: int
    integer: int = 0


def fields(message: memoryview, base: int = 0) -> Iterator[Field]:
    """The fields of a message, in order.

    Args:
        message: The message.
        base: Where it begins itself, in bytes from the start of the outermost message.

    Raises:
        WireError: The bytes are no message.
    """
    at = 0
    while at < len(message):
        number, kind, held, begin = _head(message, at, at)
        end = begin if kind == _VARINT else begin + held
        if end > len(message):
            raise WireError(f"a field at byte {at} goes beyond the end")
        value = message[begin if kind == _BYTES else end : end]
        integer = held if kind == _VARINT else 0
        yield Field(number, message[at:end], value, base + end - len(value), integer)
        at = end


def skim(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message in a file, by their heads alone.

    Args:
        file: The file.
        start: Where the message begins.
        end: Where it ends.

    Yields:
        The number of each field, and where its value begins and ends.

    Raises:
        WireError: The bytes are no message.
    """
    while start < end:
        file.seek(start)
        number, kind, held, at = _head(memoryview(file.read(_HEAD_BYTES)), 0, start)
        begin = start + at
        start = begin if kind == _VARINT else begin + held
        if start > end:
            raise WireError(f"a field at byte {begin} goes beyond the end")
        yield number, begin, start


def varint(number: int, value: int) -> bytes:
    """A field that holds a number of at least 0."""
    return _raw(number << 3 | _VARINT) + _raw(value)


def block(number: int, content: bytes | str) -> bytes:
    """A field that holds bytes, a string or a message."""
    data = content.encode() if isinstance(content, str) else content
    return block_head(number, len(data)) + data


def block_head(number: int, length: int) -> bytes:
    """The bytes in front of ``length`` bytes of a field."""
    return _raw(number << 3 | _BYTES) + _raw(length)


def _head(message: memoryview, at: int, place: int) -> tuple[int, int, int, int]:
    """What a field begins with.

    Args:
        message: Bytes that hold it.
        at: Where it begins in them.
        place: Where that is, for an error.

    Returns:
        Its number in the schema, its wire type, its value or else its length, and where it ends.
    """
    key, begin = _varint(message, at)
    kind = key & 7
    if kind in {_VARINT, _BYTES}:
        held, begin = _varint(message, begin)
    elif kind in {_FIXED64, _FIXED32}:
        held = 8 if kind == _FIXED64 else 4
    else:
        raise WireError(f"wire type {kind} at byte {place}")
    return key >> 3, kind, held, begin


def _raw(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise WireError(f"a number at byte {at} does not end")
