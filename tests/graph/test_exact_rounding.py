"""Rounding by shifts beside rounding in floating point, ties and saturation included."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.graph.test_integer_sums import built, integers
from weft.driver.options import Options
from weft.frontend.onnx.importer import import_model
from weft.graph.differences import differences
from weft.graph.exact_rounding import exact_rounding
from weft.graph.integer_sums import integer_sums
from weft.ir import dtypes
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_printer import print_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.offload.quantization import integers_of, prepared


def case(
    seed: int, *, out: float, scale: float = 2.0**-4, bias: int = 900, zero: int = 0, top: int = 9
) -> tuple[Graph, np.ndarray]:
    """DequantizeLinear, Conv with bias, Relu half of the times, QuantizeLinear to scale ``out``."""
    rng = np.random.default_rng(seed)
    x = integers(rng, np.int8, (2, 3, 6, 5))
    constants = {
        "xs": np.float32(2.0**-3), "w": rng.integers(-top, top + 1, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.float32(scale), "b": rng.integers(-bias, bias + 1, 4).astype(np.int32),
        "bs": np.float32(2.0**-7), "ys": np.float32(out), "yz": np.int8(zero),
    }  # fmt: skip
    middle = [helper.make_node("Relu", ["c"], ["r"])] if seed % 2 else []
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wf"]),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"]),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], pads=[1, 1, 1, 1]),
        *middle,
        helper.make_node("QuantizeLinear", ["r" if middle else "c", "ys", "yz"], ["y"]),
    ]
    graph = integer_sums(import_model(built(nodes, x, constants)))
    return differences(prepared(graph, Options())), x


def floats(graph: Graph) -> list[str]:
    return [v.name for node in graph.nodes for v in node.outputs if v.dtype.is_float]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("exponent", [-9, -7, -6, -5, -2, 1, 5])
def test_powers_of_two_are_shifts(seed: int, exponent: int) -> None:
    graph, x = case(seed, out=2.0**exponent, zero=5 if seed > 1 else 0)
    new = exact_rounding(graph)
    verify_graph(new)
    assert floats(graph) and not floats(new)
    assert {v.dtype for n in new.nodes for v in n.outputs} == {dtypes.int8, dtypes.int32}
    (expected,) = interpret_graph(graph, [x])
    assert np.array_equal(interpret_graph(new, [x])[0], expected)


def test_ties_go_to_even() -> None:
    graph, x = case(0, out=2.0**-5, bias=0, top=1)
    sums = interpret_graph(graph, [x])[0]
    assert np.array_equal(interpret_graph(exact_rounding(graph), [x])[0], sums)


@pytest.mark.parametrize(
    "how",
    [
        {"out": 0.3},  # no power of two
        {"out": 1.0, "scale": 0.05},
        {"out": 1.0, "scale": 2.0**-2},  # the bias is finer than the sum
    ],
)
def test_what_may_differ_stays(how: dict[str, float]) -> None:
    graph, _ = case(1, **how)
    assert exact_rounding(graph).nodes == graph.nodes


def test_sums_beyond_24_bits_stay() -> None:
    rng = np.random.default_rng(0)
    x = integers(rng, np.int8, (2, 2000))
    constants = {
        "s": np.float32(1.0), "w": np.full((2000, 3), 100, np.int8), "ys": np.float32(2.0**12),
        "yz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
        helper.make_node("MatMul", ["xf", "wf"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    graph = integer_sums(import_model(built(nodes, x, constants)))
    graph = differences(prepared(graph, Options()))
    assert exact_rounding(graph).nodes == graph.nodes


@pytest.mark.parametrize("exponent", [-1, 3, 6])
def test_qlinear_convolutions(exponent: int) -> None:
    rng = np.random.default_rng(2)
    x = integers(rng, np.int8, (1, 3, 5, 5))
    constants = {
        "xs": np.float32(0.5), "xz": np.int8(0), "w": integers(rng, np.int8, (2, 3, 3, 3)),
        "ws": np.float32(0.25), "wz": np.int8(0), "ys": np.float32(2.0**exponent),
        "yz": np.int8(-4), "b": np.array([500, -70], np.int32),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    model = built([helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4)], x, constants)
    graph = import_model(model)
    new = integers_of(graph, Options())
    verify_graph(new)
    text = print_graph(new, programs=True)
    assert ">>" in text and "round" not in text
    assert np.array_equal(interpret_graph(new, [x])[0], interpret_graph(graph, [x])[0])
