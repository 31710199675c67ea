"""Models straight from onnxruntime's quantiser, in each of its formats, beside what onnxruntime
makes of them, unoptimised."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

try:
    from onnxruntime import quantization
except ImportError:
    warnings.warn("quantised models are NOT compared: onnxruntime is missing", stacklevel=1)
    pytest.skip("onnxruntime is not installed: pip install 'weft[peers]'", allow_module_level=True)

import weft
from tests.end_to_end.random_oracle import onnxruntime_session
from weft.frontend.zoo.model_builder import ModelBuilder

Make = Callable[[], onnx.ModelProto]
OPTIONS = weft.Options(threads=1, cache=False, workers=0)
CNN_SHAPE, WIDTH, HEADS, TOKENS = (1, 3, 15, 15), 32, 4, 13


def cnn() -> onnx.ModelProto:
    """Convolutions with a residual sum, beside pooled ones under a gate; a classifier."""
    build = ModelBuilder("cnn", np.random.default_rng(0))
    x = build.node("Relu", build.node("Conv", "input", build.weight("a", (8, 3, 3, 3), 0.2)))
    y = build.node("Conv", x, build.weight("b", (8, 8, 3, 3), 0.1), pads=[1] * 4)
    y = build.node("Add", y, x)
    z = build.node("LeakyRelu", build.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4))
    z = build.node("Mul", z, build.node("Sigmoid", y))
    y = build.node("GlobalAveragePool", build.node("Concat", y, z, axis=1))
    scores = build.node("Gemm", build.node("Flatten", y), build.weight("w", (16, 5), 0.3))
    output = build.node("Softmax", scores, axis=1)
    return build.model({"input": (TensorProto.FLOAT, CNN_SHAPE)}, {"output": (output, (1, 5))})


def transformer() -> onnx.ModelProto:
    """Two layers of attention and a GELU, normalised before."""
    build = ModelBuilder("transformer", np.random.default_rng(1))

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        weight = build.weight(name, (rows, columns), rows**-0.5)
        return build.node(
            "Add", build.node("MatMul", x, weight), build.weight(f"{name}_bias", (columns,), 0.1)
        )

    def norm(x: str, name: str) -> str:
        scale = build.constant(f"{name}_scale", np.ones(WIDTH, np.float32))
        return build.node(
            "LayerNormalization", x, scale, build.weight(f"{name}_shift", (WIDTH,), 0.1)
        )

    def gelu(x: str) -> str:
        half, one, root = (
            build.constant(f"{x}_{n}", np.array(n, np.float32)) for n in (0.5, 1.0, 2**-0.5)
        )
        y = build.node("Add", build.node("Erf", build.node("Mul", x, root)), one)
        return build.node("Mul", build.node("Mul", x, half), y)

    x = "input"
    heads = build.constant("heads", np.array([0, 0, HEADS, -1], np.int64))
    whole = build.constant("whole", np.array([0, 0, -1], np.int64))
    scale = build.constant("scale", np.array((WIDTH // HEADS) ** -0.5, np.float32))
    for k in range(2):
        y = norm(x, f"first{k}")
        q, key, v = (
            build.node(
                "Transpose",
                build.node("Reshape", linear(y, f"{n}{k}", WIDTH, WIDTH), heads),
                perm=perm,
            )
            for n, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        )
        weights = build.node(
            "Softmax", build.node("Mul", build.node("MatMul", q, key), scale), axis=-1
        )
        y = build.node("Transpose", build.node("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = build.node("Add", x, linear(build.node("Reshape", y, whole), f"o{k}", WIDTH, WIDTH))
        y = gelu(linear(norm(x, f"second{k}"), f"up{k}", WIDTH, 4 * WIDTH))
        x = build.node("Add", x, linear(y, f"down{k}", 4 * WIDTH, WIDTH))
    shape = (1, TOKENS, WIDTH)
    return build.model({"input": (TensorProto.FLOAT, shape)}, {"output": (x, shape)})


class Samples(quantization.CalibrationDataReader):
    """A few seeded inputs."""

    def __init__(self, shape: tuple[int, ...], seed: int = 5) -> None:
        self.rng, self.shape, self.left = np.random.default_rng(seed), shape, 4

    def get_next(self) -> dict[str, np.ndarray] | None:
        self.left -= 1
        if self.left < 0:
            return None
        return {"input": self.rng.standard_normal(self.shape).astype(np.float32)}


def quantised(model: onnx.ModelProto, how: str, folder: Path, **more: object) -> onnx.ModelProto:
    """With weights of seven bits, as without VNNI onnxruntime's products saturate at 16 bits."""
    more["reduce_range"] = True
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    if how == "dynamic":
        quantization.quantize_dynamic(before, after, **more)
    else:
        shape = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
        form = quantization.QuantFormat[how]
        quantization.quantize_static(before, after, Samples(shape), form, **more)
    return onnx.load(after)


def both(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    """What Weft and onnxruntime make of one input."""
    session = onnxruntime_session(model)
    x = Samples(tuple(session.get_inputs()[0].shape), seed=9).get_next()
    assert x is not None
    (expected,) = session.run(None, x)
    return weft.compile(model, options=OPTIONS)(**x), expected


MODELS = [cnn, pytest.param(transformer, marks=pytest.mark.long)]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("how, types", [("QOperator", "QUInt8"), ("QDQ", "QInt8")])
def test_static(make: Make, how: str, types: str, tmp_path: Path) -> None:
    """The output is one of 256 values, and the same."""
    kinds = {"activation_type": types, "weight_type": "QInt8"}
    kinds = {name: quantization.QuantType[kind] for name, kind in kinds.items()}
    model = quantised(make(), how, tmp_path, per_channel=how == "QOperator", **kinds)
    operators = {node.op_type for node in model.graph.node}
    assert ("QLinearAdd" in operators) == (how == "QOperator")
    y, expected = both(model)
    assert len(np.unique(expected)) > 4
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("make", MODELS)
def test_dynamic(make: Make, tmp_path: Path) -> None:
    """Floats between the products."""
    kind = quantization.QuantType.QInt8
    y, expected = both(quantised(make(), "dynamic", tmp_path, weight_type=kind))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
