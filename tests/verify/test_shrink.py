"""Small twins: valid, small, of the same structure."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.weft import verified_examples as examples
from tests.weft.small_models import MODELS
from weft.frontend.onnx.importer import import_model
from weft.frontend.zoo import registry as resnet18
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.tensor_verifier import verify
from weft.verify.shrink import points, shape_of, shrink, symbol_values


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [shape_of(v.shape, symbol_values(graph)) for v in (*graph.inputs, *graph.outputs)]


def total(graph: Graph) -> int:
    return sum(points(node.program, symbol_values(graph)) for node in graph.nodes)


def runs(graph: Graph) -> None:
    """The graph is well-formed, and no access leaves its tensor."""
    verify_graph(graph)
    for node in graph.nodes:
        verify(node.program)
    symbols = symbol_values(graph)
    zeros = [np.zeros(shape_of(v.shape, symbols), v.dtype.numpy) for v in graph.inputs]
    interpret_graph(graph, zeros)


@pytest.mark.parametrize(
    "build", [examples.dense, examples.convolution, examples.chain, *MODELS.values()]
)
def test_the_small_twin_is_valid_and_no_larger(build: object) -> None:
    made = build()  # type: ignore[operator]
    graph = made if isinstance(made, Graph) else import_model(made)
    small = shrink(graph)
    runs(small)
    assert [n.op for n in small.nodes] == [n.op for n in graph.nodes]
    assert all(
        new <= old
        for news, olds in zip(shapes(small), shapes(graph), strict=True)
        for new, old in zip(news, olds, strict=True)
    )
    assert total(small) <= total(graph)


def test_a_whole_zoo_model_becomes_small() -> None:
    graph = import_model(resnet18.resnet18())
    small = shrink(graph)
    assert total(graph) > 1_000_000_000 > 1000 * total(small)
    assert shapes(small)[0][:2] == (1, 3)


def test_equal_sizes_stay_equal_and_small_ones_stay() -> None:
    small = shrink(examples.dense())
    (rows, columns), (again, classes) = shapes(small)
    assert rows == again and len({rows, columns, classes}) == 3
    assert {v.shape[-1] for n in small.nodes for v in n.inputs if v.name == "w"} == {columns}


def concatenation() -> weft.Tensor:
    a, b = weft.placeholder((64, 9), name="a"), weft.placeholder((96, 9), name="b")
    return weft.compute(
        (160, 9), lambda i, j: weft.select(i < 64, a[i, j], b[i - 64, j]), name="both"
    )


def window() -> weft.Tensor:
    """A stride and no padding: 2 * 30 + 5 - 1 < 64."""
    x = weft.placeholder((64,), name="x")
    r = weft.reduce_axis((0, 5), name="r")
    return weft.compute((30,), lambda i: weft.sum(x[2 * i + r], axis=r), name="window")


def padding() -> weft.Tensor:
    x = weft.placeholder((50,), name="x")
    return weft.compute(
        (54,), lambda i: weft.select((i >= 2) & (i < 52), x[i - 2], 0.0), name="padded"
    )


def flattening() -> weft.Tensor:
    x = weft.placeholder((12, 32, 10), name="x")
    flat = weft.reshape(x, (384, 10), name="flat")
    return weft.compute((384, 10), lambda i, j: flat[i, j] * 2.0, name="doubled")


def reversal() -> weft.Tensor:
    x = weft.placeholder((100,), name="x")
    return weft.compute((100,), lambda i: x[99 - i], name="back")


def triangle() -> weft.Tensor:
    x = weft.placeholder((40, 40), name="x")
    k = weft.reduce_axis((0, 40), name="k")
    return weft.compute(
        (40,), lambda r: weft.sum(weft.select(k <= r, x[r, k], 0.0), axis=k), name="lower"
    )


@pytest.mark.parametrize("build", [concatenation, window, padding, flattening, reversal, triangle])
def test_relations_between_sizes_are_kept(build: object) -> None:
    graph = examples.graph_of(build())  # type: ignore[operator]
    small = shrink(graph)
    runs(small)
    assert 5 * total(small) <= total(graph)


def test_symbols_get_values_and_constants_are_cropped() -> None:
    n, m = weft.var("n"), weft.var("m")
    x, w = weft.placeholder((n, 70), name="x"), weft.placeholder((70, 80), name="w")
    y = weft.compute((n, 80), lambda i, j: x[i, 1] + w[1, j], name="y")
    z = weft.placeholder((m, n), name="z")
    graph = examples.graph_of(
        weft.compute((m, 80), lambda i, j: z[i, 0] * y[0, j], name="r"), constants=("w",)
    )
    small = shrink(graph)
    assert len(set(symbol_values(small).values())) == 2
    crop = small.constants["w"]
    assert crop.size < 100 and not crop.flags.writeable
    np.testing.assert_array_equal(crop, graph.constants["w"][: crop.shape[0], : crop.shape[1]])
