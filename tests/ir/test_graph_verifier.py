from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.graph.graph_examples import Maker, random_graphs
from weft.ir import dtypes
from weft.ir.errors import InternalError
from weft.ir.graph_verifier import verify_graph


def example():
    m = Maker()
    x, w = m.input((2, 3)), m.constant((3, 3))
    return m.graph(m.call("relu", m.call("matmul", x, w)))


@given(random_graphs())
@settings(max_examples=20)
def test_well_formed_graphs_pass(graph):
    verify_graph(graph)


def twice(g):
    return replace(g, nodes=(*g.nodes, g.nodes[1]))


def reversed_nodes(g):
    return replace(g, nodes=g.nodes[::-1])


def missing_output(g):
    return replace(g, outputs=(replace(g.outputs[0], name="nobody"),))


def other_shape(g):
    return replace(g, outputs=(replace(g.outputs[0], shape=(9, 9)),))


def other_dtype(g):
    bad = replace(g.nodes[1].inputs[0], dtype=dtypes.float64)
    return replace(g, nodes=(g.nodes[0], replace(g.nodes[1], inputs=(bad,))))


def other_program(g):
    return replace(g, nodes=(replace(g.nodes[0], program=g.nodes[1].program), g.nodes[1]))


def stray_placeholder(g):
    program = g.nodes[1].program
    lost = replace(program, inputs=(replace(program.inputs[0], name="lost"),))
    return replace(g, nodes=(g.nodes[0], replace(g.nodes[1], program=lost)))


def writable(g):
    return replace(g, constants={k: np.array(v) for k, v in g.constants.items()})


def impossible_pair(g):
    return replace(g, in_place=((0, 5),))


def pair_of_two_shapes(g):
    return replace(g, inputs=(replace(g.inputs[0], shape=(2, 3)),), in_place=((0, 0),), outputs=(
        replace(g.nodes[0].inputs[1]),))  # fmt: skip


@pytest.mark.parametrize(
    "breakage, code",
    [
        (twice, "E0300"),
        (reversed_nodes, "E0301"),
        (missing_output, "E0301"),
        (other_shape, "E0302"),
        (other_dtype, "E0302"),
        (other_program, "E0303"),
        (stray_placeholder, "E0303"),
        (writable, "E0304"),
        (impossible_pair, "E0305"),
        (pair_of_two_shapes, "E0305"),
    ],
)
def test_each_breakage_has_its_code(breakage, code):
    with pytest.raises(InternalError, match=f"WEFT-{code}"):
        verify_graph(breakage(example()))
