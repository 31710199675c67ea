"""Operators that may be the identity, as a whole graph and inside of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft

OPTIONS = weft.Options(threads=1, cache=False, workers=0)

CASES: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any]]] = [
    *(("Pad", (4,), [np.array([0, 0])], {"mode": m}) for m in ("reflect", "edge", "wrap")),
    ("Pad", (2, 3), [np.zeros(4, int), np.float32(7)], {"mode": "constant"}),
    ("Pad", (), [np.zeros(0, int)], {"mode": "edge"}),
    ("Transpose", (3,), [], {"perm": [0]}),
    ("Reshape", (2, 3), [np.array([0, -1])], {}),
    ("Squeeze", (2, 3), [], {}),
    ("Flatten", (2, 3), [], {"axis": 1}),
    ("Slice", (2, 3), [np.array([0]), np.array([2**60])], {}),
    ("Concat", (2, 3), [], {"axis": 0}),
    ("Sum", (2, 3), [], {}),
    ("Dropout", (2, 3), [], {}),
    ("Einsum", (2, 3), [], {"equation": "ij->ij"}),
    ("ReduceSum", (), [], {}),
    ("Tile", (2, 3), [np.array([1, 1])], {}),
    ("Expand", (2, 3), [np.array([2, 3])], {}),
    ("CenterCropPad", (2, 3), [np.array([2, 3])], {}),
    ("Resize", (1, 2, 3, 4), [np.zeros(0, np.float32), np.ones(4, np.float32)], {}),
    ("MaxPool", (1, 2, 3), [], {"kernel_shape": [1]}),
    ("CastLike", (2, 3), [np.float32(1)], {}),
]


def built(case: tuple[str, tuple[int, ...], list[Any], dict[str, Any]], inside: bool) -> Any:
    op, shape, constants, attributes = case
    names = [f"c{k}" for k in range(len(constants))]
    given = [
        numpy_helper.from_array(np.asarray(c), n) for c, n in zip(constants, names, strict=True)
    ]
    node = helper.make_node(op, ["u" if inside else "x", *names], ["y"], **attributes)
    around = [helper.make_node("Neg", ["x"], ["u"]), node, helper.make_node("Abs", ["y"], ["z"])]
    outputs = ["u", "y", "z"] if inside else ["y"]
    graph = helper.make_graph(
        around if inside else [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        given,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[3].get('mode', '')}")
def test_operators_that_return_their_input(case: Any, inside: bool) -> None:
    x = np.asarray(np.random.default_rng(0).random(case[1]), np.float32)
    results = weft.compile(built(case, inside), options=OPTIONS).run({"x": x})
    expected = {"u": -x, "y": -x, "z": x} if inside else {"y": x}
    assert list(results) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array, strict=True)
