"""Models of a few units, for tests of placements."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = np.random.default_rng(5).normal(size=(3, 7, 7)).astype(np.float32)


def value(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def layers(rows: int | str = 5) -> onnx.ModelProto:
    """softmax(relu(x·w0)·w1)·w2 of (rows, 7) matrices, and the softmax itself."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"]),
        helper.make_node("Softmax", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "layers",
        [value("x", rows, 7)],
        [value("y", rows, 7), value("d", rows, 7)],
        [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(WEIGHTS)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``layers`` computes, in float64."""
    c = np.maximum(x.astype(np.float64) @ WEIGHTS[0], 0) @ WEIGHTS[1]
    e = np.exp(c - c.max(axis=1, keepdims=True))
    d = e / e.sum(axis=1, keepdims=True)
    return d @ WEIGHTS[2], d


def data(rows: int = 5) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, 7)).astype(np.float32)
