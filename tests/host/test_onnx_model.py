"""Models as callables: staging, memoisation, compiling ahead, inputs checked."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.frontend import graph_builder
from weft.host.onnx_model import load_model
from weft.ir.errors import CallError, ModelError, UnsupportedError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def load(nodes, **fields):
    return load_model(model(nodes, **fields), Interpreted)


def test_a_static_model_is_compiled_once_and_ahead():
    loaded = load([node("Neg", ["x"], ["y"])])
    assert loaded.stats["compiled"] == 1 and loaded.stats["host"] == 0
    for _ in range(3):
        assert np.array_equal(loaded.run({"x": X})["y"], -X)
    assert loaded.stats["compiled"] == 1 and loaded.stats["staged"] == 0


def test_each_input_shape_is_compiled_once():
    loaded = load([node("Neg", ["x"], ["y"])], inputs=[value("x", ("n", 3))])
    assert loaded.stats["compiled"] == 0
    for rows in (1, 2, 0, 2, 1):
        data = np.ones((rows, 3), np.float32)
        assert np.array_equal(loaded.run({"x": data})["y"], -data)
    assert loaded.stats["compiled"] == 3


def test_calls_may_overlap():
    inputs = [value("x", ("n", 3)), value("s", (2,), TensorProto.INT64)]
    loaded = load([node("Abs", ["s"], ["t"]), node("Reshape", ["x", "t"], ["y"])], inputs=inputs)

    def call(rows):
        data = np.full((rows, 3), rows, np.float32)
        return loaded.run({"x": data, "s": np.array([-3, rows])})["y"].shape == (3, rows)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, [1, 2, 3, 5] * 10))
    assert loaded.stats["compiled"] == 8  # for each n, what computes t and the rest


def test_a_shape_that_is_computed_from_an_input():
    inputs = [value("x"), value("s", (2,), TensorProto.INT64)]
    nodes = [node("Abs", ["s"], ["t"]), node("Reshape", ["x", "t"], ["y"])]
    loaded = load(nodes, inputs=inputs)
    for shape in ([3, 2], [1, 6], [-3, -2], [3, 2]):
        found = loaded.run({"x": X, "s": np.array(shape)})["y"]
        assert np.array_equal(found, X.reshape(np.abs(shape)))
    assert loaded.stats["compiled"] == 1 + 2  # what needs s once, the rest for two shapes
    with pytest.raises(ModelError, match="Reshape"):
        loaded.run({"x": X, "s": np.array([5, 5])})


def test_values_needed_one_after_the_other():
    inputs = [value("x"), value("s", (2,), TensorProto.INT64), value("t", (1,), TensorProto.INT64)]
    nodes = [
        node("Abs", ["s"], ["shape"]),
        node("Reshape", ["x", "shape"], ["r"]),
        node("Abs", ["t"], ["repeats"]),
        node("Concat", ["repeats", "one"], ["both"], axis=0),
        node("Tile", ["r", "both"], ["y"]),
    ]
    loaded = load(nodes, inputs=inputs, constants={"one": np.array([1])})
    for shape, count in (([3, 2], 2), ([6, 1], -3), ([3, 2], 0)):
        found = loaded.run({"x": X, "s": np.array(shape), "t": np.array([count])})["y"]
        assert np.array_equal(found, np.tile(X.reshape(shape), (abs(count), 1)))
    assert loaded.stats["staged"] > 1 and loaded.stats["host"] == 0


def test_a_shape_that_is_how_many_are_not_zero():
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Shape", ["places"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Concat", ["n", "one"], ["shape"], axis=0),
        node("Expand", ["start", "shape"], ["y"]),
    ]
    constants = {"one": np.array([1]), "start": np.array([[7.0]], np.float32)}
    loaded = load(nodes, constants=constants)
    for data in (X, np.zeros_like(X), np.ones_like(X)):
        count = np.count_nonzero(data)
        assert np.array_equal(loaded.run({"x": data})["y"], np.full((count, 1), 7, np.float32))
    assert loaded.stats["compiled"] == 2 and loaded.stats["host"] == 0  # up to the count, the rest


def test_expensive_work_before_a_needed_value_is_done_once(monkeypatch):
    monkeypatch.setattr(graph_builder, "FOLD_WORK", 1000)
    graphs = []

    def compile_graph(graph):
        graphs.append(graph)
        return Interpreted(graph)

    nodes = [
        node("MatMul", ["x", "w"], ["h"]),  # 12 x 12 x 12: more than import would fold
        node("Relu", ["h"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Transpose", ["places"], ["p"]),
        node("Abs", ["r"], ["a"]),
        node("GatherND", ["a", "p"], ["y"]),
        node("MatMul", ["a", "w"], ["g"]),
        node("NonZero", ["g"], ["z"]),
    ]
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (12, 12)).astype(np.float32)  # whole numbers: exact sums
    outputs = ["y", "z", "w", "x"]
    changed = model(nodes, inputs=[value("x", ("n", 12))], outputs=outputs, constants={"w": w})
    loaded = load_model(changed, compile_graph)
    for rows in (12, 11):
        x = rng.integers(-3, 4, (rows, 12)).astype(np.float32)
        y, z, same_w, same_x = loaded(x)
        r = np.maximum(x @ w, 0)
        np.testing.assert_array_equal(y, r[np.nonzero(r)])
        np.testing.assert_array_equal(z, np.nonzero(r @ w))
        assert np.array_equal(same_w, w) and np.array_equal(same_x, x)
    products = [n for graph in graphs for n in graph.nodes if n.op == "matmul"]
    assert len(products) == 2 * 2  # two products, for two shapes
    assert loaded.stats["cuts"] == 1  # behind the first count; the second is the last node's
    assert loaded.stats["compiled"] == 2 * 2  # both parts, for two shapes


@pytest.mark.parametrize("flag", [True, False])
def test_if_follows_its_condition(flag):
    def branch(op, shape):
        nodes = [node(op, ["x"], ["t"]), node("Reshape", ["t", shape], ["r"])]
        return helper.make_graph(nodes, op, [], [value("r", None)])

    nodes = [
        node("If", ["c"], ["y"], then_branch=branch("Neg", "a"), else_branch=branch("Abs", "b"))
    ]
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    loaded = load(nodes, inputs=inputs, constants={"a": np.array([6]), "b": np.array([3, 2])})
    found = loaded.run({"x": X, "c": np.array(flag)})["y"]
    assert np.array_equal(found, -X.reshape(6) if flag else abs(X).reshape(3, 2))
    assert loaded.stats["host"] == 1


def test_initializers_may_be_overridden_by_the_call():
    loaded = load(
        [node("Add", ["x", "w"], ["y"])], inputs=[value("x"), value("w")], constants={"w": X}
    )
    assert loaded.input_names == ("x",)
    assert np.array_equal(loaded.run({"x": X})["y"], 2 * X)
    assert np.array_equal(loaded.run({"x": X, "w": 2 * X})["y"], 3 * X)


def test_constants_reach_bodies_as_constants():
    """A body may use an outer initializer as a shape."""
    nodes = [node("Reshape", ["v", "shape"], ["w"]), node("Identity", ["c"], ["d"])]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v", None)],
        [value("d", (), TensorProto.BOOL), value("w", None)],
    )
    loaded = load(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        constants={"n": np.array(2), "shape": np.array([3, 2])},
    )
    assert np.array_equal(loaded.run({"x": X})["y"], X.reshape(3, 2))
    assert loaded.stats["staged"] == 0


def test_a_standard_function_with_a_loop_inside_runs_on_the_host(monkeypatch):
    """As import finds out only when it knows the types."""
    nodes = [node("Range", ["zero", "n", "one"], ["y"])]
    inputs = [value("n", (), TensorProto.INT64)]
    monkeypatch.setattr("weft.frontend.onnx.importer.find_handler", _without("Range"))
    loaded = load(nodes, inputs=inputs, constants={"zero": np.array(0), "one": np.array(1)})
    assert loaded.run({"n": np.array(5)})["y"].tolist() == [0, 1, 2, 3, 4]
    assert loaded.stats["host"] > 0


def _without(op_type):
    from weft.frontend.onnx.context import find_handler

    def find(domain, name, opset):
        return None if name == op_type else find_handler(domain, name, opset)

    return find


def test_unsupported_operators_of_host_and_tensors_come_in_one_list():
    nodes = [
        node("ImageDecoder", ["x"], ["a"]),
        node("SequenceConstruct", ["a"], ["s"]),
        node("Foo", ["s"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as error:
        load(nodes, opset=20)
    assert "ImageDecoder" in str(error.value) and "Foo" in str(error.value)


def test_results_are_never_the_models_or_the_callers_arrays():
    nodes = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceLength", ["s"], ["n"])]
    for given in (nodes, []):
        loaded = load(given, outputs=["x", "w"], constants={"w": X})
        first, second = loaded(X)
        first[:] = second[:] = 9
        assert np.array_equal(loaded(X)[0], X) and np.array_equal(loaded(X)[1], X)


def test_element_types_that_weft_has_not_are_refused_at_once():
    with pytest.raises(UnsupportedError, match="complex64"):
        load([node("Neg", ["x"], ["y"])], inputs=[value("x", (2,), TensorProto.COMPLEX64)])


# ---- what callers get wrong ----------------------------------------------------------------------


@pytest.fixture
def pair():
    inputs = [value("x", ("n", 3)), value("w", ("n", 3)), value("i", (1,), TensorProto.INT64)]
    return load([node("Add", ["x", "w"], ["y"])], inputs=inputs)


GIVEN = {"x": X, "w": X, "i": np.array([1])}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"z": X}, "WEFT-E0601", "'x': float32[n, 3], 'w': float32[n, 3], 'i': int64[1]"),
        ({"w": None}, "WEFT-E0601", "'w' is missing"),
        ({"x": X.astype(np.float64)}, "WEFT-E0603", "takes float32"),
        ({"i": np.array([1.0])}, "WEFT-E0603", "takes int64"),
        ({"x": np.array(["a"])}, "WEFT-E0603", "takes float32"),
        ({"x": [X, X]}, "WEFT-E0603", "sequence"),
        ({"x": X.reshape(6)}, "WEFT-E0604", "1 dimensions"),
        ({"x": X.reshape(3, 2)}, "WEFT-E0605", "size 2 in dimension 1, expected 3"),
        ({"w": X[:1]}, "WEFT-E0605", "n = 2 in input 'x'"),
        ({"i": np.array([1, 2])}, "WEFT-E0605", "expected 1"),
    ],
)
def test_wrong_inputs(pair, change, code, text):
    given = {k: v for k, v in (GIVEN | change).items() if v is not None}
    with pytest.raises(CallError) as error:
        pair.run(given)
    assert error.value.code == code and text in str(error.value)


def test_calling_with_arguments_in_order_or_by_name(pair):
    assert np.array_equal(pair(X, X, i=np.array([1])), 2 * X)
    assert pair.executable is None
    with pytest.raises(CallError, match="4 inputs for a model with 3"):
        pair(X, X, X, X)
    with pytest.raises(CallError, match="twice"):
        pair(X, X, x=X)
    nodes = [node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["z"])]
    both = load(nodes, outputs=["y", "z"])
    y, z = both(X)
    assert np.array_equal(y, -X) and np.array_equal(z, abs(X))
    assert set(both.executable.run({"x": X})) == {"y", "z"}


def test_numbers_and_zero_dimensional_arrays_are_arrays():
    loaded = load([node("Neg", ["x"], ["y"])], inputs=[value("x", ())])
    for given in (np.float32(3), np.array(3, np.float32)):
        assert loaded.run({"x": given})["y"] == -3
