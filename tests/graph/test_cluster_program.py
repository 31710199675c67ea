import numpy as np
from hypothesis import given, settings

from tests.graph.graph_examples import Maker, random_graphs, random_inputs, run_clusters
from weft.graph.cluster_program import cluster_program
from weft.graph.partition import Cluster, partition
from weft.ir.build import var
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.operator_graph import Graph
from weft.ir.tensor_expr import operations
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify


def whole(graph: Graph) -> Cluster:
    constants = {v for n in graph.nodes for v in n.inputs if v.name in graph.constants}
    inputs = (*graph.inputs, *sorted(constants, key=lambda v: v.name))
    return Cluster("whole", graph.nodes, inputs, graph.outputs)


@given(random_graphs())
@settings(max_examples=60)
def test_one_program_computes_what_the_graph_does(graph):
    cluster = whole(graph)
    made = cluster_program(cluster)
    inputs = random_inputs(graph)
    values = graph.constants | dict(zip([v.name for v in graph.inputs], inputs, strict=True))
    results = interpret(made.program, [values[v.name] for v in cluster.inputs])
    for result, expected in zip(results, interpret_graph(graph, inputs), strict=True):
        np.testing.assert_array_equal(result, expected)


@given(random_graphs())
@settings(max_examples=30)
def test_names_are_unique_and_every_operation_has_a_source(graph):
    made = cluster_program(whole(graph))
    order = operations(made.program)
    names = [op.name for op in order] + [t.name for t in made.program.inputs]
    assert len(set(names)) == len(names)
    assert all(made.sources[op].startswith("node '") for op in order)


def test_an_output_that_is_an_input_is_a_copy():
    m = Maker()
    x = m.input((2, 3))
    graph = m.graph(m.call("reshape", x, shape=(3, 2)))
    (tensor,) = cluster_program(whole(graph)).program.outputs
    assert tensor.operation is not None
    values = run_clusters(graph, partition(graph), [np.arange(6.0, dtype=np.float32).reshape(2, 3)])
    assert values[graph.outputs[0].name].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_thousand_operators_do_not_recurse():
    m = Maker()
    y = m.input((2,))
    for _ in range(1500):
        y = m.call("neg", y)
    program = cluster_program(whole(m.graph(y))).program
    assert len(operations(program)) == 1500
    assert interpret(program, [np.array([1, 2], np.float32)])[0].tolist() == [1, 2]


def test_an_axis_of_one_node_may_be_called_as_a_size_of_another():
    """The product sums over an axis k, and only the sum that follows has a size k."""
    m, k = Maker(), var("k")
    a, b, c = m.input((2, 3)), m.input((3, 1)), m.input((2, k))
    made = cluster_program(whole(m.graph(m.call("add", m.call("matmul", a, b), c))))
    verify(made.program)
    assert all(op in made.sources for op in operations(made.program))
    data = [np.float32(np.arange(s[0] * s[1]).reshape(s)) for s in ((2, 3), (3, 1), (2, 4))]
    (result,) = interpret(made.program, data)
    np.testing.assert_array_equal(result, data[0] @ data[1] + data[2])
