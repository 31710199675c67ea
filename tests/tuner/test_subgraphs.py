"""Units cover a graph, and subgraphs of them compute what the whole does, in ONNX too."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import weft
from tests.tuner.small_graphs import data, layers, reference, value
from weft.frontend.onnx.importer import import_model
from weft.graph.fusion_rules import Limits
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.operator_graph import Graph, Value
from weft.tuner import subgraphs
from weft.tuner.subgraphs import Units, identity, names, onnx_of, units_of, with_data


def split(model: onnx.ModelProto) -> Units:
    """A unit for each node."""
    graph = import_model(model)
    return Units(graph, tuple((node,) for node in graph.nodes), model)


def computed(graph: Graph, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    results = interpret_graph(graph, [values[v.name] for v in graph.inputs])
    return {v.name: array for v, array in zip(graph.outputs, results, strict=True)}


def values(units: Units, x: np.ndarray) -> dict[str, np.ndarray]:
    found = dict(units.graph.constants, x=x)
    for k in range(len(units.nodes)):
        found |= computed(units.subgraph([k]), found)
    return found


def test_each_run_computes_what_the_whole_does() -> None:
    units, x = split(layers()), data()
    expected = values(units, x)
    y, d = reference(x)
    np.testing.assert_allclose(expected["y"], y, rtol=1e-4)
    np.testing.assert_allclose(expected["d"], d, rtol=1e-4)
    for first, last in combinations(range(len(units.nodes) + 1), 2):
        graph = units.subgraph(range(first, last))
        given = {v.name: expected[v.name] for v in graph.inputs}
        model = onnx_of(graph, units.model)
        assert model is not None
        onnx.checker.check_model(model, full_check=True)
        in_onnx = ReferenceEvaluator(model).run([v.name for v in graph.outputs], given)
        for v, found in zip(graph.outputs, in_onnx, strict=True):
            np.testing.assert_allclose(found, expected[v.name], rtol=1e-4)
            np.testing.assert_allclose(computed(graph, given)[v.name], expected[v.name], rtol=1e-4)


def test_parts_and_names() -> None:
    units = split(layers())
    assert [(part.reads, part.makes) for part in units.parts] == [
        (("x",), ("a",)), (("a",), ("b",)), (("b",), ("c",)), (("c",), ("d",)), (("d",), ("y",)),
    ]  # fmt: skip
    assert [v.name for v in units.passed] == ["a", "b", "c", "d", "y"]
    assert names(units.nodes[3]) == ["d"]


def test_at_most_so_many_units_in_an_order_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = units_of(import_model(layers()), Limits())
    for most in (1, 2, 3):
        monkeypatch.setattr(subgraphs, "UNITS", most)
        units = units_of(import_model(layers()), Limits())
        assert len(units.nodes) == min(most, len(whole.nodes))
        ordered = [n.name for nodes in units.nodes for n in nodes]
        assert ordered == [n.name for nodes in whole.nodes for n in nodes]
        makers = {v: k for k, part in enumerate(units.parts) for v in part.makes}
        edges = [(makers[v], k) for k, p in enumerate(units.parts) for v in p.reads if v in makers]
        assert nx.is_directed_acyclic_graph(nx.DiGraph(edges))


def test_what_is_computed_counts_and_not_its_names() -> None:
    units = split(layers())
    first, third, last = (identity(units.subgraph([k])) for k in (0, 2, 4))
    assert first == third == last
    assert identity(units.subgraph([1])) != identity(units.subgraph([3]))
    assert identity(units.subgraph([0])) != identity(split(layers(6)).subgraph([0]))
    assert identity(units.subgraph([0, 1])) == identity(split(layers()).subgraph([0, 1]))
    assert identity(units.subgraph([2, 3])) != identity(units.subgraph([2, 3, 4]))


def computed_shape() -> onnx.ModelProto:
    """A reshape whose shape nodes compute from x, which Weft knows at import."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "order"], ["t"]),
        helper.make_node("Reshape", ["r", "t"], ["y"]),
    ]
    order = numpy_helper.from_array(np.array([1, 0]), "order")
    graph = helper.make_graph(nodes, "g", [value("x", 5, 7)], [value("y", 7, 5)], [order])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_nodes_that_need_more_than_a_subgraphs_inputs() -> None:
    units = split(computed_shape())
    homes = {names(nodes)[0]: k for k, nodes in enumerate(units.nodes)}
    assert onnx_of(units.subgraph([homes["r"]]), units.model) is not None
    assert onnx_of(units.subgraph([homes["y"]]), units.model) is None  # without x
    assert onnx_of(units.subgraph(range(len(units.nodes))), units.model) is not None
    assert onnx_of(units.graph, None) is None


def test_what_a_body_captures_is_needed() -> None:
    def body(op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["r"], ["z"])], op, [], [value("z", 5, 7)])

    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("If", ["c"], ["y"], then_branch=body("Neg"), else_branch=body("Exp")),
    ]
    inputs = [value("x", 5, 7), value("c", kind=TensorProto.BOOL)]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", 5, 7)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    x, c, y = (value_of(n, *s) for n, *s in (("x", 5, 7), ("c",), ("y", 5, 7)))
    whole = Graph("g", (x, c), (y,), ())
    found = onnx_of(whole, model)
    assert found is not None and [n.op_type for n in found.graph.node] == ["Relu", "If"]
    assert onnx_of(Graph("g", (c,), (y,), ()), model) is None


def value_of(name: str, *shape: int) -> Value:
    return Value(name, shape, weft.float32)


def test_data_beside_the_model(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(layers(), str(path), save_as_external_data=True, size_threshold=0)
    loaded = onnx.load(str(path), load_external_data=False)
    assert with_data(loaded, tmp_path).graph.initializer[0].raw_data
    assert not loaded.graph.initializer[0].raw_data
