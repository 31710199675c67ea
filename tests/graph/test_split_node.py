from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from tests.graph.graph_examples import Maker, random_graphs, random_inputs
from weft.graph.split_node import split_node
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.tensor_expr import operations


@given(random_graphs())
@settings(max_examples=40)
def test_the_parts_compute_what_the_nodes_did(graph) -> None:
    taken = {v.name for node in graph.nodes for v in node.outputs}
    taken |= {v.name for v in graph.inputs} | set(graph.constants)
    nodes = [part for node in graph.nodes for part in split_node(node, taken)]
    parts = replace(graph, nodes=tuple(nodes))
    verify_graph(parts)
    assert all(len(operations(node.program)) == 1 for node in parts.nodes)
    inputs = random_inputs(graph)
    results = zip(interpret_graph(parts, inputs), interpret_graph(graph, inputs), strict=True)
    for one, other in results:
        np.testing.assert_array_equal(one, other)


def test_a_node_whose_outputs_share_a_result_stays_whole() -> None:
    m = Maker()
    m.call("relu", m.input((2, 3)))
    (node,) = m.graph().nodes
    (tensor,), (value,) = node.program.outputs, node.outputs
    twice = replace(node.program, outputs=(tensor, tensor))
    both = replace(node, program=twice, outputs=(value, replace(value, name="other")))
    through = replace(node.program, outputs=(tensor, node.program.inputs[0]))
    for whole in (both, replace(both, program=through)):
        assert split_node(whole, set()) == (whole,)


def test_names_in_between_are_new() -> None:
    m = Maker()
    x, w = m.input((1, 2, 5, 5)), m.input((3, 2, 3, 3))
    y = m.call("conv", x, w, pads=[1, 1, 1, 1])
    (node,) = m.graph(y).nodes
    taken = {f"{y.name}.padded"}
    padded, sums = split_node(node, taken)
    assert padded.outputs[0].name == f"{y.name}.padded_2" in taken
    assert (sums.name, sums.outputs) == (node.name, node.outputs)
