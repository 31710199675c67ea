"""Model-local functions are inlined with fresh names, attributes and absent inputs resolved."""

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper

from tests.errors.hostile_models import model, node, value
from weft.frontend.onnx.onnx_graph import all_nodes
from weft.frontend.onnx.read_model import MAX_DEPTH, expanded_size, read_model
from weft.ir.errors import BudgetError, ModelError

IMPORTS = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]


def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
    return helper.make_function(
        "f", name, inputs, outputs, nodes, IMPORTS, attributes, attribute_protos=list(defaults)
    )


def call(name, inputs, outputs, **attributes):
    return node(name, inputs, outputs, domain="f", **attributes)


def shown(region):
    return [f"{', '.join(n.outputs)} = {n.op_type}({', '.join(n.inputs)})" for n in region.nodes]


def test_two_calls_do_not_share_names():
    body = [node("Neg", ["a"], ["t"]), node("Abs", ["t"], ["b"])]
    nodes = [call("F", ["x"], ["y"]), call("F", ["y"], ["z"])]
    functions = [function("F", ["a"], ["b"], body)]
    region = read_model(model(nodes, outputs=["z"], functions=functions, domains=["f"]))
    assert shown(region) == [
        "y#/t = Neg(x)",
        "y = Abs(y#/t)",
        "z#/t = Neg(y)",
        "z = Abs(z#/t)",
    ]


def test_functions_in_functions():
    functions = [
        function("F", ["a"], ["b"], [call("G", ["a"], ["t"]), call("G", ["t"], ["b"])]),
        function("G", ["a"], ["b"], [node("Neg", ["a"], ["h"]), node("Abs", ["h"], ["b"])]),
    ]
    region = read_model(model([call("F", ["x"], ["y"])], functions=functions, domains=["f"]))
    assert shown(region) == [
        "y#/t#/h = Neg(x)",
        "y#/t = Abs(y#/t#/h)",
        "y#/h = Neg(y#/t)",
        "y = Abs(y#/h)",
    ]


def reference(name: str, to: str) -> AttributeProto:
    return AttributeProto(name=name, ref_attr_name=to, type=AttributeProto.INT)


def test_attributes_refer_to_the_caller_or_its_defaults():
    softmax = node("Softmax", ["a"], ["b"])
    softmax.attribute.append(reference("axis", "dim"))
    plain = function("F", ["a"], ["b"], [softmax], ["dim"])
    default = function("G", ["a"], ["b"], [softmax], [], [helper.make_attribute("dim", 7)])
    nodes = [
        call("F", ["x"], ["p"], dim=3),
        call("F", ["x"], ["q"]),
        call("G", ["x"], ["r"]),
        call("G", ["x"], ["s"], dim=4),
    ]
    region = read_model(model(nodes, outputs=["s"], functions=[plain, default], domains=["f"]))
    assert [dict(n.attributes) for n in region.nodes] == [{"axis": 3}, {}, {"axis": 7}, {"axis": 4}]


def test_absent_inputs_and_inputs_handed_through():
    clip = function(
        "F", ["a", "low", "high"], ["b", "a"], [node("Clip", ["a", "low", "high"], ["b"])]
    )
    region = read_model(model([call("F", ["x", ""], ["y", "z"])], functions=[clip], domains=["f"]))
    assert shown(region) == ["z = Identity(x)", "y = Clip(x, , )"]


def test_bodies_inside_functions_are_renamed_too():
    branch = helper.make_graph([node("Add", ["a", "t"], ["r"])], "b", [], [value("r")])
    body = [
        node("Neg", ["a"], ["t"]),
        node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
    ]
    flag = [value("x"), value("flag", (), TensorProto.BOOL)]
    functions = [function("F", ["a", "c"], ["b"], body)]
    region = read_model(
        model([call("F", ["x", "flag"], ["y"])], inputs=flag, functions=functions, domains=["f"])
    )
    inner = region.nodes[1].bodies[0]
    assert shown(inner) == ["y#/r = Add(x, y#/t)"]
    assert inner.captures == ("x", "y#/t") and region.captures == ()


def test_expanded_size_counts_bodies_and_calls():
    body = [node("Neg", ["a"], ["t"]), node("Abs", ["t"], ["b"])]
    functions = {
        ("f", "F", ""): function("F", ["a"], ["b"], body),
        ("f", "G", ""): function(
            "G", ["a"], ["b"], [call("F", ["a"], ["t"]), call("F", ["t"], ["b"])]
        ),
    }
    branch = helper.make_graph([call("G", ["x"], ["r"])], "b", [], [value("r")])
    nodes = [
        call("G", ["x"], ["y"]),
        node("If", ["c"], ["z"], then_branch=branch, else_branch=branch),
    ]
    assert expanded_size(nodes, functions) == 4 + 1 + 2 * 4


def chain(depth: int):
    return {
        ("f", f"F{i}", ""): function(f"F{i}", ["a"], ["b"], [call(f"F{i + 1}", ["a"], ["b"])])
        for i in range(depth)
    }


def test_depth_is_bounded_and_recursion_refused():
    top = [call("F0", ["x"], ["y"])]
    assert expanded_size(top, chain(MAX_DEPTH)) == 1
    with pytest.raises(BudgetError, match="WEFT-E0212"):
        expanded_size(top, chain(MAX_DEPTH + 1))
    circle = chain(3) | {("f", "F3", ""): function("F3", ["a"], ["b"], [call("F0", ["a"], ["b"])])}
    with pytest.raises(ModelError, match="calls itself"):
        expanded_size(top, circle)


def test_all_nodes_visits_bodies_in_order():
    branch = helper.make_graph([node("Neg", ["x"], ["r"])], "b", [], [value("r")])
    nodes = [
        node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        node("Abs", ["y"], ["z"]),
    ]
    region = read_model(model(nodes, outputs=["z"], constants={"c": np.array(True)}))
    assert [n.op_type for n in all_nodes(region)] == ["If", "Neg", "Neg", "Abs"]
