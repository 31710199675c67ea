from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from tests.graph.graph_examples import Maker, random_graphs, random_inputs
from weft.graph.simplify import simplify
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph


def ops(graph):
    return [node.op for node in graph.nodes]


@given(random_graphs())
@settings(max_examples=60)
def test_the_result_is_the_same_and_the_pass_idempotent(graph):
    simple = simplify(graph)
    verify_graph(simple)
    inputs = random_inputs(graph)
    pairs = zip(interpret_graph(simple, inputs), interpret_graph(graph, inputs), strict=True)
    for result, expected in pairs:
        np.testing.assert_array_equal(result, expected)
    assert ops(simplify(simple)) == ops(simple)


def test_copies_vanish_whatever_they_are_called():
    m = Maker()
    x = m.input((2, 3))
    y = m.call("transpose", m.call("cast", x, to=x.dtype), perm=(0, 1))
    assert ops(simplify(m.graph(m.call("relu", y)))) == ["relu"]


def test_an_output_keeps_its_definition():
    m = Maker()
    x = m.input((2, 3))
    graph = simplify(m.graph(m.call("transpose", x, perm=(0, 1))))
    assert ops(graph) == ["transpose"]


def test_views_and_moves_compose():
    m = Maker()
    x = m.input((2, 3, 4))
    flat = m.call("reshape", m.call("reshape", x, shape=(6, 4)), shape=(24,))
    moved = m.call("transpose", m.call("transpose", x, perm=(2, 0, 1)), perm=(1, 2, 0))
    graph = simplify(m.graph(m.call("relu", flat), m.call("tanh", moved)))
    assert sorted(ops(graph)) == ["relu", "reshape", "tanh"]
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(interpret_graph(graph, inputs)[1], np.tanh(inputs[0]))


def test_a_chain_of_moves_back_and_forth_is_nothing():
    m = Maker()
    y = x = m.input((2, 3))
    for _ in range(101):
        y = m.call("transpose", m.call("transpose", y, perm=(1, 0)), perm=(1, 0))
    assert simplify(m.graph(m.call("add", x, y))).nodes[0].inputs == (x, x)


def test_common_subexpressions_are_computed_once():
    m = Maker()
    x = m.input((2, 3))
    y = m.call("add", m.call("tanh", m.call("relu", x)), m.call("tanh", m.call("relu", x)))
    assert ops(simplify(m.graph(y))) == ["relu", "tanh", "add"]


def test_different_attributes_are_no_common_subexpression():
    m = Maker()
    x = m.input((2, 3))
    a, b = (m.call("leaky_relu", x, alpha=alpha) for alpha in (0.1, 0.2))
    graph = m.graph(m.call("add", a, b))
    blind = replace(graph, nodes=tuple(replace(n, attributes={}) for n in graph.nodes))
    assert len(simplify(blind).nodes) == 3
