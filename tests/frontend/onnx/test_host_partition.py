"""Which nodes go to the host, and how few segments the rest makes."""

import numpy as np
from onnx import TensorProto, helper

from tests.errors.hostile_models import model, node, value
from weft.frontend.onnx.host_partition import partition
from weft.frontend.onnx.read_model import read_model


def stages(nodes, **fields):
    plan = partition(read_model(model(nodes, **fields)))
    return [
        (
            [n.name for n in stage.segment.nodes] if stage.segment else [],
            [n.name for n in stage.host],
        )
        for stage in plan.stages
    ], plan


def named(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, name=outputs[0], **attributes)


def test_a_model_of_tensors_is_one_segment_with_the_models_own_outputs():
    nodes = [named("Neg", ["x"], ["a"]), named("Abs", ["a"], ["b"]), named("Exp", ["x"], ["c"])]
    found, plan = stages(nodes, outputs=["b", "c"])
    assert found == [(["a", "b", "c"], [])]
    assert plan.stages[0].segment is plan.region


def test_tensor_nodes_wait_for_the_host_only_where_they_must():
    nodes = [
        named("Neg", ["x"], ["a"]),
        named("SequenceConstruct", ["a", "x"], ["s"]),
        named("SequenceAt", ["s", "zero"], ["t"]),
        named("Exp", ["x"], ["free"]),
        named("Abs", ["t"], ["late"]),
        named("Add", ["late", "free"], ["y"]),
    ]
    found, plan = stages(nodes, constants={"zero": np.array(0)})
    assert found == [(["a", "free"], ["s", "t"]), (["late", "y"], [])]
    first, second = (stage.segment for stage in plan.stages)
    assert first.outputs == ("a", "free") and first.captures == ("x",)
    assert second.outputs == ("y",) and set(second.captures) == {"t", "free"}


def test_kinds_follow_sequences_and_strings():
    text = value("x", (2,), TensorProto.STRING)
    nodes = [
        named("SequenceConstruct", ["x", "x"], ["s"]),
        named("Optional", ["s"], ["o"]),
        named("OptionalGetElement", ["o"], ["g"]),
        named("SequenceAt", ["g", "zero"], ["t"]),
        named("Concat", ["t", "x"], ["y"], axis=0),
        named("Equal", ["y", "y"], ["e"]),
        named("Not", ["e"], ["n"]),
    ]
    found, plan = stages(nodes, inputs=[text], outputs=["n"], constants={"zero": np.array(0)})
    kinds = [plan.kinds[name] for name in "sogtyen"]
    assert (
        kinds
        == ["seq(string)", "opt(seq(string))", "seq(string)", "string", "string"] + ["tensor"] * 2
    )
    assert found == [([], ["s", "o", "g", "t", "y", "e"]), (["n"], [])]


def branch(op, *inputs):
    result = value("r")
    return helper.make_graph([node(op, inputs, ["r"])], op, [], [result])


def test_branches_of_tensors_are_no_host_nodes_and_loops_are():
    tensors = [
        named("If", ["c"], ["y"], then_branch=branch("Neg", "x"), else_branch=branch("Abs", "x"))
    ]
    condition = {"c": np.array(True)}
    assert stages(tensors, constants=condition)[0] == [(["y"], [])]
    both = branch("SequenceConstruct", "x")
    sequences = [named("If", ["c"], ["y"], then_branch=both, else_branch=both)]
    assert stages(sequences, constants=condition)[0] == [([], ["y"])]
    body = helper.make_graph(
        [node("Identity", ["c0"], ["c1"]), node("Neg", ["v0"], ["v1"])],
        "body",
        [value("i", (), TensorProto.INT64), value("c0", (), TensorProto.BOOL), value("v0")],
        [value("c1", (), TensorProto.BOOL), value("v1")],
    )
    loops = [named("Loop", ["n", "", "x"], ["y"], body=body)]
    assert stages(loops, constants={"n": np.array(3)})[0] == [([], ["y"])]
