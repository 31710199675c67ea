"""Loop, Scan, If and SequenceMap against the same loops in Python.

onnx's reference is no oracle here: it joins scan outputs along their first axis.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.host.onnx_model import load_model
from weft.ir.errors import BudgetError, ExecutionError, ModelError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def loop_body(condition="keep"):
    """s' = s * 2 + x (captured); scan output s' - i."""
    nodes = [
        node("Mul", ["s", "two"], ["t"]),
        node("Add", ["t", "x"], ["s1"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Sub", ["s1", "f"], ["o"]),
        node("ReduceMax", ["s1"], ["m"], keepdims=0),
        node("Less", ["m", "limit"], ["small"]),
        node("Identity", ["c"], ["keep"]),
        node("Identity", [condition], ["c1"]),
    ]
    return helper.make_graph(
        nodes,
        "body",
        [value("i", (), INT), value("c", (), BOOL), value("s")],
        [value("c1", (), BOOL), value("s1"), value("o")],
    )


CONSTANTS = {"two": np.array(2, np.float32), "limit": np.array(100, np.float32)}


@pytest.mark.parametrize("condition", ["keep", "small"])
@pytest.mark.parametrize("trips", [0, 1, 7])
def test_loop(trips, condition):
    nodes = [node("Loop", ["n", "t", "x"], ["y", "o"], body=loop_body(condition))]
    inputs = [value("x"), value("n", (), INT)]
    changed = model(
        nodes, inputs=inputs, outputs=["y", "o"], constants=CONSTANTS | {"t": np.array(True)}
    )
    y, o = load_model(changed, Interpreted).run({"x": X, "n": np.array(trips)}).values()
    state, outputs = X, []
    while len(outputs) < trips and (condition == "keep" or state.max() < 100):
        state = state * 2 + X
        outputs.append(state - len(outputs))
    assert np.array_equal(y, state)
    assert np.array_equal(o, np.array(outputs, np.float32).reshape(-1, 2, 3))
    assert o.dtype == np.float32


def test_loop_without_trip_count_runs_while():
    nodes = [node("Loop", ["", "t", "x"], ["y", "o"], body=loop_body("small"))]
    changed = model(nodes, outputs=["y", "o"], constants=CONSTANTS | {"t": np.array(True)})
    y, o = load_model(changed, Interpreted).run({"x": X}).values()
    state, trips = X, 0
    while trips == 0 or state.max() < 100:
        state, trips = state * 2 + X, trips + 1
    assert np.array_equal(y, state) and len(o) == trips


def test_loop_that_starts_false():
    nodes = [node("Loop", ["", "t", "x"], ["y", "o"], body=loop_body())]
    changed = model(nodes, outputs=["y"], constants=CONSTANTS | {"t": np.array(False)})
    assert np.array_equal(load_model(changed, Interpreted).run({"x": X})["y"], X)


def test_endless_loop(monkeypatch):
    monkeypatch.setattr("weft.host.onnx_control_flow.MAX_ITERATIONS", 20)
    nodes = [node("Loop", ["", "t", "x"], ["y", "o"], body=loop_body())]
    changed = model(nodes, outputs=["y"], constants=CONSTANTS | {"t": np.array(True)})
    with pytest.raises(BudgetError, match="without an end"):
        load_model(changed, Interpreted).run({"x": X})


def test_loops_in_loops_see_all_values_around():
    inner = helper.make_graph(
        [node("Add", ["u", "s"], ["u1"]), node("Identity", ["c2"], ["d2"])],
        "inner",
        [value("j", (), INT), value("c2", (), BOOL), value("u")],
        [value("d2", (), BOOL), value("u1")],
    )
    outer = helper.make_graph(
        [node("Loop", ["i", "", "x"], ["s1"], body=inner), node("Identity", ["c"], ["d"])],
        "outer",
        [value("i", (), INT), value("c", (), BOOL), value("s")],
        [value("d", (), BOOL), value("s1")],
    )
    changed = model([node("Loop", ["n", "", "x"], ["y"], body=outer)], constants={"n": np.array(4)})
    assert np.array_equal(load_model(changed, Interpreted).run({"x": X})["y"], 16 * X)


def scan_body():
    nodes = [
        node("Add", ["s", "e"], ["s1"]),
        node("Mul", ["s1", "e"], ["o"]),
    ]
    return helper.make_graph(
        nodes, "body", [value("s", None), value("e", None)], [value("s1", None), value("o", None)]
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("out", [0, 1, -1])
def test_scan(axis, back, out):
    attributes = {
        "scan_input_axes": [axis],
        "scan_input_directions": [back],
        "scan_output_axes": [out],
        "scan_output_directions": [1 - back],
    }
    nodes = [
        node("Scan", ["zero", "x"], ["y", "o"], body=scan_body(), num_scan_inputs=1, **attributes)
    ]
    zero = {"zero": np.zeros(X.shape[0 if axis else 1], np.float32)}
    found = load_model(model(nodes, outputs=["y", "o"], constants=zero), Interpreted).run({"x": X})
    steps = np.moveaxis(X, axis, 0)[:: -1 if back else 1]
    states = np.cumsum(steps, axis=0)
    outputs = (states * steps)[:: 1 if back else -1]
    np.testing.assert_allclose(found["y"], states[-1])
    np.testing.assert_allclose(found["o"], np.moveaxis(outputs, 0, out))


def test_scan_over_lengths_that_differ():
    nodes = [node("Scan", ["x", "w"], ["a", "b"], body=scan_body(), num_scan_inputs=2)]
    inputs = [value("x"), value("w", (5, 3))]
    changed = model(nodes, inputs=inputs, outputs=["a", "b"])
    with pytest.raises(ExecutionError, match="lengths"):
        load_model(changed, Interpreted).run({"x": X, "w": np.ones((5, 3), np.float32)})


@pytest.mark.parametrize("bad", [{"num_scan_inputs": 9}, {"num_scan_inputs": 0},
                                 {"num_scan_inputs": 1, "scan_input_axes": [7]},
                                 {"num_scan_inputs": 1, "scan_output_axes": [0, 0, 0]},
                                 {"num_scan_inputs": 1, "scan_output_axes": [9]}])  # fmt: skip
def test_scans_that_make_no_sense(bad):
    nodes = [node("Scan", ["zero", "x"], ["y", "o"], name="sc", body=scan_body(), **bad)]
    changed = model(nodes, outputs=["y", "o"], constants={"zero": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match="node 'sc'"):
        load_model(changed, Interpreted).run({"x": X})


def test_scan_outputs_must_keep_their_shape():
    nodes = [node("Identity", ["c"], ["d"]), node("Unsqueeze", ["i", "zero"], ["n"]),
             node("Expand", ["one", "n"], ["o"])]  # fmt: skip
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", (), INT), value("c", (), BOOL)],
        [value("d", (), BOOL), value("o", None)],
    )
    constants = {"n": np.array(3), "zero": np.array([0]), "one": np.ones(1, np.float32)}
    changed = model([node("Loop", ["n", ""], ["y"], body=body)], inputs=[], constants=constants)
    with pytest.raises(ExecutionError, match="changes its shape"):
        load_model(changed, Interpreted).run({})


def test_sequence_map():
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["p"]), node("Neg", ["p"], ["q"])],
        "body",
        [value("a", None), value("b", None)],
        [value("p", None), value("q", None)],
    )
    nodes = [
        node("SequenceConstruct", ["x", "x", "w"], ["s"]),
        node("SequenceMap", ["s", "w"], ["p", "q"], body=body),
        node("SequenceAt", ["p", "two"], ["y"]),
        node("ConcatFromSequence", ["q"], ["z"], axis=0, new_axis=1),
    ]
    constants = {"two": np.array(2), "w": 10 * X}
    changed = model(nodes, outputs=["y", "z"], constants=constants)
    found = load_model(changed, Interpreted).run({"x": X})
    np.testing.assert_allclose(found["y"], 20 * X)
    np.testing.assert_allclose(found["z"], -np.stack([11 * X, 11 * X, 20 * X]))


def test_if_around_sequences():
    def branch(*items):
        nodes = [node("SequenceConstruct", items, ["s"])]
        return helper.make_graph(
            nodes, "b", [], [helper.make_tensor_sequence_value_info("s", 1, None)]
        )

    nodes = [
        node("If", ["c"], ["s"], then_branch=branch("x", "x"), else_branch=branch("x")),
        node("SequenceLength", ["s"], ["y"]),
    ]
    changed = model(nodes, inputs=[value("x"), value("c", (), BOOL)])
    loaded = load_model(changed, Interpreted)
    assert [int(loaded.run({"x": X, "c": np.array(c)})["y"]) for c in (True, False)] == [2, 1]
