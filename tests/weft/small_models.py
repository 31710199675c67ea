"""Models like those of the zoo, small enough for tests that run them many times or slowly."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from weft.frontend.zoo.minilm import Encoder, bert
from weft.frontend.zoo.model_builder import ModelBuilder

SIDE, CLASSES = 13, 7


def conv_net() -> onnx.ModelProto:
    """float32 "input" (1, 3, 13, 13) -> "output" (1, 7): two convolutions, one of them in groups,
    a residual connection, pooling, a classifier."""
    build = ModelBuilder("conv_net", np.random.default_rng(1))
    x = _block(build, "input", "first", (10, 3, 3, 3), strides=[2, 2])
    y = _block(build, x, "second", (10, 1, 3, 3), group=10)
    y = build.node("Relu", build.node("Add", x, y))
    y = build.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    flat = build.node("Flatten", build.node("GlobalAveragePool", y), axis=1)
    weight, bias = build.weight("w", (CLASSES, 10), 0.3), build.weight("b", (CLASSES,), 0.3)
    scores = build.node("Gemm", flat, weight, bias, transB=1)
    return build.model(
        {"input": (TensorProto.FLOAT, (1, 3, SIDE, SIDE))}, {"output": (scores, (1, CLASSES))}
    )


def _block(
    build: ModelBuilder, x: str, name: str, shape: tuple[int, ...], **attributes: object
) -> str:
    weight = build.weight(f"{name}.weight", shape, 1 / math.sqrt(math.prod(shape[1:])))
    y = build.node("Conv", x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1], **attributes)
    statistics = [
        build.constant(f"{name}.{k}", build.random.uniform(0.5, 1.5, shape[0]).astype(np.float32))
        for k in ("scale", "bias", "mean", "variance")
    ]
    return build.node("BatchNormalization", y, *statistics)


def transformer() -> onnx.ModelProto:
    """The zoo's sentence encoder with one layer, 24 wide, of 3 heads, on 11 tokens."""
    sizes = Encoder(
        "minilm", layers=1, width=24, heads=3, inner=40, vocabulary=50, positions=20, sequence=11
    )
    return bert(sizes, seed=6)


MODELS = {"conv_net": conv_net, "transformer": transformer}


def seeded_inputs(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random images, or tokens of which the last two are padding."""
    random = np.random.default_rng(seed)
    found = {}
    for value in model.graph.input:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            found[value.name] = random.standard_normal(shape, np.float32)
        elif value.name == "attention_mask":
            found[value.name] = np.r_[np.ones(shape[1] - 2), 0, 0].astype(np.int64)[None]
        else:
            high = 50 if value.name == "input_ids" else 2
            found[value.name] = random.integers(0, high, shape)
    return found
