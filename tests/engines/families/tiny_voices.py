"""Piper voices small enough to be made on the spot: they hum, and draw noise as real ones do."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper

from paraudio.engines import Load
from paraudio.spec import Json

RATE = 16_000
LETTERS = "_^$ .,?!:;abcdefghijklmnopqrstuvwxyz"
SAMPLES = 32
"""Samples of each number that the voice reads, at length_scale 1."""


def tiny_model(
    *,
    speakers: int = 1,
    opset: int = 15,
    random: str = "RandomNormalLike",
    endless: bool = False,
    **random_attributes: float,
) -> bytes:
    """A model with the inputs and the output of a Piper voice.

    Its sound is each number held for a while, bent by noise that ``noise_w`` scales, with noise on
    top that ``noise_scale`` scales; the speaker shifts it. An endless one never ends a ``q``.
    """
    nodes = [
        _node("Cast", ["input"], "numbers", to=TensorProto.FLOAT),
        _node("Split", ["scales", "ones"], ["noise_scale", "length_scale", "noise_w"], axis=0),
        _node("Mul", ["length_scale", "samples"], "length"),
        _node("Cast", ["length"], "width", to=TensorProto.INT64),
        _node("Shape", ["input"], "read"),
        _node("Concat", ["read", "width"], "shape", axis=0),
        _node("ConstantOfShape", ["read"], "like_numbers"),
        _node(random, ["like_numbers"], "first_noise", **random_attributes),
        _node("Mul", ["first_noise", "noise_w"], "bending"),
        _node("Add", ["numbers", "bending"], "bent"),
        _node("Unsqueeze", ["bent", "last"], "column"),
        _node("Expand", ["column", "shape"], "held"),
        _node("ConstantOfShape", ["shape"], "like_sound"),
        _node(random, ["like_sound"], "second_noise", **random_attributes),
        _node("Mul", ["second_noise", "noise_scale"], "hiss"),
        _node("Add", ["held", "hiss"], "raw"),
        _node("Mul", ["raw", "volume"], "sound"),
        _node("Reshape", ["sound", "row"], "plain" if speakers > 1 or endless else "output"),
    ]
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.INT64, ["batch", "phonemes"]),
        helper.make_tensor_value_info("input_lengths", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
    ]
    if speakers > 1:
        inputs.append(helper.make_tensor_value_info("sid", TensorProto.INT64, ["batch"]))
        nodes += [
            _node("Cast", ["sid"], "shift", to=TensorProto.FLOAT),
            _node("Mul", ["shift", "volume"], "small_shift"),
            _node("Add", ["plain", "small_shift"], "output"),
        ]
    if endless:
        nodes += [
            _node("Equal", ["input", "endless_letter"], "found"),
            _node("Cast", ["found"], "found_number", to=TensorProto.INT64),
            _node("ReduceMax", ["found_number"], "is_found", keepdims=0),
            _node("Cast", ["is_found"], "for_ever", to=TensorProto.BOOL),
            _endless(),
        ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, 1, "samples"])],
        [
            helper.make_tensor("ones", TensorProto.INT64, [3], [1, 1, 1]),
            helper.make_tensor("samples", TensorProto.FLOAT, [1], [SAMPLES]),
            helper.make_tensor("last", TensorProto.INT64, [1], [2]),
            helper.make_tensor("row", TensorProto.INT64, [4], [1, 1, 1, -1]),
            helper.make_tensor("volume", TensorProto.FLOAT, [1], [0.01]),
            helper.make_tensor("endless_letter", TensorProto.INT64, [1], [LETTERS.index("q")]),
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


def tiny_config(speakers: Sequence[str] = (), **changes: Json) -> dict[str, Json]:
    """The description of a voice that reads small letters."""
    return {
        "audio": {"sample_rate": RATE, "quality": "low"},
        "phoneme_type": "text",
        "phoneme_id_map": {letter: [index] for index, letter in enumerate(LETTERS)},
        "num_speakers": max(1, len(speakers)),
        "speaker_id_map": {name: index for index, name in enumerate(speakers)},
        "inference": {"noise_scale": 0.5, "length_scale": 1, "noise_w": 0.5},
        "language": {"code": "en_GB"},
        **changes,
    }


def write_voice(folder: Path, model: bytes, config: Mapping[str, Json]) -> Path:
    """Put a voice into a folder and return its path."""
    path = folder / "tiny.onnx"
    path.write_bytes(model)
    path.with_name("tiny.onnx.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def load_of(path: Path | str, **changes: object) -> Load:
    """A load of a voice."""
    values = {
        "path": str(path),
        "task": "tts",
        "mode": "offline",
        "config": None,
        "weight": None,
        "options": {},
        "session_options": {},
        "model_id": "tiny",
        **changes,
    }
    return Load(**values)  # type: ignore[arg-type] # the values are those of the fields


def held_values(samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[int]:
    """The numbers that a noiseless, unnormalised voice read."""
    return [round(float(value) * 100) for value in samples[::SAMPLES]]


def _node(op: str, inputs: list[str], outputs: str | list[str], **attributes: float) -> NodeProto:
    names = [outputs] if isinstance(outputs, str) else outputs
    node = helper.make_node(op, inputs, names)
    node.attribute.extend(helper.make_attribute(*each) for each in attributes.items())
    return node


def _endless() -> NodeProto:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["more_out"]),
            helper.make_node("Identity", ["value"], ["value_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value_out", TensorProto.FLOAT, None),
        ],
    )
    return helper.make_node("Loop", ["", "for_ever", "plain"], ["output"], body=body)
