"""What comes in through doors is compiled, is part of cache keys, and has one definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import weft
from tests.weft.registered import forgotten
from weft.ir.errors import CompileError, ModelError, UnsupportedError
from weft.ir.registry import Registry, calling

X = np.linspace(-4, 3, 29, dtype=np.float32)


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    with forgotten():
        weft.operator(door_hard_mish)
        weft.onnx_handler("com.example", "HardMish", since=1)(_hard_mish)
        weft.onnx_handler("com.example", "HardMish", since=3)(_negative_hard_mish)
        yield


def door_hard_mish(x: weft.Tensor, *, scale: float = 1.0) -> weft.Tensor:
    def body(*i: weft.Axis) -> weft.Expr:
        return x[i] * weft.minimum(weft.maximum(x[i] + 2, 0), 2) * (scale / 2)

    return weft.compute(x.shape, body, name="hard_mish")


def door_mish(*tensors: object, **named: object) -> object:
    return weft.operator(door_hard_mish)(*tensors, **named)


def _hard_mish(node: weft.NodeContext) -> object:
    return node.call("door_hard_mish", node.input(0), scale=node.attribute("scale", 1.0))


def _negative_hard_mish(node: weft.NodeContext) -> object:
    return node.call("neg", node.call(door_hard_mish, node.input(0)))  # by its definition


def model(op_type: str, opset: int = 1, domain: str = "com.example", **attributes: float):
    node = helper.make_node(op_type, ["x"], ["y"], domain=domain, name="it", **attributes)
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [29]) for n in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def hard_mish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x.astype(np.float64) + 2, 0, 2) / 2


def test_operators_and_handlers_from_outside() -> None:
    for opset, expected in ((1, 3 * hard_mish(X)), (2, 3 * hard_mish(X)), (3, -hard_mish(X))):
        run = weft.compile(model("HardMish", opset, **({"scale": 3.0} if opset < 3 else {})))
        np.testing.assert_allclose(run(X), expected, rtol=1e-6)
    x = weft.placeholder((29,), "float32", name="x")
    np.testing.assert_allclose(weft.compile(door_hard_mish(x))(X), hard_mish(X), rtol=1e-6)


def test_an_error_names_the_door() -> None:
    with pytest.raises(UnsupportedError, match="E0200") as caught:
        weft.compile(model("Harder", 7))
    assert '@weft.onnx_handler("com.example", "Harder", since=7)' in caught.value.hint


def test_a_handler_that_calls_what_is_no_operator() -> None:
    @weft.onnx_handler("com.example", "Misspelt")
    def misspelt(node: weft.NodeContext) -> object:
        return node.call("door_hard_misch", node.input(0))

    with pytest.raises(ModelError, match="E0007"):
        weft.compile(model("Misspelt"))


def _imported_by(handler: Callable[[weft.NodeContext], object], **attributes: float) -> object:
    weft.onnx_handler("com.example", "Theirs")(handler)
    return weft.compile(model("Theirs", **attributes))


def test_a_handler_that_fails_is_named_with_its_line() -> None:
    def fails(node: weft.NodeContext) -> object:
        return np.ones(3).reshape(-1, 2)

    with pytest.raises(ModelError, match="E0221") as caught:
        _imported_by(fails)
    line = fails.__code__.co_firstlineno + 1
    assert caught.value.where == f"node 'it' (Theirs), {__file__}:{line}"
    assert "node.malformed" in caught.value.hint


@pytest.mark.parametrize(
    ("handler", "what", "hint"),
    [
        (lambda node: door_mish(node.input(0)), "door_hard_mish: x is a Value, not a tensor",
         'node.call("door_hard_mish", …) in a handler, edit.call in a pass'),
        (lambda node: door_mish(x=node.input(0)), "door_hard_mish: x is a Value, not a tensor",
         'node.call("door_hard_mish", …) in a handler, edit.call in a pass'),
        (lambda node: door_mish(X), "door_hard_mish: x is a ndarray, not a tensor",
         "weft.placeholder makes tensors; compile the result to call it with arrays"),
        (lambda node: node.call("door_hard_mish", X),
         "operand 0 is a ndarray, not a value of the graph",
         "node.constant(array) makes one"),
    ],
)  # fmt: skip
def test_operators_take_tensors(
    handler: Callable[[weft.NodeContext], object], what: str, hint: str
) -> None:
    with pytest.raises(ModelError, match="E0106") as caught:
        _imported_by(handler)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_what_a_handler_never_asks_for_is_said() -> None:
    def half(node: weft.NodeContext) -> object:
        return node.call("neg", node.input(0))

    weft.onnx_handler("com.example", "Theirs")(half)
    told = r"node 'it' \(Theirs\): its handler never asks for attribute alpha, attribute beta$"
    with pytest.warns(weft.WeftWarning, match=told):
        weft.compile(model("Theirs", alpha=1.0, beta=2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.compile(model("HardMish", scale=3.0))
        weft.compile(model("Theirs"))


def _one(x: weft.Tensor) -> weft.Tensor:
    return x


def test_a_name_has_one_definition() -> None:
    weft.operator("door_twice")(_one)
    with pytest.raises(CompileError, match="E0005") as caught:
        weft.operator("door_twice")(lambda x: x)
    assert caught.value.where.count("test_doors.py:") == 2
    weft.operator("door_twice")(_one)  # the same thing
    for again in range(3):  # the same place, as a cell of a notebook that runs again
        weft.operator("door_thrice")(lambda x, again=again: x)


def test_weft_s_own_names_are_taken() -> None:
    with pytest.raises(CompileError, match="E0005"):
        weft.operator("softmax")(_one)
    with pytest.raises(CompileError, match="E0005"):
        weft.onnx_handler("ai.onnx", "Softmax", since=13)(_hard_mish)


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.operator("door_number")(3),
        lambda: weft.operator("door_kernel")(weft.kernel(_one)),
        lambda: weft.onnx_handler("com.example", "It")(3),
        lambda: weft.onnx_handler("com.example", "", since=1),
        lambda: weft.onnx_handler("com.example", "It", since=True),
        lambda: weft.onnx_handler(_one, "It"),
    ],
)
def test_what_is_no_definition(call: Callable[[], object]) -> None:
    with pytest.raises(CompileError, match="E0006"):
        call()


def _table() -> Registry[str, int]:
    return Registry("number", "weft.no_such_group", lambda *_: None)


def test_the_order_of_imports_decides_nothing() -> None:
    plain = ("n", 1, calling(0), False)
    replacing = ("n", 2, calling(0), True)
    other = calling(0)
    for order in ([plain, replacing], [replacing, plain]):
        table = _table()
        for entry in order:
            table.add(*entry)
        assert table.find("n") == 2 and table.names() == ["n"]
        with pytest.raises(CompileError, match="E0005"):
            table.add("n", 3, other)


def test_cells_of_a_notebook() -> None:
    """Code that stands in no file runs again as often as it is changed."""
    cell = "import weft\n\n@weft.operator\ndef door_cell(x):\n    return x\n"
    for changed in (cell, "\n\n" + cell, cell + "\n"):
        exec(compile(changed, f"<cell {len(changed)}>", "exec"), {"__name__": "a notebook"})


def test_replaced_operators_are_part_of_the_key(tmp_path: Path) -> None:
    """The program is the key, so that what an operator's name stands for counts, not the name."""

    def again(by: float) -> weft.Executable:
        weft.operator("door_key", replace=True)(
            lambda x: weft.compute(x.shape, lambda i: x[i] * by, name="key")
        )
        return weft.compile(model("Key"), options=weft.Options(cache_dir=str(tmp_path), threads=1))

    weft.onnx_handler("com.example", "Key")(lambda node: node.call("door_key", node.input(0)))
    for by, cached in ((2.0, False), (3.0, False), (2.0, True)):
        run = again(by)
        assert run.stats.get("from_cache", False) == cached
        np.testing.assert_array_equal(run(X), np.float32(by) * X)


def test_a_model_of_its_own_domain_is_valid_onnx() -> None:
    onnx.checker.check_model(model("HardMish"))
