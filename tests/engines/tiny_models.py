"""Small ONNX models for tests, made on the spot."""

from onnx import GraphProto, TensorProto, ValueInfoProto, helper


def doubling() -> bytes:
    """``y = x + x`` over one free dimension, with a key in its metadata."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "doubling", [_vector("x")], [_vector("y")]
    )
    return _model(graph)


def endless() -> bytes:
    """A loop that never ends by itself."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["more_out"]),
            helper.make_node("Add", ["value", "value"], ["value_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            _vector("value"),
        ],
        [helper.make_tensor_value_info("more_out", TensorProto.BOOL, []), _vector("value_out")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "always", "x"], ["y"], body=body)],
        "endless",
        [_vector("x")],
        [_vector("y")],
        [helper.make_tensor("always", TensorProto.BOOL, [], [True])],
    )
    return _model(graph)


def _vector(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])


def _model(graph: GraphProto) -> bytes:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, {"maker": "a test"})
    data: bytes = model.SerializeToString()
    return data
