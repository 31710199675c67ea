"""Models that say what is quantised: beside ONNX's own reference, before and after the pass."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from weft.driver.options import Options
from weft.frontend.onnx.importer import import_model
from weft.graph.differences import differences
from weft.graph.integer_sums import integer_sums
from weft.ir import dtypes
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.tensor_expr import Compute, Reduce, operations
from weft.offload.quantization import prepared

Array = np.ndarray


def built(
    nodes: list[onnx.NodeProto], x: Array, constants: dict[str, Array], out: int = TensorProto.INT8
) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "q",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", out, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def integers(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def folds(graph: Graph) -> list[Reduce]:
    """The sums of what depends on inputs."""
    moving = {v.name for v in graph.inputs}
    found = []
    for node in graph.nodes:
        if moving & {v.name for v in node.inputs}:
            moving |= {v.name for v in node.outputs}
            values = [
                v for o in operations(node.program) if isinstance(o, Compute) for v in o.values
            ]
            found += [part for v in values for part in _parts(v) if isinstance(part, Reduce)]
    return found


def _parts(value):
    yield value
    for child in value.children:
        yield from _parts(child)


def check(model: onnx.ModelProto, x: Array) -> Graph:
    """The model after the pass, and its sums in int32, computes what ONNX says."""
    graph = import_model(model)
    new = integer_sums(graph)
    verify_graph(new)
    later = differences(prepared(new, Options()))
    verify_graph(later)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    for one in (graph, new, later):
        assert np.array_equal(interpret_graph(one, [x])[0], expected)
    return new


def qdq_conv(rng: np.random.Generator, kind: type, zero: int, **how: object) -> tuple[list, dict]:
    group, per_filter = int(how.pop("group", 1)), bool(how.pop("per_filter", True))
    w = integers(rng, np.int8, (4, 4 // group, 3, 2))
    count = 4 if per_filter else ()
    constants = {
        "xs": np.float32(0.0371), "xz": np.array(zero, kind), "w": w,
        "ws": rng.uniform(0.01, 0.1, count).astype(np.float32),
        "wz": np.full(count, 2 if zero else 0, np.int8),
        "b": rng.integers(-900, 900, 4).astype(np.int32), "bs": np.float32(0.001),
        "ys": np.float32(0.37), "yz": np.array(3, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"]),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], group=group, **how),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    return nodes, constants


@pytest.mark.parametrize("kind,zero", [(np.int8, 0), (np.int8, -7), (np.uint8, 128)])
@pytest.mark.parametrize(
    "how",
    [
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 1], "per_filter": False},
        {"group": 2, "pads": [1, 1, 1, 1]},
        {"group": 4, "dilations": [2, 2]},
    ],
)
def test_convolutions_between_dequantise_and_quantise(kind: type, zero: int, how: dict) -> None:
    rng = np.random.default_rng(0)
    nodes, constants = qdq_conv(rng, kind, zero, **how)
    x = integers(rng, kind, (2, 4, 7, 6))
    new = check(built(nodes, x, constants), x)
    assert [fold.dtype for fold in folds(new)] == [dtypes.int32]


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scale_along_the_sum_keeps_it_in_floating_point(axis: int) -> None:
    rng = np.random.default_rng(1)
    x = integers(rng, np.int8, (3, 5))
    constants = {
        "xs": np.float32(0.5), "w": integers(rng, np.int8, (5, 5)),
        "ws": rng.uniform(0.1, 1, 5).astype(np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"], axis=axis),
        helper.make_node("MatMul", ["xf", "wf"], ["y"]),
    ]
    graph = import_model(built(nodes, x, constants, TensorProto.FLOAT))
    new = integer_sums(graph)
    verify_graph(new)
    assert [f.dtype for f in folds(new)] == [dtypes.int32 if axis == 1 else dtypes.float32]
    expected = (x * 0.5) @ (constants["w"] * np.expand_dims(constants["ws"], 1 - axis))
    np.testing.assert_allclose(interpret_graph(new, [x])[0], expected, rtol=1e-5, atol=1e-3)


def test_shallow_sums_stay() -> None:
    """What a dot product of so many would not be full with."""
    rng = np.random.default_rng(4)
    x = integers(rng, np.uint8, (1, 3, 6, 5))
    constants = {"s": np.float32(0.5), "w": integers(rng, np.int8, (2, 3, 3, 2))}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
        helper.make_node("Conv", ["xf", "wf"], ["y"]),
    ]
    graph = import_model(built(nodes, x, constants, TensorProto.FLOAT))
    for depth, kind in ((3, dtypes.int32), (4, dtypes.float32)):
        assert {fold.dtype for fold in folds(integer_sums(graph, depth))} == {kind}


def test_a_sum_that_could_overflow_stays() -> None:
    length = (1 << 31) // (128 * 128) + 1
    x = np.zeros((1, length), np.int8)
    constants = {"s": np.float32(0.5), "w": np.zeros((length, 1), np.int8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
        helper.make_node("MatMul", ["xf", "wf"], ["y"]),
    ]
    new = integer_sums(import_model(built(nodes, x, constants, TensorProto.FLOAT)))
    assert [f.dtype for f in folds(new)] == [dtypes.float32]


def test_sums_of_qlinear_operators_come_apart_from_their_scales() -> None:
    rng = np.random.default_rng(2)
    x = integers(rng, np.int8, (1, 3, 5, 5))
    constants = {
        "xs": np.float32(0.02), "xz": np.int8(0), "w": integers(rng, np.int8, (2, 3, 3, 3)),
        "ws": np.array([0.01, 0.02], np.float32), "wz": np.zeros(2, np.int8),
        "ys": np.float32(0.3), "yz": np.int8(-4), "b": np.array([500, -70], np.int32),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    nodes = [helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])]
    new = check(built(nodes, x, constants), x)
    sums = [n for n in new.nodes if n.outputs[0].dtype == dtypes.int32]
    assert folds(new) and sums and new.nodes[-1].outputs[0].dtype == dtypes.int8
