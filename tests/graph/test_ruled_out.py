"""Which folds leave out what, and which do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.graph_examples import Maker
from weft.graph.ruled_out import cuts, ruled_out
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import walk
from weft.ir.tensor_expr import Compute, Reduce, operations

N = 12


def conditions(graph: Graph) -> int:
    """How many folds have one."""
    return sum(
        isinstance(node, Reduce) and node.condition is not None
        for each in graph.nodes
        for operation in operations(each.program)
        if isinstance(operation, Compute)
        for value in operation.values
        for node in walk(value)
    )


def softmax_of(mask: np.ndarray) -> Graph:
    m = Maker()
    x, v = m.input((2, N, N)), m.input((2, N, 5))
    weights = m.call("softmax", m.call("add", x, m.constant((), data=mask.astype(np.float32))))
    return m.graph(m.call("matmul", weights, v))


def same(graph: Graph) -> None:
    data = [np.random.default_rng(0).standard_normal(v.shape).astype(np.float32)
            for v in graph.inputs]  # fmt: skip
    before, after = interpret_graph(graph, data), interpret_graph(ruled_out(graph), data)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


LATER = np.triu(np.ones((N, N), bool), 1)


def test_maximum_sum_and_product_of_softmax() -> None:
    graph = softmax_of(np.where(LATER, -np.inf, 0))
    assert conditions(ruled_out(graph)) == 3
    assert cuts(graph) == {1, 2}
    same(graph)


@pytest.mark.parametrize("never", [-1e9, float(np.finfo(np.float32).min), np.inf])
def test_numbers_rule_nothing_out(never: float) -> None:
    graph = softmax_of(np.where(LATER, never, 0))
    assert not cuts(graph)


def test_a_row_without_terms_leaves_the_sums_alone() -> None:
    """Its maximum is -inf either way; what is made of that is NaN everywhere."""
    graph = softmax_of(np.where(LATER.T | np.eye(N, dtype=bool), -np.inf, 0))
    assert conditions(ruled_out(graph)) == 1
    same(graph)


def test_scattered_places_rule_nothing_out() -> None:
    places = np.random.default_rng(0).random((N, N)) < 0.3
    graph = softmax_of(np.where(places, -np.inf, 0))
    assert not cuts(graph)


def test_a_triangular_factor() -> None:
    m = Maker()
    factor = np.tril(np.random.default_rng(0).standard_normal((N, N))).astype(np.float32)
    graph = m.graph(m.call("matmul", m.constant((), data=factor), m.input((N, 3))))
    assert conditions(ruled_out(graph)) == 1
    same(graph)


def test_padding_of_windows_is_left_alone() -> None:
    """What ``select`` puts around an image are few terms, and domains that are boxes are quick."""
    m = Maker()
    x, w = m.input((1, 3, 9, 9)), m.constant((4, 3, 3, 3))
    graph = m.graph(m.call("conv", x, w, pads=(1, 1, 1, 1)))
    assert not cuts(graph)
