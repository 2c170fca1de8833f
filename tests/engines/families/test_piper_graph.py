import contextlib
import os
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.engines.families.tiny_voices import tiny_model

from paraudio.engines import Samples, Stop
from paraudio.engines._ort import OrtSession, Tensor, open_session
from paraudio.engines.families import _piper_graph
from paraudio.engines.families._memory import memory_file
from paraudio.engines.families._piper_graph import NOISE_INPUT, feed_noise
from paraudio.engines.families._protobuf import WireError, block, fields, skim, varint

TINY = tiny_model()
SCALES = np.array([0.5, 1.0, 0.5], dtype=np.float32)


def fed(model: bytes) -> OrtSession:
    parts = feed_noise(memoryview(model))
    assert parts is not None
    return open_session(b"".join(parts))


def speak(session: OrtSession, noise: Samples | None, scales: Samples = SCALES) -> Samples:
    feeds: dict[str, Tensor] = {
        "input": np.array([[1, 2, 3, 4, 5]], dtype=np.int64),
        "input_lengths": np.array([5], dtype=np.int64),
        "scales": scales,
    }
    if noise is not None:
        feeds[NOISE_INPUT] = noise
    (output,) = session.run(feeds, Stop())
    return np.asarray(output, dtype=np.float32).reshape(-1)


def row(seed: int, size: int = 5000) -> Samples:
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


def test_same_noise_gives_the_same_sound_and_other_noise_another() -> None:
    session = fed(TINY)
    assert {info.name for info in session.inputs} >= {NOISE_INPUT, "input", "scales"}
    first = speak(session, row(1))
    np.testing.assert_array_equal(speak(session, row(1)), first)
    assert not np.array_equal(speak(session, row(2)), first)


def test_weights_may_stay_in_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_piper_graph, "_LEFT_FROM", 1)
    model = onnx.load_from_string(TINY)
    for tensor in model.graph.initializer:  # as real voices have them
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    file = tmp_path / "voice.onnx"
    file.write_bytes(model.SerializeToString())
    parts = feed_noise(memoryview(file.read_bytes()), left_in=file.name)
    assert parts is not None
    graph = b"".join(parts)
    for tensor in onnx.load_from_string(graph).graph.initializer:
        # Shapes are read before anything is mapped.
        left = tensor.data_type == TensorProto.FLOAT
        assert (tensor.data_location == TensorProto.EXTERNAL) == left
        assert bool(tensor.raw_data) != left
    mapped = open_session(graph, weights=tmp_path)
    np.testing.assert_array_equal(speak(mapped, row(1)), speak(fed(TINY), row(1)))


def test_small_weights_are_not_worth_a_mapping() -> None:
    parts = feed_noise(memoryview(TINY), left_in="voice.onnx")
    assert parts is not None
    assert b"".join(parts) == b"".join(feed_noise(memoryview(TINY)) or [])


def test_unchanged_graph_could_not_be_repeated() -> None:
    session = open_session(TINY)
    assert not np.array_equal(speak(session, None), speak(session, None))


def test_without_noise_the_changed_graph_is_the_old_one() -> None:
    still = np.array([0, 1, 0], dtype=np.float32)
    old = speak(open_session(TINY), None, still)
    np.testing.assert_array_equal(speak(fed(TINY), row(1), still), old)


def test_sound_holds_the_very_noise_that_was_given() -> None:
    session = fed(TINY)
    noise = row(3)
    plain = speak(session, noise, np.array([0, 1, 0], dtype=np.float32))
    hissing = speak(session, noise, np.array([1, 1, 0], dtype=np.float32))
    drawn = (hissing - plain) * 100
    place = int(np.argmin(np.abs(noise - drawn[0])))
    assert place > 0
    np.testing.assert_allclose(drawn, noise[place : place + len(drawn)], atol=1e-4)


def test_two_nodes_draw_different_numbers() -> None:
    session = fed(TINY)
    noise = row(4, 50_000)
    plain = speak(session, noise, np.array([0, 1, 0], dtype=np.float32))
    bent = speak(session, noise, np.array([0, 1, 1], dtype=np.float32)) - plain
    hissed = speak(session, noise, np.array([1, 1, 0], dtype=np.float32)) - plain
    np.testing.assert_allclose(bent[::32] * 100, noise[:5], atol=1e-4)
    assert abs(float(bent[0] - hissed[0])) > 1e-6


def test_short_row_is_read_round_and_round() -> None:
    session = fed(TINY)
    one = speak(session, np.array([0.25], dtype=np.float32))
    np.testing.assert_allclose(np.diff(one[:32]), 0)
    assert np.isfinite(speak(session, row(1, 7))).all()


@pytest.mark.parametrize(
    "model",
    [
        tiny_model(opset=12, random="RandomUniformLike"),
        tiny_model(mean=1.0),
        tiny_model(scale=2.0),
        tiny_model(seed=7.0),
        tiny_model(dtype=11),
    ],
    ids=["another kind", "mean", "scale", "seed", "double"],
)
def test_noise_of_another_kind_is_left_alone(model: bytes) -> None:
    assert feed_noise(memoryview(model)) is None


def test_graph_without_noise_is_left_alone() -> None:
    assert feed_noise(memoryview(_constant(15))) is None


def test_weights_in_another_file_are_left_alone() -> None:
    model = onnx.load_model_from_string(TINY)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    assert feed_noise(memoryview(model.SerializeToString())) is None


def test_old_operators_are_left_alone() -> None:
    assert feed_noise(memoryview(TINY.replace(b"\x10\x0f", b"\x10\x0c"))) is None


def test_file_that_is_no_message_is_refused() -> None:
    for data in (b"", b"hello, this is no model", b"\x00" * 100, TINY[:-5]):
        with pytest.raises(WireError):
            feed_noise(memoryview(data))


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_left_alone(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert feed_noise(memoryview(data)) is None


@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_damaged_model_ends_in_no_other_error(places: list[tuple[float, int]]) -> None:
    data = bytearray(TINY)
    for place, value in places:
        data[min(int(place * len(data)), len(data) - 1)] = value
    with contextlib.suppress(WireError):
        feed_noise(memoryview(data))


@given(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=300))
def test_fields_are_read_as_they_were_written(number: int, value: int, content: bytes) -> None:
    message = varint(number, value) + block(number, content)
    first, second = fields(memoryview(message))
    assert (first.number, first.integer) == (number, value)
    assert (second.number, bytes(second.value)) == (number, content)
    assert bytes(first.whole) + bytes(second.whole) == message
    skimmed = [
        (number, begin, end) for number, begin, end in skim(BytesIO(message), 0, len(message))
    ]
    assert skimmed[0][0] == skimmed[1][0] == number
    _, begin, end = skimmed[1]
    assert message[begin:end] == content


@pytest.mark.parametrize("on_linux", [True, False])
def test_file_in_memory_is_gone_with_its_block(
    on_linux: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not on_linux:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with memory_file([b"ab", memoryview(b"cd")]) as path:
        assert Path(path).read_bytes() == b"abcd"
    assert not Path(path).exists()


def _constant(opset: int) -> bytes:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    given = helper.make_tensor("y", TensorProto.FLOAT, [1], [1.0])
    node = helper.make_node("Constant", [], ["y"], value=given)
    graph = helper.make_graph([node], "constant", [], [value])
    opsets = [helper.make_opsetid("", opset)]
    data: bytes = helper.make_model(graph, opset_imports=opsets).SerializeToString()
    return data
