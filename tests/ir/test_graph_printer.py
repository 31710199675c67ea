from tests.graph.graph_examples import Maker
from weft.ir.build import var
from weft.ir.graph_printer import name_text, print_graph


def test_a_graph_reads_as_its_calls():
    m = Maker()
    x, w = m.input((var("n"), 3)), m.constant((3, 3))
    graph = m.graph(m.call("leaky_relu", m.call("matmul", x, w), alpha=0.5))
    assert print_graph(graph) == (
        "graph test(in0: float32[n, 3]) -> (leaky_relu1:0)\n"
        "  constant w0: float32[3, 3]\n"
        "  matmul0:0: float32[n, 3] = matmul(in0, w0)  # node 'matmul0'\n"
        "  leaky_relu1:0: float32[n, 3] = leaky_relu(matmul0:0, alpha=0.5)  # node 'leaky_relu1'\n"
    )


def test_programs_are_shown_on_request():
    m = Maker()
    text = print_graph(m.graph(m.call("relu", m.input((2,)))), programs=True)
    assert "    | program relu(in0: float32[2]) -> (relu)" in text


def test_hostile_names_stay_on_one_line():
    assert name_text("a\n#include") == "'a\\n#include'"
    assert name_text('say "x"') == "'say \"x\"'"
    assert name_text("/layer.1/conv:0") == "/layer.1/conv:0"
