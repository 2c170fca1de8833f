"""Noise of a Piper voice made an input, so that a seed means something.

A Piper voice draws its noise inside the graph (``RandomNormalLike``), from generators that live in
the session, are shared by all its runs and go on from run to run: no request could ever be
repeated. So each such node is replaced, when the file is read, by nodes that take the same shape of
numbers from a new input, a row of numbers that the caller draws. The row is read round and round
where it is too short; nothing else of the graph changes.

Where many processes open the same file, its weights stay in it: the changed graph only says where,
so that onnxruntime maps them and the system keeps them once.

Field numbers are those of onnx.proto3.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from paraudio.engines.families._protobuf import (
    GRAPH_INPUT,
    MODEL_GRAPH,
    Field,
    WireError,
    block,
    block_head,
    fields,
    varint,
)

NOISE_INPUT: Final = "paraudio_noise"
"""Name of the new input: float32, shape [any]."""

_MODEL_OPSET: Final = 8
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_TENSOR_TYPE, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 2, 9, 13, 14
_EXTERNAL: Final = 1
_NODE_INPUT, _NODE_OUTPUT, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INT, _ATTRIBUTE_TYPE = 1, 3, 20
_FLOAT, _TYPE_INT = 1, 2
_WHOLE_NUMBERS: Final = frozenset({6, 7})
"""Types of tensors that may be shapes, which onnxruntime must see in the graph."""
_OLDEST_OPSET: Final = 13
_APART: Final = 10_007
"""Where in the row each node starts behind the one before, so that no two draw the same."""
_LEFT_FROM: Final = 1024
"""Bytes of a tensor that is worth a mapping of its own."""


def feed_noise(model: memoryview, left_in: str | None = None) -> list[bytes | memoryview] | None:
    """Replace the random nodes of an ONNX file by reads of `NOISE_INPUT`.

    Args:
        model: The whole file.
        left_in: The name of that file, if large weights are to be left in it: whoever opens the
            result then needs its folder.

    Returns:
        The changed file in pieces, most of them views of ``model``; None where there is no random
        node, or one of a kind that is not known here, or weights in files beside this one, which
        would not be found from elsewhere: then the file must be used as it is.

    Raises:
        WireError: The file is no ONNX file.
    """
    parts: list[bytes | memoryview] = []
    graphs = 0
    opset = 0
    for field in fields(model):
        if field.number == MODEL_GRAPH:
            graph = _graph(field, left_in)
            if graph is None:
                return None
            graphs += 1
            parts += [block_head(MODEL_GRAPH, sum(map(len, graph))), *graph]
        else:
            parts.append(field.whole)
            opset = max(opset, _opset(field))
    if graphs != 1:
        raise WireError(f"{graphs} graphs in one model")
    return parts if opset >= _OLDEST_OPSET else None


def _opset(field: Field) -> int:
    """The version of the standard operators that the field names, or 0."""
    if field.number != _MODEL_OPSET:
        return 0
    found = {part.number: part for part in fields(field.value)}
    if _OPSET_DOMAIN in found and bytes(found[_OPSET_DOMAIN].value) not in {b"", b"ai.onnx"}:
        return 0
    return found[_OPSET_VERSION].integer if _OPSET_VERSION in found else 0


def _graph(graph: Field, left_in: str | None) -> list[bytes | memoryview] | None:
    parts: list[bytes | memoryview] = []
    count = 0
    for field in fields(graph.value, graph.at):
        if field.number == _GRAPH_INITIALIZER:
            if _is_external(field.value):
                return None
            parts.append(field.whole if left_in is None else _left(field, left_in))
            continue
        if field.number != _GRAPH_NODE or not _is_random(field.value):
            parts.append(field.whole)
            continue
        ends = _ends(field.value)
        if ends is None:
            return None
        like, made = ends
        parts.extend(block(_GRAPH_NODE, node) for node in _reader(like, made, count))
        count += 1
    return [*parts, block(GRAPH_INPUT, _input())] if count else None


def _is_external(tensor: memoryview) -> bool:
    """Whether the values of a tensor lie in another file."""
    return any(field.number == _TENSOR_LOCATION and field.integer for field in fields(tensor))


def _left(tensor: Field, file: str) -> bytes | memoryview:
    """A tensor that says where in a file its values are; one that is small as it is."""
    parts = list(fields(tensor.value, tensor.at))
    raw = next((part for part in parts if part.number == _TENSOR_RAW), None)
    if raw is None or len(raw.value) < _LEFT_FROM or _may_be_shape(parts):
        return tensor.whole
    rest: list[bytes | memoryview] = [part.whole for part in parts if part is not raw]
    place = {"location": file, "offset": str(raw.at), "length": str(len(raw.value))}
    rest += [
        block(_TENSOR_EXTERNAL, block(1, name) + block(2, value)) for name, value in place.items()
    ]
    return block(_GRAPH_INITIALIZER, b"".join([*rest, varint(_TENSOR_LOCATION, _EXTERNAL)]))


def _may_be_shape(tensor: Iterable[Field]) -> bool:
    return any(part.number == _TENSOR_TYPE and part.integer in _WHOLE_NUMBERS for part in tensor)


def _is_random(node: memoryview) -> bool:
    return any(
        field.number == _NODE_OP and bytes(field.value).startswith((b"Random", b"Multinomial"))
        for field in fields(node)
    )


def _ends(node: memoryview) -> tuple[bytes, bytes] | None:
    """The input and the output of a plain ``RandomNormalLike``; None for any other node."""
    like = made = b""
    for field in fields(node):
        text = bytes(field.value)
        if field.number == _NODE_INPUT:
            like = text
        elif field.number == _NODE_OUTPUT:
            made = text
        elif (field.number == _NODE_OP and text != b"RandomNormalLike") or (
            field.number == _NODE_ATTRIBUTE and not _is_float(field.value)
        ):
            return None
    return like, made


def _is_float(attribute: memoryview) -> bool:
    """Whether an attribute says ``dtype = float``; a mean, a scale or a seed does not."""
    found = {part.number: part for part in fields(attribute)}
    name, value = found.get(_ATTRIBUTE_NAME), found.get(_ATTRIBUTE_INT)
    if name is None or value is None:
        return False
    return bytes(name.value) == b"dtype" and value.integer == _FLOAT


def _reader(like: bytes, made: bytes, index: int) -> Iterator[bytes]:
    """Nodes that give ``made`` the shape of ``like``, filled from the row from a place on."""
    name = f"{NOISE_INPUT}_{index}"

    def inner(part: str) -> str:
        return f"{name}_{part}"

    yield _node("Shape", [like], inner("shape"))
    yield _node("ReduceProd", [inner("shape")], inner("size"), _int("keepdims", 0))
    yield _node("Constant", [], inner("start"), _int("value_int", index * _APART))
    yield _node("Constant", [], inner("one"), _int("value_int", 1))
    yield _node("Add", [inner("start"), inner("size")], inner("end"))
    yield _node("Range", [inner("start"), inner("end"), inner("one")], inner("places"))
    yield _node("Shape", [NOISE_INPUT], inner("length"))
    yield _node("Mod", [inner("places"), inner("length")], inner("wrapped"))
    yield _node("Gather", [NOISE_INPUT, inner("wrapped")], inner("row"))
    yield _node("Reshape", [inner("row"), inner("shape")], made)


def _node(
    op: str, inputs: Sequence[str | bytes], output: str | bytes, attribute: bytes = b""
) -> bytes:
    """A node; it has no name, as it need not have one."""
    return (
        b"".join(block(_NODE_INPUT, name) for name in inputs)
        + block(_NODE_OUTPUT, output)
        + block(_NODE_OP, op)
        + (block(_NODE_ATTRIBUTE, attribute) if attribute else b"")
    )


def _int(name: str, value: int) -> bytes:
    return (
        block(_ATTRIBUTE_NAME, name)
        + varint(_ATTRIBUTE_INT, value)
        + varint(_ATTRIBUTE_TYPE, _TYPE_INT)
    )


def _input() -> bytes:
    """ValueInfoProto of the row: a tensor of floats with one free dimension."""
    shape = block(2, block(1, block(2, "paraudio_noise_length")))
    return block(1, NOISE_INPUT) + block(2, block(1, varint(1, _FLOAT) + shape))
