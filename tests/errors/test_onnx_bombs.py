"""Small models that would take much: refused, or done without."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.errors.hostile_models import model, node, outcome, value
from tests.errors.limited import limited
from weft.host import onnx_control_flow

HUGE = {"huge": np.array([2**21, 2**21])}


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", ["huge"], ["y"], name="bomb")],
        [node("Expand", ["x1", "huge"], ["y"], name="bomb")],
        [node("Tile", ["x", "huge"], ["y"], name="bomb")],
        [node("Pad", ["x", "pads"], ["y"], name="bomb")],
        [node("Range", ["zero", "large", "one"], ["y"], name="bomb")],
        [node("OneHot", ["x", "large", "pair"], ["y"], name="bomb")],
        [node("RandomNormal", [], ["y"], name="bomb", shape=[2**21, 2**21])],
        [node("Upsample", ["x", "scales"], ["y"], name="bomb")],
        [
            node("ConstantOfShape", ["large1"], ["a"], name="bomb"),
            node("Add", ["a", "a"], ["b"]),
            node("ReduceSum", ["b"], ["y"]),
        ],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_a_small_model_cannot_ask_for_terabytes(nodes):
    constants = HUGE | {
        "x1": np.ones((1, 1), np.float32),
        "pads": np.array([0, 0, 2**40, 2**40]),
        "zero": np.array(0),
        "one": np.array(1),
        "large": np.array(2**42),
        "large1": np.array([2**42]),
        "pair": np.array([0.0, 1.0], np.float32),
        "scales": np.array([1e9, 1e9], np.float32),
    }
    opset = 9 if nodes[0].op_type == "Upsample" else 18
    given = {"x": np.ones((2, 3), np.float32)}
    found = limited(lambda: outcome(model(nodes, constants=constants, opset=opset), given))
    assert found.startswith(("BudgetError", "ModelError")) and "bomb" in found, found


def test_folding_stays_small_where_each_step_is_small():
    """Doubling sixty times: no single step looks bad."""
    nodes = [node("Concat", [f"a{i}", f"a{i}"], [f"a{i + 1}"], axis=0) for i in range(60)]
    changed = model(nodes, inputs=[], outputs=["a60"], constants={"a0": np.ones(2, np.float32)})
    assert limited(lambda: outcome(changed)).startswith("BudgetError")


def nested_functions(depth: int, calls: int) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = []
    for level in range(depth):
        op, domain = (f"F{level + 1}", "f") if level + 1 < depth else ("Relu", "")
        nodes = [
            node(op, ["a" if c == 0 else f"t{c}"], [f"t{c + 1}"], domain=domain)
            for c in range(calls)
        ]
        functions.append(
            helper.make_function("f", f"F{level}", ["a"], [f"t{calls}"], nodes, imports)
        )
    top = [node("F0", ["x"], ["y"], domain="f")]
    return model(top, functions=functions, domains=["f"])


def test_exponential_inlining_is_counted_not_done():
    assert limited(lambda: outcome(nested_functions(40, 3))).startswith("BudgetError WEFT-E0210")
    assert limited(lambda: outcome(nested_functions(60, 2))).startswith("BudgetError WEFT-E0210")


def test_deep_function_nesting():
    found = limited(lambda: outcome(nested_functions(5000, 1)))
    assert found.startswith("BudgetError WEFT-E0212"), found
    assert limited(lambda: outcome(nested_functions(30, 1))) == "fine"


def test_a_function_that_calls_itself():
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    calls = [("F", "G"), ("G", "F")]
    functions = [
        helper.make_function("f", a, ["a"], ["b"], [node(b, ["a"], ["b"], domain="f")], imports)
        for a, b in calls
    ]
    changed = model([node("F", ["x"], ["y"], domain="f")], functions=functions, domains=["f"])
    assert limited(lambda: outcome(changed)).startswith("ModelError WEFT-E0211")


def nested_branches(depth: int) -> bytes:
    """A model whose If nests ``depth`` deep, as bytes: protobuf itself refuses to build it."""

    def field(number: int, data: bytes) -> bytes:
        size, head = len(data), bytearray([number << 3 | 2])
        while size >= 128:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes(head) + bytes([size]) + data

    graph = helper.make_graph([node("Relu", ["x"], ["r"])], "b", [], [value("r")])
    data = graph.SerializeToString()
    outputs = field(12, value("r").SerializeToString())
    for _ in range(depth):
        branches = [
            field(5, field(1, name) + field(6, data) + bytes([20 << 3 & 127 | 128, 1, 5]))
            for name in (b"then_branch", b"else_branch")[: 1 if depth > 8 else 2]
        ]
        branch = field(1, b"c") + field(2, b"r") + field(4, b"If") + b"".join(branches)
        data = field(1, branch) + outputs
    base = model([], outputs=[], constants={"c": np.array(True)}).SerializeToString()
    return base + field(7, data)


def test_deep_subgraphs():
    assert limited(lambda: outcome(nested_branches(4))) == "fine"
    for depth in (20, 30, 40, 300, 3000):
        found = limited(lambda depth=depth: outcome(nested_branches(depth)))
        assert found.startswith(("BudgetError WEFT-E0212", "ModelError WEFT-E02")), found


def test_a_hundred_thousand_nodes():
    nodes = [node("Relu", [f"a{i}"], [f"a{i + 1}"]) for i in range(100_000)]
    changed = model(nodes, inputs=[value("a0")], outputs=["a100000"])
    data = changed.SerializeToString()
    assert limited(lambda: outcome(data)).startswith("BudgetError WEFT-E0210")


def test_a_chain_of_five_thousand_is_no_problem():
    nodes = [node("Relu", [f"a{i}"], [f"a{i + 1}"]) for i in range(5000)]
    changed = model(nodes, inputs=[value("a0")], outputs=["a5000"])
    assert limited(lambda: outcome(changed)) == "fine"


def test_a_loop_without_end(monkeypatch):
    monkeypatch.setattr(onnx_control_flow, "MAX_ITERATIONS", 100)
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"])],
        "b",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL)],
        [value("d", (), TensorProto.BOOL), value("x")],
    )
    changed = model(
        [node("Loop", ["n", "t"], ["y"], name="forever", body=body)],
        constants={"n": np.array(2**62), "t": np.array(True)},
    )
    given = {"x": np.ones((2, 3), np.float32)}
    found = limited(lambda: outcome(changed, given))
    assert found.startswith("BudgetError WEFT-E0232") and "forever" in found, found
