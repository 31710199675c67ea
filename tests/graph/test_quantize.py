from __future__ import annotations

import numpy as np
import pytest

from tests.graph.integer_networks import Network, nearest, random_network
from weft.driver.options import Options
from weft.frontend.onnx.importer import import_model
from weft.graph.exponents import Scale, scales_of
from weft.graph.quantize import Quantisation, quantize, values_to_observe
from weft.ir import dtypes
from weft.ir.graph_interpreter import interpret_graph, run_nodes
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Apply, Cast, Literal, walk
from weft.ir.tensor_expr import Compute, operations
from weft.offload.quantization import prepared


def observed(graph: Graph, x: np.ndarray) -> dict[str, Scale]:
    values = run_nodes(graph, [x], keep=True)
    names = [v.name for v in values_to_observe(graph)]
    peaks = {n: float(np.abs(values[n]).max(initial=0)) for n in names}
    return scales_of({n: p for n, p in peaks.items() if np.isfinite(p)}, [values])


def quantised(net: Network, output: str, x: np.ndarray) -> tuple[Quantisation, dict[str, Scale]]:
    graph = prepared(import_model(net.model(output)), Options())
    scales = observed(graph, x)
    made = quantize(graph, scales)
    verify_graph(made.graph)
    return made, scales


def data(net: Network, seed: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(net.shape) * scale).astype(np.float32)


@pytest.mark.parametrize("seed", range(60))
def test_random_networks_are_what_integers_make_them(seed: int) -> None:
    net, output = random_network(seed)
    made, scales = quantised(net, output, data(net, 1))
    assert all(not layer.refused for layer in made.layers)
    layers = {layer.name: layer for layer in made.layers}
    x = data(net, 2, 3.0)  # beyond the range that was seen: saturates
    values = net.reference(x, scales["x"].exponent, layers)
    numbers, exponent = values[output]
    (result,) = interpret_graph(made.graph, [x])
    expected = (numbers * 2.0**exponent).astype(np.float32)
    assert np.array_equal(result, expected)
    check_bounds(made.graph)


def check_bounds(graph: Graph) -> None:
    """Operands are int8, sums int32, single shifts by 15 bits at most."""
    assert {v.dtype for node in graph.nodes for v in node.outputs} <= {
        dtypes.int8, dtypes.float32,
    }  # fmt: skip
    for node in graph.nodes:
        for operation in operations(node.program):
            for value in operation.values if isinstance(operation, Compute) else ():
                for part in walk(value):
                    if isinstance(part, Apply) and part.op in ("shl", "shr"):
                        assert isinstance(part.args[1], Literal)
                        assert 0 < part.args[1].value <= 15
                        assert part.dtype == dtypes.int32
                    if isinstance(part, Apply) and part.op == "mul" and part.dtype == dtypes.int32:
                        for arg in part.args:
                            assert isinstance(arg, Cast | Literal) or node.op.endswith("pool")


def test_an_ordinary_layer_is_one_sum_one_addition_one_shift_and_clips() -> None:
    net = Network(np.random.default_rng(0), (1, 3, 8, 8))
    output = net.conv("x", 5, 3, pad=(1, 1), norm=True, act="relu")
    made, _ = quantised(net, output, data(net, 1))
    (layer,) = made.layers
    assert layer.op.startswith("conv+") and len(layer.weights) == 1
    (node,) = [n for n in made.graph.nodes if "shift" in n.attributes]
    value = operations(node.program)[-1].values[0]
    ops = [part.op for part in walk(value) if isinstance(part, Apply) and part.dtype.bits == 32]
    assert ops == ["add", "shr", "max", "min"] or sorted(ops) == ["add", "max", "min", "mul", "shr"]


def test_sums_that_could_overflow_get_coarser_weights() -> None:
    net = Network(np.random.default_rng(0), (1, 2, 4, 4))
    output = net.conv("x", 3, 1, scale=1e-12)  # beside a bias of about 1
    made, scales = quantised(net, output, data(net, 1))
    (layer,) = made.layers
    assert layer.weights[0] > -40 and layer.sums < 1 << 30 and layer.shift <= 30
    x = data(net, 2)
    values = net.reference(x, scales["x"].exponent, {layer.name: layer})
    expected = values[output][0] * 2.0 ** values[output][1]
    assert np.array_equal(interpret_graph(made.graph, [x])[0], expected.astype(np.float32))


def test_softmax_stays_between_borders() -> None:
    net = Network(np.random.default_rng(0), (2, 3, 5, 5))
    dense = net.dense(net.conv("x", 4, 3), 6)
    output = net.node("Softmax", [dense], "p", axis=-1)
    net.shapes[output] = net.shapes[dense]
    made, scales = quantised(net, output, data(net, 1))
    assert [n.op for n in made.graph.nodes][-2:] == ["dequantise", "softmax"]
    assert made.graph.outputs[0].name == "p"
    x = data(net, 2)
    numbers, exponent = net.reference(
        x, scales["x"].exponent, {layer.name: layer for layer in made.layers}
    )[dense]
    scores = (numbers * 2.0**exponent).astype(np.float64)
    wanted = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(interpret_graph(made.graph, [x])[0], wanted, rtol=1e-5)


def test_what_was_not_finite_stays_in_floating_point() -> None:
    net = Network(np.random.default_rng(0), (1, 2, 4, 4))
    output = net.conv("x", 3, 1)
    graph = prepared(import_model(net.model(output)), Options())
    scales = observed(graph, data(net, 1))
    del scales["x"]
    made = quantize(graph, scales)
    assert made.layers[0].refused and made.graph.nodes == graph.nodes


def test_values_that_were_always_0_cannot_saturate() -> None:
    net = Network(np.random.default_rng(0), (1, 2, 4, 4))
    output = net.conv("x", 3, 1, scale=0.0, bias=False, act="relu")
    made, _ = quantised(net, output, data(net, 1))
    assert not made.layers[0].refused
    assert not interpret_graph(made.graph, [data(net, 3)])[0].any()


def test_quantised_inputs_round_to_even_and_saturate() -> None:
    net = Network(np.random.default_rng(0), (1, 1, 1, 6))
    output = net.conv("x", 1, 1)
    made, scales = quantised(net, output, np.full(net.shape, 100.0, np.float32))
    x = np.array([0.5, 1.5, -2.5, 1e9, np.nan, -np.inf], np.float32).reshape(net.shape)
    values = run_nodes(made.graph, [x], keep=True)
    found = values[made.held["x"][0]].reshape(-1)
    assert scales["x"].exponent == 0
    assert found.tolist() == [0, 2, -2, 127, 0, -127]
    assert found.dtype == np.int8 and np.array_equal(found[:3], nearest(x.reshape(-1)[:3], 0))
