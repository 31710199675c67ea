"""Import: names, shapes, folding, values that are needed early, errors in one list."""

import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.node_context import NeedsValue
from weft.ir.errors import ModelError, UnsupportedError, WeftWarning
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Var

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def run(graph: Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return Interpreted(graph).run(inputs)


def test_values_keep_the_models_names():
    nodes = [node("Gelu", ["x"], ["h"], name="act"), node("Relu", ["h"], ["y"], name="y")]
    graph = import_model(model(nodes, opset=20))
    assert [v.name for v in graph.inputs] == ["x"] and [v.name for v in graph.outputs] == ["y"]
    assert {"h", "y"} <= set(graph.producers)
    assert "node 'act' (Gelu)" in graph.producers["h"].origin


def test_sizes_are_symbols_unless_given():
    inputs = [value("x", ("n", 3))]
    nodes = [node("Relu", ["x"], ["y"])]
    (out,) = import_model(model(nodes, inputs=inputs)).outputs
    assert out.shape == (Var("n"), 3)
    (out,) = import_model(model(nodes, inputs=inputs), shapes={"x": (5, 3)}).outputs
    assert out.shape == (5, 3)


def test_initializers_may_be_overridden_as_inputs():
    nodes = [node("Add", ["x", "w"], ["y"])]
    both = model(nodes, inputs=[value("x"), value("w")], constants={"w": X})
    assert [v.name for v in import_model(both).inputs] == ["x"]
    assert [v.name for v in import_model(both, shapes={"w": (2, 3)}).inputs] == ["x", "w"]


def test_shapes_fold_through_a_chain():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["rows"]),
        node("Mul", ["rows", "three"], ["total"]),
        node("Concat", ["total", "one"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "three": np.array([3]), "one": np.array([1])}
    graph = import_model(model(nodes, constants=constants))
    assert len(graph.nodes) == 1 and graph.outputs[0].shape == (6, 1)
    assert np.array_equal(run(graph, x=X)["y"], X.reshape(6, 1))


def test_a_needed_value_comes_with_the_graph_that_computes_it():
    shape = [value("x"), value("a", (2,), TensorProto.INT64)]
    nodes = [
        node("Exp", ["x"], ["unrelated"]),
        node("Neg", ["a"], ["b"]),
        node("Reshape", ["unrelated", "b"], ["y"]),
    ]
    changed = model(nodes, inputs=shape)
    with pytest.raises(NeedsValue) as stop:
        import_model(changed)
    assert stop.value.name == "b"
    assert [n.op for n in stop.value.graph.nodes] == ["neg"]
    found = run(stop.value.graph, x=X, a=np.array([-3, -2]))["b"]
    graph = import_model(changed, known={"b": found})
    assert graph.outputs[0].shape == (3, 2)
    assert np.allclose(run(graph, x=X, a=np.array([-3, -2]))["y"], np.exp(X).reshape(3, 2))


@pytest.mark.parametrize("taken", [True, False])
def test_if_with_a_known_condition_is_its_branch(taken):
    def branch(op):
        return helper.make_graph([node(op, ["x"], ["r"])], op, [], [value("r")])

    nodes = [node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))]
    graph = import_model(model(nodes, constants={"c": np.array(taken)}))
    assert np.array_equal(run(graph, x=X)["y"], -X if taken else abs(X))


def test_branches_may_repeat_names():
    body = helper.make_graph([node("Neg", ["x"], ["r"])], "b", [], [value("r")])
    nodes = [
        node("If", ["c"], ["p"], then_branch=body, else_branch=body),
        node("If", ["c"], ["q"], then_branch=body, else_branch=body),
        node("Sub", ["p", "q"], ["y"]),
    ]
    graph = import_model(model(nodes, constants={"c": np.array(True)}))
    assert not run(graph, x=X)["y"].any()


def test_a_branch_sees_its_own_constants_before_those_around_it():
    body = helper.make_graph(
        [node("Add", ["x", "w"], ["r"])], "b", [], [value("r")], [numpy_helper.from_array(X, "w")]
    )
    nodes = [node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    graph = import_model(model(nodes, constants={"c": np.array(True), "w": 5 * X}))
    assert np.array_equal(run(graph, x=X)["y"], 2 * X)


def test_outputs_that_are_inputs_constants_or_the_same_twice():
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Neg", ["w"], ["folded"]),
        node("Neg", ["x"], ["y"]),
    ]
    outputs = ["same", "folded", "w", "y"]
    graph = import_model(model(nodes, outputs=outputs, constants={"w": X}))
    assert [v.name for v in graph.outputs] == outputs
    found = run(graph, x=X)
    assert np.array_equal(found["same"], X) and np.array_equal(found["w"], X)
    assert np.array_equal(found["folded"], -X) and np.array_equal(found["y"], -X)


def test_dead_nodes_and_constants_are_left_out():
    nodes = [
        node("Exp", ["x"], ["dead"]),
        node("Add", ["w", "x"], ["dead2"]),
        node("Neg", ["x"], ["y"]),
    ]
    graph = import_model(model(nodes, constants={"w": X}))
    assert [n.op for n in graph.nodes] == ["neg"] and not graph.constants


def test_everything_unsupported_is_listed_at_once():
    nodes = [
        node("Nope", ["x"], ["a"], name="first"),
        node("Relu", ["a"], ["b"]),
        node("Never", ["b"], ["y"], name="second"),
    ]
    with pytest.raises(UnsupportedError) as error:
        import_model(model(nodes))
    text = str(error.value)
    assert all(part in text for part in ("Nope", "Never", "'first'", "'second'"))


def test_errors_name_the_node():
    with pytest.raises(ModelError, match="node 'bad' \\(MatMul\\)"):
        import_model(model([node("MatMul", ["x", "x"], ["y"], name="bad")]))


def declared(shape, element_type=TensorProto.FLOAT):
    changed = model([node("Transpose", ["x"], ["y"])])
    changed.graph.output[0].CopyFrom(value("y", shape, element_type))
    return changed


def test_outputs_that_are_not_what_the_model_declares():
    import_model(declared((3, 2)))
    import_model(declared((3, "n")))
    with pytest.raises(ModelError, match="WEFT-E0224"):
        import_model(declared((3, 2), TensorProto.INT32))
    with pytest.raises(ModelError, match="WEFT-E0224"):
        import_model(declared((3, 2, 1)))
    with pytest.warns(WeftWarning, match=r"\[3, 5\], it has \[3, 2\]"):
        import_model(declared((3, 5)))


def squeezed(sizes, declared):
    """Squeeze of all sizes of 1, and of the first size where it is 1, as PyTorch writes it."""
    squeeze, keep = (
        helper.make_graph([node(op, ["x"], ["out"])], op, [], [value("out", None)])
        for op in ("Squeeze", "Identity")
    )
    chosen = [
        node("Shape", ["x"], ["size"], start=0, end=1),
        node("Equal", ["size", "one"], ["c"]),
        node("If", ["c"], ["y"], then_branch=squeeze, else_branch=keep),
    ]
    for nodes in ([node("Squeeze", ["x"], ["y"])], chosen):
        made = model(nodes, inputs=[value("x", sizes)], constants={"one": np.array([1])})
        made.graph.output[0].CopyFrom(value("y", declared))
        yield made


@pytest.mark.parametrize(
    ("sizes", "declared", "rank"),
    [((1,), ("m",), 0), ((1, 3), ("m", "n"), 1), ((3, 5), ("m",), 2), ((3, 5), ("m", "n"), 2)],
)
def test_ranks_that_depend_on_sizes(sizes, declared, rank):
    for made in squeezed(sizes, declared):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (y,) = import_model(made).outputs
        assert len(y.shape) == rank
        assert len(caught) == (len(declared) != rank)


def test_inputs_that_are_no_tensors():
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    with pytest.raises(UnsupportedError, match="not a tensor"):
        import_model(model([node("SequenceLength", ["x"], ["y"])], inputs=[sequence]))
