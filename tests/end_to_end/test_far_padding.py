"""Windows, convolutions, copies and resizes where most of what they see is padding: they cost what
contributes, and compute what onnxruntime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import weft
from weft.driver.graph_front import cluster_scops
from weft.frontend.onnx.importer import import_model
from weft.ir.scop import Scop
from weft.polyhedral.analysis.intervals import extents, ranges_of

OPTIONS = weft.Options(threads=1, cache=False, workers=0)
ELEMENTS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "uint8": TensorProto.UINT8}


def model_of(nodes: list[Any], shape: tuple[int, ...], dtype: str = "float32", **given: Any) -> Any:
    """The model of ``nodes``, from "x" to "y", with constants ``given``."""
    graph = helper.make_graph(
        nodes,
        "far",
        [helper.make_tensor_value_info("x", ELEMENTS[dtype], shape)],
        [helper.make_tensor_value_info("y", ELEMENTS[dtype], None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def pool(op: str, shape: tuple[int, ...], kernel: int, pad: int, **more: Any) -> Any:
    rank, dtype = len(shape) - 2, more.pop("dtype", "float32")
    attributes = {"kernel_shape": [kernel] * rank, "pads": [pad] * 2 * rank, **more}
    return model_of([helper.make_node(op, ["x"], ["y"], **attributes)], shape, dtype)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def convolution(op: str, shape: tuple[int, ...], **attributes: Any) -> Any:
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    return model_of([node], shape, w=weights(3, 3, 4, 4))


def chain() -> Any:
    """Pad, Relu, a window over both, and a part of the result."""
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["a"], kernel_shape=[60], count_include_pad=1),
        helper.make_node("Slice", ["a", "start", "end", "axis"], ["y"]),
    ]
    pads, ends = np.array([0, 0, 50, 0, 0, 50]), {"start": [3], "end": [9], "axis": [2]}
    return model_of(nodes, (1, 2, 5), pads=pads, **{n: np.array(v) for n, v in ends.items()})


def resized() -> Any:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    return model_of([node], (1, 2, 3, 3), scales=np.array([1, 1, 9, 7], np.float32))


def joined() -> Any:
    """A read that no instance performs."""
    nodes = [
        helper.make_node("Concat", ["x", "b"], ["k"], axis=1),
        helper.make_node("Pad", ["k", "pads"], ["q"], mode="reflect"),
        helper.make_node("Neg", ["q"], ["n"]),
        helper.make_node("Conv", ["n", "w"], ["y"], strides=[3]),
    ]
    pads = np.array([0, 0, 1, 0, 0, 1])
    return model_of(nodes, (1, 1, 4), pads=pads, b=weights(1, 1, 4), w=weights(2, 2, 2))


MODELS = {
    "the whole image": lambda: pool(
        "AveragePool", (1, 5, 7, 7), 1280, 0, strides=[1280, 1280], ceil_mode=1
    ),
    "the whole image, greatest": lambda: pool(
        "MaxPool", (1, 5, 7, 7), 300, 0, strides=[300, 300], ceil_mode=1
    ),
    "average": lambda: pool("AveragePool", (1, 2, 3, 2), 25, 24),
    "average, padding counts": lambda: pool(
        "AveragePool", (1, 2, 3, 2), 25, 24, count_include_pad=1
    ),
    "average, ceil": lambda: pool("AveragePool", (1, 2, 3, 2), 25, 24, ceil_mode=1, strides=[7, 5]),
    "greatest": lambda: pool("MaxPool", (1, 2, 3, 2), 25, 24),
    "greatest, ceil": lambda: pool("MaxPool", (1, 2, 5), 40, 39, ceil_mode=1, strides=[6]),
    "greatest, dilated": lambda: pool("MaxPool", (1, 2, 5), 20, 19, dilations=[2]),
    "greatest, double": lambda: pool("MaxPool", (1, 2, 3, 2), 25, 24, dtype="float64"),
    "greatest, bytes": lambda: pool("MaxPool", (1, 2, 3, 2), 25, 24, dtype="uint8"),
    "norm": lambda: pool("LpPool", (1, 2, 3, 2), 25, 24),
    "norm of order 3": lambda: pool("LpPool", (1, 2, 3, 2), 25, 24, p=3),
    "convolution": lambda: convolution("Conv", (1, 3, 2, 3), pads=[20, 20, 20, 20]),
    "one convolution": lambda: convolution("Conv", (1, 3, 1, 1), pads=[3, 3, 3, 3]),
    "transposed": lambda: convolution("ConvTranspose", (1, 3, 2, 3), strides=[5, 7]),
    "chain": chain,
    "resized": resized,
    "a read that never is": joined,
}


def inputs_of(model: Any) -> np.ndarray:
    """Whole numbers in the type that ``model`` takes."""
    (port,) = model.graph.input
    shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
    return np.asarray(np.random.default_rng(2).uniform(-9, 9, shape), np.int8).astype(dtype)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_beside_onnxruntime(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = MODELS[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = inputs_of(model)
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(weft.compile(model, options=OPTIONS)(x), expected, 1e-5, 1e-5)


def padded(x: np.ndarray, other: float) -> np.ndarray:
    """All windows of 25 by 25 elements over ``x`` in 24 rows and columns of ``other``."""
    around = np.pad(x, [(0, 0), (0, 0), (24, 24), (24, 24)], constant_values=other)
    return np.lib.stride_tricks.sliding_window_view(around, (25, 25), axis=(2, 3))


ORACLES = {
    "average": lambda x: (
        padded(x, 0).sum((-1, -2)) / padded(np.ones_like(x), 0).sum((-1, -2)).astype(x.dtype)
    ),
    "greatest": lambda x: padded(x, -np.inf).max((-1, -2)),
    "norm": lambda x: np.sqrt(np.square(padded(x, 0)).sum((-1, -2))),
}


@pytest.mark.long
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("name", ORACLES)
def test_numbers_that_are_none(name: str, value: float) -> None:
    model = MODELS[name]()
    x = np.abs(inputs_of(model))
    x[..., -1] = value
    expected = ORACLES[name](x)
    np.testing.assert_allclose(weft.compile(model, options=OPTIONS)(x), expected, 1e-5, 1e-5)


def test_infinite_weights_of_a_convolution_meet_its_padding() -> None:
    model = model_of(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[30, 30])],
        (1, 1, 1),
        w=np.array([[[1, np.inf, 2]]], np.float32),
    )
    with np.errstate(invalid="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": np.ones((1, 1, 1), np.float32)})
    found = weft.compile(model, options=OPTIONS)(np.ones((1, 1, 1), np.float32))
    np.testing.assert_array_equal(found, expected)


def reductions(model: onnx.ModelProto) -> int:
    """How many instances the reductions of ``model`` have, at most."""

    def instances(scop: Scop) -> list[int]:
        found = [extents(s.dims, ranges_of(scop, s)) for s in scop.statements if s.update]
        return [int(np.prod(sizes or [1 << 60])) for sizes in found]

    scops = cluster_scops(import_model(model), OPTIONS).values()
    return sum(n for scop in scops for n in instances(scop))


def test_only_what_contributes_runs() -> None:
    assert reductions(MODELS["the whole image"]()) == 5 * 7 * 7
    assert reductions(MODELS["the whole image, greatest"]()) == 5 * 7 * 7


def test_what_is_cut_off_is_not_computed() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Slice", ["c", "start", "end", "axis"], ["y"]),
    ]
    ends = {"start": np.array([0]), "end": np.array([2]), "axis": np.array([2])}
    model = model_of(nodes, (1, 3, 40, 9), w=weights(4, 3, 1, 1), **ends)
    assert reductions(model) == 4 * 3 * 2 * 9
    x = inputs_of(model)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(weft.compile(model, options=OPTIONS)(x), expected, 1e-5, 1e-5)


@weft.kernel
def beginning(x: weft.f32[N, 7], y: weft.f32[N]):  # type: ignore # noqa: F821
    for i in range(N):  # type: ignore # noqa: F821
        y[i] = 0.0  # type: ignore
        for r in range(1 << 40):
            y[i] += x[i, r] if r < 7 else 0.0  # type: ignore


def test_a_kernel_with_a_condition() -> None:
    x, y = weights(5, 7), np.empty(5, np.float32)
    beginning(x, y)
    np.testing.assert_allclose(y, x.sum(1), 1e-5, 1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("op", ["RNN", "LSTM"])
def test_the_step_before_the_only_one_is_not_read(op: str, direction: str) -> None:
    """A scan of one step of known inputs: its products of the state before it stand alone."""
    hidden, gates = 3, {"RNN": 1, "LSTM": 4}[op]
    random = np.random.default_rng(0)
    known = {
        "x": random.normal(size=(1, 1, 2)).astype(np.float32),
        "w": random.normal(size=(1, gates * hidden, 2)).astype(np.float32),
    }
    r = random.normal(size=(1, gates * hidden, hidden)).astype(np.float32)
    h = random.normal(size=(1, 1, hidden)).astype(np.float32)
    node = helper.make_node(
        op, ["x", "w", "r", "", "", "h"], ["", "y"], hidden_size=hidden, direction=direction
    )
    graph = helper.make_graph(
        [node],
        "one_step",
        [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("r", r), ("h", h))],
        [helper.make_tensor_value_info("y", 1, h.shape)],
        [numpy_helper.from_array(a, n) for n, a in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    (expected,) = ReferenceEvaluator(model).run(None, {"r": r, "h": h})
    np.testing.assert_allclose(weft.compile(model, options=OPTIONS)(r, h), expected, 1e-5, 1e-6)
