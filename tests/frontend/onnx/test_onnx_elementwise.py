"""Elementwise, cast, reduction and random handlers: ONNX's own node tests, and older opsets."""

from __future__ import annotations

import math
import warnings
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.node_context import NeedsValue
from weft.ir.errors import WeftError
from weft.ir.tensor_interpreter import interpret

OPERATORS = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "Pow",
        "Neg",
        "Abs",
        "Sign",
        "Reciprocal",
        "Sqrt",
        "Floor",
        "Ceil",
        "Round",
        "Min",
        "Max",
        "Sum",
        "Mean",
        "Clip",
        "BitShift",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "BitwiseNot",
        "Exp",
        "Log",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Tanh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Erf",
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "Celu",
        "Gelu",
        "Swish",
        "Mish",
        "HardSigmoid",
        "HardSwish",
        "Softplus",
        "Softsign",
        "ThresholdedRelu",
        "Shrink",
        "Sigmoid",
        "And",
        "Or",
        "Xor",
        "Not",
        "Equal",
        "Greater",
        "Less",
        "GreaterOrEqual",
        "LessOrEqual",
        "Where",
        "IsNaN",
        "IsInf",
        "Cast",
        "CastLike",
        "BitCast",
        "ReduceSum",
        "ReduceMean",
        "ReduceProd",
        "ReduceMin",
        "ReduceMax",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
        "ArgMax",
        "ArgMin",
        "CumSum",
        "CumProd",
        "HannWindow",
        "HammingWindow",
        "BlackmanWindow",
        "Dropout",
        "Det",
        "MelWeightMatrix",
    ]
)


@cache
def node_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    found = {}
    for case in cases:
        node = case.model.graph.node[0]
        if node.op_type in OPERATORS and "_expanded" not in case.name and "string" not in case.name:
            found[case.name] = case
    return found


def run_graph(graph, feeds):
    values = dict(graph.constants) | feeds
    for node in graph.nodes:
        results = interpret(node.program, [values[v.name] for v in node.inputs])
        values |= {v.name: r for v, r in zip(node.outputs, results, strict=True)}
    return [values[v.name] for v in graph.outputs]


def run_model(model, inputs):
    feeds = {v.name: np.asarray(a) for v, a in zip(model.graph.input, inputs, strict=False)}
    shapes = {name: a.shape for name, a in feeds.items()}
    known = {}
    while True:
        try:
            return run_graph(import_model(model, shapes=shapes, known=known), feeds)
        except NeedsValue as need:
            given = {v.name: feeds[v.name] for v in need.graph.inputs}
            (known[need.name],) = run_graph(need.graph, given)


def array(data):
    return onnx.numpy_helper.to_array(data) if isinstance(data, TensorProto) else data


@pytest.mark.parametrize("name", node_tests())
def test_onnx_node_suite(name):
    case = node_tests()[name]
    for inputs, outputs in case.data_sets:
        results = run_model(case.model, [array(i) for i in inputs])
        expected = [array(o) for o in outputs]
        Runner.assert_similar_outputs(expected, results, rtol=case.rtol, atol=case.atol)


def one_node(op_type, opset, inputs, n_outputs=1, **attributes):
    """The results of one node of the old ``opset``."""
    names = [f"x{n}" for n in range(len(inputs))]
    outputs = [f"y{n}" for n in range(n_outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, outputs, **attributes)],
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, inputs, strict=True)
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    return run_model(model, inputs)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_old_broadcasting_aligns_at_an_axis():
    b = np.array([10.0, 20.0, 30.0], np.float32)
    (y,) = one_node("Add", 6, [X, b], broadcast=1, axis=1)
    np.testing.assert_array_equal(y, X + b[:, None])
    (y,) = one_node("Mul", 6, [X, X[0]], broadcast=1)
    np.testing.assert_array_equal(y, X * X[0])
    with pytest.raises(WeftError, match="axis 2 leaves no room"):
        one_node("Add", 6, [X, X[0]], broadcast=1, axis=2)


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64"])
def test_old_error_functions_take_whole_numbers(kind):
    x = np.array([-5, -2, -1, 0, 1, 2, 3, 6]).astype(kind)
    (y,) = one_node("Erf", 9, [x])
    assert y.dtype == kind
    np.testing.assert_array_equal(y, [int(np.float32(math.erf(v))) for v in x.tolist()])


def test_old_clip_takes_attributes():
    (y,) = one_node("Clip", 6, [X], min=3.0, max=7.0)
    np.testing.assert_array_equal(y, X.clip(3, 7))


def test_old_reductions_take_axes_as_an_attribute():
    (y,) = one_node("ReduceSum", 11, [X], axes=[-1], keepdims=0)
    np.testing.assert_array_equal(y, X.sum(-1))
    (y,) = one_node("ReduceMax", 1, [X])
    np.testing.assert_array_equal(y, X.max(keepdims=True))


def test_no_axes_may_mean_no_reduction():
    none = np.zeros(0, np.int64)
    (y,) = one_node("ReduceSumSquare", 18, [X, none], noop_with_empty_axes=1)
    np.testing.assert_array_equal(y, X * X)


def test_old_prelu_has_a_slope_per_channel():
    slope = np.array([2.0, 3.0, 4.0], np.float32)
    (y,) = one_node("PRelu", 6, [-X, slope])
    np.testing.assert_array_equal(y, -X * slope[:, None])


def test_old_cast_names_its_type():
    (y,) = one_node("Cast", 1, [X], to="INT32")
    assert y.dtype == np.int32


def test_the_mask_of_an_old_dropout_has_the_type_of_its_input():
    y, mask = one_node("Dropout", 7, [X], n_outputs=2, ratio=0.5)
    np.testing.assert_array_equal(y, X)
    assert mask.dtype == np.float32 and mask.all()
    _, mask = one_node("Dropout", 10, [X], n_outputs=2, ratio=0.5)
    assert mask.dtype == np.bool_ and mask.all()


@pytest.mark.parametrize(
    "op_type, opset, attributes, message",
    [
        ("Cast", 13, {}, "attribute 'to' is missing"),
        ("Cast", 1, {"to": "INT33"}, "names no element type"),
        ("Cast", 13, {"to": TensorProto.STRING}, "element type string"),
    ],
)
def test_bad_attributes_are_refused(op_type, opset, attributes, message):
    with pytest.raises(WeftError, match=message):
        one_node(op_type, opset, [X], **attributes)


def test_a_shift_needs_a_direction():
    x = np.ones(2, np.uint8)
    with pytest.raises(WeftError, match="neither 'LEFT' nor 'RIGHT'"):
        one_node("BitShift", 11, [x, x], direction="UP")


def test_dropout_of_everything_is_refused():
    ratio, training = np.array(1.0, np.float32), np.array(True)
    with pytest.raises(WeftError, match="not in \\[0, 1\\)"):
        one_node("Dropout", 13, [X, ratio, training])
