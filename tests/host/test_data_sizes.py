"""Sizes that depend on data: computed once for all of them, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from tests.end_to_end.onnx_suite import Interpreted
from tests.errors.hostile_models import model, node, value
from weft.host.data_sizes import NO_SIZES, DataSizes
from weft.host.onnx_model import OnnxModel, load_model
from weft.ir.errors import CompileError
from weft.ir.scalar_expr import Var

SIZE = 7 * 3
COUNTS = (3, 0, 1, SIZE, 2, 13, 5, SIZE - 1)

Case = tuple[list[onnx.NodeProto], list[str], Callable[[np.ndarray], list[np.ndarray]]]


def data(count: int) -> np.ndarray:
    """float32, 7 × 3: positive at ``count`` random places, negative at the others."""
    rng = np.random.default_rng(count)
    x = -np.ones(SIZE, np.float32)
    x[rng.permutation(SIZE)[:count]] = rng.integers(1, 4, count)
    return x.reshape(7, 3)


def load(nodes: list[onnx.NodeProto], outputs: list[str], **fields: Any) -> OnnxModel:
    return load_model(model(nodes, outputs=outputs, **fields), Interpreted)


RELU, NONZERO = node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["p"])
CHOSEN = [RELU, NONZERO, node("Transpose", ["p"], ["t"]), node("GatherND", ["r", "t"], ["v"])]
COLUMN = [
    node("ReduceMax", ["x", "last"], ["most"], keepdims=0),
    node("Greater", ["most", "zero"], ["mask"]),
]


def chosen(x: np.ndarray) -> np.ndarray:
    return x[x > 0]


def columns(x: np.ndarray) -> np.ndarray:
    return x[x.max(1) > 0]


CONSTANTS = {
    "last": np.array([1]), "zero": np.float32(0), "one": np.array([1]), "start": np.array([0]),
    "two": np.float32(2), "w": np.arange(6, dtype=np.float32).reshape(3, 2),
}  # fmt: skip

CASES: dict[str, Case] = {
    "places": ([RELU, NONZERO], ["p"], lambda x: [np.array(np.nonzero(x > 0))]),
    "nothing follows that reads them": (
        [RELU, NONZERO, node("Neg", ["x"], ["y"])], ["p", "y"],
        lambda x: [np.array(np.nonzero(x > 0)), -x],
    ),
    "elements, their sum and both in a row": (
        [*CHOSEN, node("Mul", ["v", "v"], ["s"]), node("ReduceSum", ["s"], ["sum"], keepdims=0),
         node("Concat", ["s", "v"], ["row"], axis=0)],
        ["s", "sum", "row"],
        lambda x: [chosen(x) ** 2, (chosen(x) ** 2).sum(),
                   np.concatenate([chosen(x) ** 2, chosen(x)])],
    ),
    "rows of a mask, multiplied": (
        [*COLUMN, node("Compress", ["x", "mask"], ["rows"], axis=0),
         node("MatMul", ["rows", "w"], ["y"])],
        ["rows", "y"],
        lambda x: [columns(x), columns(x) @ CONSTANTS["w"]],
    ),
    "elements of a mask over all": (
        [RELU, node("Cast", ["r"], ["m"], to=TensorProto.BOOL),
         node("Reshape", ["m", "all"], ["f"]),
         node("Compress", ["x", "f"], ["c"]), node("Softmax", ["c"], ["y"], axis=0)],
        ["c", "y"],
        lambda x: [chosen(x), np.exp(chosen(x)) / np.exp(chosen(x)).sum()],
    ),
    "different elements, and how often each occurs": (
        [node("Unique", ["x"], ["u", "", "", "often"]), node("Mul", ["u", "u"], ["y"])],
        ["u", "often", "y"],
        lambda x: [*np.unique(x, return_counts=True), np.unique(x) ** 2],
    ),
    "a choice among what was chosen": (
        [*CHOSEN, node("Greater", ["v", "two"], ["m"]), node("Compress", ["v", "m"], ["big"]),
         node("Add", ["big", "two"], ["y"])],
        ["v", "y"],
        lambda x: [chosen(x), x[x > 2] + 2],
    ),
    "the count as a number": (
        [*CHOSEN, node("Size", ["v"], ["n"]), node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
         node("Mul", ["v", "f"], ["y"])],
        ["n", "y"],
        lambda x: [np.int64(chosen(x).size), chosen(x) * chosen(x).size],
    ),
}  # fmt: skip


def constants(nodes: list[onnx.NodeProto]) -> dict[str, np.ndarray]:
    read = {name for one in nodes for name in one.input}
    return {n: a for n, a in {**CONSTANTS, "all": np.array([-1])}.items() if n in read}


@pytest.mark.parametrize("name", CASES)
def test_any_count_is_computed_by_what_was_compiled_for_the_first(name: str) -> None:
    nodes, outputs, expected = CASES[name]
    loaded = load(nodes, outputs, inputs=[value("x", (7, 3))], constants=constants(nodes))
    compiled = 0
    for count in COUNTS:
        found = loaded.run({"x": data(count)})
        for output, wanted in zip(outputs, expected(data(count)), strict=True):
            np.testing.assert_allclose(found[output], wanted, rtol=1e-6)
        compiled = compiled or loaded.stats["compiled"]
        assert loaded.stats["compiled"] == compiled and loaded.stats["staged"] == 0


@pytest.mark.parametrize(
    "name", ["elements, their sum and both in a row", "rows of a mask, multiplied"]
)
def test_the_same_as_machine_code(name: str) -> None:
    nodes, outputs, expected = CASES[name]
    source = model(
        nodes, outputs=outputs, inputs=[value("x", ("n", 3))], constants=constants(nodes)
    )
    made = weft.compile(source)
    for count in COUNTS:
        for found, wanted in zip(made(data(count)), expected(data(count)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert made.stats["compiled"] == 2


def test_other_sizes_of_the_input_are_other_code() -> None:
    loaded = load(CHOSEN, ["v"], inputs=[value("x", ("n", 3))])
    for rows in (7, 0, 1, 7, 1):
        x = data(5)[:rows]
        np.testing.assert_array_equal(loaded.run({"x": x})["v"], chosen(x))
    assert loaded.stats["compiled"] == 2 * 3


def test_a_count_that_has_to_be_a_certain_one() -> None:
    """Other counts get code of their own where ONNX has an answer, a count of 1 that broadcasts,
    and are refused where it has none."""
    row = np.arange(5, dtype=np.float32)
    shaped = [value("x", (7, 3))]
    loaded = load(
        [*CHOSEN, node("Add", ["v", "row"], ["y"])], ["y"], inputs=shaped, constants={"row": row}
    )
    for count in (5, 1, 5):
        x = data(count)
        np.testing.assert_array_equal(loaded.run({"x": x})["y"], chosen(x) + row)
    with pytest.raises(CompileError):
        loaded.run({"x": data(3)})
    np.testing.assert_array_equal(loaded.run({"x": data(5)})["y"], chosen(data(5)) + row)


def test_an_attribute_that_is_the_count() -> None:
    """TopK's k has to be known: it is asked for in each call, and right in all."""
    nodes = [*CHOSEN, node("Shape", ["v"], ["k"]), node("TopK", ["v", "k"], ["y", "i"])]
    loaded = load(nodes, ["y"], inputs=[value("x", (7, 3))])
    for count in COUNTS:
        found = loaded.run({"x": data(count)})["y"]
        np.testing.assert_array_equal(found, np.sort(chosen(data(count)))[::-1])


@pytest.mark.parametrize("flag", [True, False])
def test_inside_a_branch(flag: bool) -> None:
    def branch(op: str) -> onnx.GraphProto:
        nodes = [node(op, ["x"], ["b"]), node("NonZero", ["b"], ["q"])]
        return helper.make_graph(nodes, op, [], [value("q", None, TensorProto.INT64)])

    nodes = [node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))]
    loaded = load(nodes, ["y"], inputs=[value("x", (7, 3)), value("c", (), TensorProto.BOOL)])
    for count in COUNTS:
        x = data(count)
        found = loaded.run({"x": x, "c": np.array(flag)})["y"]
        np.testing.assert_array_equal(found, np.nonzero(np.maximum(x, 0) if flag else x))


def test_a_value_that_is_called_as_the_count_would_be() -> None:
    nodes = [*CHOSEN, node("Add", ["v", "p_count"], ["y"])]
    inputs = [value("x", (7, 3)), value("p_count", (1,))]
    loaded = load(nodes, ["y"], inputs=inputs)
    for count in COUNTS:
        found = loaded.run({"x": data(count), "p_count": np.ones(1, np.float32)})["y"]
        np.testing.assert_array_equal(found, chosen(data(count)) + 1)


def test_what_is_known_of_some_values() -> None:
    sizes = DataSizes(
        {"a": 3, "b": 2, "c": 1}, {"a": 9, "b": Var("a"), "c": 4},
        {"x": (Var("a"), 2), "y": (Var("b"),), "z": (Var("c"),)},
    )  # fmt: skip
    of_y = sizes.among({"y": 0, "w": 0})
    assert dict(of_y.numbers) == {"a": 3, "b": 2}  # the bound of b is a
    assert set(of_y.shapes) == {"y"} and set(of_y.values) == {"a", "b"}
    assert of_y.symbols().conditions() == ("a <= 9", "b <= a")
    assert sizes.among({"w": 0}) == NO_SIZES
    assert sizes.among({"y": 0, "a": 0}) is NO_SIZES
