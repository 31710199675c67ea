"""Tiny ONNX models for accelerators: to be quantised, and quantised already."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from weft.frontend.zoo.model_builder import ModelBuilder

SIDE = 7


def residual_net() -> onnx.ModelProto:
    """float32 "input" (1, 3, 7, 7) -> "output" (1, 5): two convolutions, what goes around the
    second one, a classifier, softmax."""
    build = ModelBuilder("residual_net", np.random.default_rng(3))
    first = build.weight("first", (16, 3, 3, 3), 0.2)
    second = build.weight("second", (16, 16, 3, 3), 0.1)
    x = build.node("Relu", build.node("Conv", "input", first, pads=[1] * 4))
    y = build.node("Conv", x, second, build.weight("bias", (16,), 0.1), pads=[1] * 4)
    y = build.node("Relu", build.node("Add", y, x))
    flat = build.node("Flatten", build.node("GlobalAveragePool", y), axis=1)
    scores = build.node("Gemm", flat, build.weight("w", (5, 16), 0.3), transB=1)
    return build.model(
        {"input": (TensorProto.FLOAT, (1, 3, SIDE, SIDE))},
        {"output": (build.node("Softmax", scores, axis=1), (1, 5))},
    )


def softmax_net() -> onnx.ModelProto:
    """Nothing but a softmax."""
    build = ModelBuilder("softmax_net", np.random.default_rng(3))
    y = build.node("Softmax", "input", axis=1)
    return build.model({"input": (TensorProto.FLOAT, (2, 9))}, {"output": (y, (2, 9))})


def conv_net() -> onnx.ModelProto:
    """One convolution, and so one stream."""
    build = ModelBuilder("one_conv", np.random.default_rng(4))
    y = build.node("Conv", "input", build.weight("w", (16, 8, 3, 3), 0.2), pads=[1] * 4)
    return build.model(
        {"input": (TensorProto.FLOAT, (1, 8, SIDE, SIDE))}, {"output": (y, (1, 16, SIDE, SIDE))}
    )


def _integers(
    name: str, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], kind: int
) -> onnx.ModelProto:
    shape = [1, 16, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [numpy_helper.from_array(array, key) for key, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _constants() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {
        "w": random.integers(-60, 60, (16, 16, 3, 3)).astype(np.int8),
        "bias": random.integers(-900, 900, 16).astype(np.int32),
        "zero": np.int8(0),
        "small": np.float32(2.0**-7),
        "large": np.float32(2.0**-3),
        "product": np.float32(2.0**-14),
    }


def qlinear_conv() -> onnx.ModelProto:
    """int8 "x" -> int8 "y" (1, 16, 7, 7) by QLinearConv, scales powers of two."""
    names = ["x", "small", "zero", "w", "small", "zero", "large", "zero", "bias"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4)
    given = _constants()
    del given["product"]
    return _integers("qlinear", [node], given, TensorProto.INT8)


def qdq_conv() -> onnx.ModelProto:
    """float32 "x" -> float32 "y": the same between QuantizeLinear and DequantizeLinear."""
    dequantize, quantize = "DequantizeLinear", "QuantizeLinear"
    nodes = [
        helper.make_node(quantize, ["x", "small", "zero"], ["qx"]),
        helper.make_node(dequantize, ["qx", "small", "zero"], ["fx"]),
        helper.make_node(dequantize, ["w", "small", "zero"], ["fw"]),
        helper.make_node(dequantize, ["bias", "product"], ["fb"]),
        helper.make_node("Conv", ["fx", "fw", "fb"], ["conv"], pads=[1] * 4),
        helper.make_node(quantize, ["conv", "large", "zero"], ["qy"]),
        helper.make_node(dequantize, ["qy", "large", "zero"], ["y"]),
    ]
    return _integers("qdq", nodes, _constants(), TensorProto.FLOAT)
