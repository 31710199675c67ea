"""Passes that users bring change what is compiled, are checked, and are part of cache keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.weft.registered import forgotten
from weft.frontend.onnx.importer import import_model
from weft.ir.errors import CompileError, ExpressionError, InternalError
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph


@pytest.fixture(autouse=True)
def passes() -> Iterator[None]:
    with forgotten():
        weft.graph_pass(factor_into_conv)
        yield


def factor_into_conv(graph: weft.Graph) -> weft.Graph:
    edit = weft.GraphEdit(graph)
    for mul in graph.nodes:
        conv = edit.computes(mul, "mul") and edit.producer(mul.inputs[0])
        factor = edit.number(mul.inputs[1]) if conv else None
        if factor is not None and edit.computes(conv, "conv"):
            x, *weights = conv.inputs
            scaled = [edit.call("mul", w, factor) for w in weights]
            edit.replace(mul.outputs[0], edit.call("conv", x, *scaled, **conv.attributes))
    return edit.graph()


def conv_model(factor: np.ndarray, *, shared: bool = False):
    """conv(x) * factor; ``shared``: the convolution is an output, too."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": random.standard_normal(4).astype(np.float32),
        "f": factor.astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Mul", ["c", "f"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 7, 7])
    names = ["y", "c"] if shared else ["y"]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4, 4, 4]) for n in names]
    held = [numpy_helper.from_array(data, name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


X = np.random.default_rng(1).standard_normal((2, 3, 7, 7)).astype(np.float32)
NUMBER = np.full((1, 1, 1), 2.5)


def test_a_constant_factor_goes_into_the_weights() -> None:
    graph = import_model(conv_model(NUMBER))
    changed = factor_into_conv(graph)
    verify_graph(changed)
    assert sorted(node.op for node in changed.nodes) == ["conv", "mul", "mul"]
    assert [v.name for v in changed.outputs] == ["y"]
    wanted, found = interpret_graph(graph, [X]), interpret_graph(changed, [X])
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("factor", "shared"), [(NUMBER, True), (np.arange(4).reshape(4, 1, 1), False)]
)
def test_what_does_not_fit_stays(factor: np.ndarray, shared: bool) -> None:
    graph = import_model(conv_model(factor, shared=shared))
    assert factor_into_conv(graph).nodes == graph.nodes


@pytest.mark.parametrize("given", ["factor_into_conv", factor_into_conv])
def test_passes_of_a_compilation(given: object, tmp_path: Path) -> None:
    options = weft.Options(passes=(given,), cache_dir=str(tmp_path))
    run = weft.compile(conv_model(NUMBER), options=options)
    plain = weft.compile(conv_model(NUMBER), options=weft.Options(cache=False))
    np.testing.assert_allclose(run(X), plain(X), rtol=1e-4, atol=1e-4)
    stage = run.as_text("factor_into_conv")
    assert stage.count("conv(") + stage.count("mul(") >= 3
    assert "factor_into_conv" in weft.lower(conv_model(NUMBER), options=options).stages
    assert weft.compile(conv_model(NUMBER), options=options).stats["from_cache"]


def test_the_key_is_of_what_a_pass_gives(tmp_path: Path) -> None:
    """A closure changes, the source of the pass does not."""
    held = {"by": 2.0}

    def scale(graph: weft.Graph) -> weft.Graph:
        edit = weft.GraphEdit(graph)
        (node,) = graph.nodes
        edit.replace(node.outputs[0], edit.call("mul", *graph.inputs, np.float32(held["by"])))
        return edit.graph()

    x = weft.placeholder((5,), "float32", name="x")
    y = weft.compute((5,), lambda i: x[i] + 1, name="y")
    options = weft.Options(passes=(scale,), cache_dir=str(tmp_path))
    for by, cached in ((2.0, False), (3.0, False), (2.0, True)):
        held["by"] = by
        run = weft.compile(y, options=options)
        assert run.stats.get("from_cache", False) == cached
        np.testing.assert_array_equal(run(np.ones(5, np.float32)), np.full(5, by, np.float32))


def _fails(graph: weft.Graph) -> weft.Graph:
    raise ValueError("no")


def _itself(graph: weft.Graph) -> weft.Graph:
    edit = weft.GraphEdit(graph)
    y = graph.nodes[0].outputs[0]
    edit.replace(y, edit.call("neg", y))
    return edit.graph()


def _shape(graph: weft.Graph) -> weft.Graph:
    edit = weft.GraphEdit(graph)
    edit.replace(graph.nodes[0].outputs[0], edit.call("neg", np.zeros(3, np.float32)))
    return edit.graph()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (_fails, "ValueError: no"),
        (_itself, "computed from itself"),
        (_shape, "cannot be replaced"),
        (lambda graph: None, "a NoneType"),
        (lambda graph: replace(graph, nodes=()), "not defined before"),
        (lambda graph: replace(graph, outputs=graph.inputs), "inputs or outputs"),
        (lambda graph: replace(graph, in_place=((0, 0),)), "share memory"),
    ],
)
def test_nothing_that_a_pass_gives_is_believed(given: object, words: str) -> None:
    x = weft.placeholder((5,), "float32", name="x")
    y = weft.compute((5,), lambda i: x[i] + 1, name="y")
    with pytest.raises(CompileError, match="E0340") as caught:
        weft.compile(y, options=weft.Options(passes=(given,)))
    assert words in str(caught.value)


def test_names_of_passes() -> None:
    x = weft.placeholder((5,), "float32", name="x")
    y = weft.compute((5,), lambda i: x[i] + 1, name="y")
    with pytest.raises(CompileError, match=r"E0008.*\n.*factor_into_conv") as caught:
        weft.compile(y, options=weft.Options(passes=("factor_in_conv",)))
    assert "docs/extending.md" in caught.value.hint
    with pytest.raises(CompileError, match="E0001"):
        weft.Options(passes=(3,))
    with pytest.raises(CompileError, match="E0006"):
        weft.graph_pass("three")(3)


@pytest.mark.parametrize("least", [0, 1000])
def test_full_verification_names_a_pass_that_is_wrong(least: int) -> None:
    """On every graph, or on large ones alone."""

    def wrong(graph: weft.Graph) -> weft.Graph:
        if graph.inputs[0].shape[0] < least:
            return graph
        edit = weft.GraphEdit(graph)
        edit.replace(graph.nodes[0].outputs[0], edit.call("neg", graph.inputs[0]))
        return edit.graph()

    x = weft.placeholder((1000,), "float32", name="x")
    y = weft.compute((1000,), lambda i: x[i] + 1, name="y")
    with pytest.raises(CompileError) as caught:
        weft.compile(y, options=weft.Options(passes=(wrong,), verify="full"))
    assert caught.value.code == "WEFT-E0340" and not isinstance(caught.value, InternalError)
    assert caught.value.what == "pass wrong of Options.passes changes what the model computes"
    before, after = caught.value.__notes__
    assert "neg(x)" in after and "neg(x)" not in before


def _nodes() -> tuple[weft.GraphEdit, weft.Graph]:
    graph = import_model(conv_model(NUMBER))
    return weft.GraphEdit(graph), graph


def test_operators_by_names_that_there_are_not() -> None:
    edit, graph = _nodes()
    for action in (
        lambda: edit.computes(graph.nodes[0], "mull"),
        lambda: edit.call("mull", graph.inputs[0]),
    ):
        with pytest.raises(ExpressionError, match="E0007: there is no operator 'mull'") as caught:
            action()
        assert caught.value.hint.startswith("did you mean mul")


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (lambda edit, conv, mul: edit.replace(mul, conv.outputs[0]),
         "why: old is node Mul_1, not a value\n  try: pass node.outputs[0]"),
        (lambda edit, conv, mul: edit.replace(mul.outputs[0], conv),
         "why: new is node Conv_0, not a value\n  try: pass node.outputs[0]"),
        (lambda edit, conv, mul: edit.replace(mul.outputs[0], X),
         "why: new is a ndarray, not a value\n"
         "  try: pass node.outputs[0], or what edit.call gives"),
        (lambda edit, conv, mul: edit.call("neg", mul),
         "why: the operand is node Mul_1, not a value\n  try: pass node.outputs[0]"),
        (lambda edit, conv, mul: edit.replace(conv.inputs[0], mul.outputs[0]),
         "why: x: float32[2, 3, 7, 7] is no result of a node"),
        (lambda edit, conv, mul: edit.replace(mul.outputs[0], conv.inputs[0]),
         "why: y: float32[2, 4, 4, 4] cannot be replaced by x: float32[2, 3, 7, 7]\n"
         "  try: replace takes a value of the same shape and dtype"),
    ],
)  # fmt: skip
def test_what_a_graph_edit_does_not_take(action: object, text: str) -> None:
    edit, graph = _nodes()
    with pytest.raises(CompileError) as caught:
        action(edit, *graph.nodes)
    what = "WEFT-E0340: a pass gives no graph that computes the same"
    assert str(caught.value) == f"{what}\n  {text}"
