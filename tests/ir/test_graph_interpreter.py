import numpy as np
import pytest

from tests.graph.graph_examples import Maker
from weft.ir.build import var
from weft.ir.errors import ExpressionError
from weft.ir.graph_interpreter import interpret_graph, run_nodes


def test_sizes_come_from_the_inputs_of_the_graph():
    n = var("n")
    m = Maker()
    x, w = m.input((n, 3)), m.constant((3, 2))
    graph = m.graph(m.call("relu", m.call("matmul", x, w)))
    for rows in (0, 1, 5):
        a = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        (result,) = interpret_graph(graph, [a])
        np.testing.assert_allclose(result, np.maximum(a @ graph.constants[w.name], 0), rtol=1e-5)


def test_results_are_new_arrays_and_values_are_dropped():
    m = Maker()
    x = m.input((2,))
    y = m.call("relu", m.call("neg", x))
    graph = m.graph(x, y)
    given = np.array([1.0, -2.0], np.float32)
    results = interpret_graph(graph, [given])
    assert results[0].tolist() == [1, -2] and results[1].tolist() == [0, 2]
    assert not np.shares_memory(results[0], given)
    assert "neg0:0" not in run_nodes(graph, [given])
    assert "neg0:0" in run_nodes(graph, [given], keep=True)


def test_inputs_that_do_not_fit_are_refused():
    m = Maker()
    graph = m.graph(m.call("relu", m.input((2,))))
    with pytest.raises(ExpressionError, match="WEFT-E0121"):
        interpret_graph(graph, [np.zeros(2)])
