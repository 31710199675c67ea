from tests.graph.graph_examples import Maker
from weft.graph.eliminate_dead import eliminate_dead


def test_what_no_output_needs_goes():
    m = Maker()
    x, w = m.input((2, 2)), m.constant((2, 2))
    m.call("matmul", m.call("tanh", x), w)
    graph = m.graph(m.call("relu", x))
    live = eliminate_dead(graph)
    assert [n.op for n in live.nodes] == ["relu"] and not live.constants
    assert live.inputs == graph.inputs


def test_a_live_graph_is_itself():
    m = Maker()
    graph = m.graph(m.call("relu", m.input((2, 2))))
    assert eliminate_dead(graph) is graph
