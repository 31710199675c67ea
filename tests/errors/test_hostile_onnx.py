"""Malformed and hostile ONNX models end in a typed error that names the place, soon and small."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.errors.hostile_models import initializer, model, node, outcome, value
from tests.errors.limited import limited

RELU = [node("Relu", ["x"], ["y"], name="act")]


def test_the_base_model_is_fine():
    assert outcome(model(RELU), {"x": np.ones((2, 3), np.float32)}) == "fine"


# ---- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"not a model", b"\xff" * 100, model(RELU).SerializeToString()[:-7], b"\x00"]
)
def test_bytes_that_are_no_model(data):
    assert outcome(data).startswith("ModelError WEFT-E02")


def test_a_path_that_is_no_file(tmp_path):
    assert "WEFT-E0264" in outcome(tmp_path / "missing.onnx")
    assert "WEFT-E0264" in outcome("bad\0name.onnx")
    assert "WEFT-E0264" in outcome(tmp_path)
    assert "WEFT-E0264" in outcome("/dev/zero")  # which never ends


# ---- versions ------------------------------------------------------------------------------------


def test_unknown_ir_version():
    for version in (0, -1, 1000):
        changed = model(RELU)
        changed.ir_version = version
        assert "WEFT-E0241" in outcome(changed)


def test_unknown_opset():
    assert "WEFT-E0243" in outcome(model(RELU, opset=9999))
    assert "WEFT-E0242" in outcome(model(RELU, opset=-1))
    assert "WEFT-E0242" in outcome(model(RELU, opset=0))


def test_domain_imported_twice():
    changed = model(RELU)
    changed.opset_import.append(helper.make_opsetid("", 17))
    assert "WEFT-E0242" in outcome(changed)


def test_domain_not_imported():
    assert "WEFT-E0248" in outcome(model([node("Foo", ["x"], ["y"], domain="other")]))


def test_all_unknown_operators_are_reported_at_once():
    inner = helper.make_graph([node("Baz", ["x"], ["b"])], "then", [], [value("b")])
    other = helper.make_graph([node("Relu", ["x"], ["b"])], "else", [], [value("b")])
    function = helper.make_function(
        "my", "F", ["a"], ["b"], [node("Qux", ["a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    nodes = [
        node("Foo", ["x"], ["a"], name="n1"),
        node("Bar", ["a"], ["c"]),
        node("If", ["c"], ["d"], then_branch=inner, else_branch=other),
        node("F", ["d"], ["y"], domain="my"),
    ]
    found = outcome(model(nodes, functions=[function], domains=["my"]))
    assert found.startswith("UnsupportedError WEFT-E0200")
    assert all(f"ai.onnx.{op}" in found for op in ("Foo", "Bar", "Baz", "Qux"))
    assert "node 'n1' (Foo)" in found


# ---- names and order -----------------------------------------------------------------------------


def test_cycle():
    nodes = [node("Add", ["x", "b"], ["a"], name="first"), node("Relu", ["a"], ["b"])]
    found = outcome(model(nodes, outputs=["b"]))
    assert found.startswith("ModelError WEFT-E0222") and "node 'first' (Add)" in found
    assert "cycle" in found


def test_a_node_that_reads_itself():
    assert "WEFT-E0222" in outcome(model([node("Relu", ["y"], ["y"])]))


def test_dangling_input_and_output():
    found = outcome(model([node("Add", ["x", "ghost"], ["y"], name="sum")]))
    assert "nothing defines 'ghost'" in found and "node 'sum' (Add)" in found
    assert "nothing defines 'z'" in outcome(model(RELU, outputs=["z"]))


def test_dangling_name_in_a_body():
    body = helper.make_graph([node("Relu", ["ghost"], ["b"])], "then", [], [value("b")])
    nodes = [node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    condition = {"c": np.array(True)}
    assert "nothing defines 'ghost'" in outcome(model(nodes, constants=condition))


def test_duplicate_names():
    twice = [node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])]
    assert "WEFT-E0246" in outcome(model(twice))
    assert "WEFT-E0246" in outcome(model([node("Relu", ["x"], ["x"])], outputs=["x"]))
    assert "WEFT-E0245" in outcome(model(RELU, inputs=[value("x"), value("x")]))
    assert "WEFT-E0246" in outcome(model([node("Relu", ["x"], ["w"])], constants={"w": np.ones(3)}))
    again = model(RELU, constants={"w": np.ones(3, np.float32)})
    again.graph.initializer.append(again.graph.initializer[0])
    assert "WEFT-E0246" in outcome(again)


@pytest.mark.parametrize(
    "name",
    ['quo"te', "new\nline", "nul\0nul", "#include </etc/passwd>", "a b", "%d%s", "é→", "'" * 9],
)
def test_names_are_any_text(name):
    nodes = [node("Relu", [name], ["h" + name], name=name), node("Neg", ["h" + name], ["y" + name])]
    changed = model(nodes, inputs=[value(name)], outputs=["y" + name])
    changed.graph.name = name
    assert outcome(changed, {name: np.ones((2, 3), np.float32)}) == "fine"


# ---- nodes against their schemas -----------------------------------------------------------------


def test_wrong_attributes():
    cases = {
        "WEFT-E0250": node("Relu", ["x"], ["y"], colour=1),
        "WEFT-E0251": node("Softmax", ["x"], ["y"], axis=1.5),
        "WEFT-E0252": node("Cast", ["x"], ["y"]),
        "WEFT-E0249": node("Add", ["x"], ["y"]),
    }
    for code, bad in cases.items():
        assert code in outcome(model([bad])), code
    assert "WEFT-E0249" in outcome(model([node("Relu", ["x"], ["y", "z"])]))
    assert "WEFT-E0251" in outcome(model([node("Transpose", ["x"], ["y"], perm="ab")]))
    assert "WEFT-E0251" in outcome(model([node("Transpose", ["x"], ["y"], perm=3)]))


def test_attribute_given_twice():
    changed = model([node("Softmax", ["x"], ["y"], axis=1)])
    changed.graph.node[0].attribute.append(changed.graph.node[0].attribute[0])
    assert "WEFT-E0214" in outcome(changed)


IMAGE = [value("x", (1, 4, 8, 8))]
KERNEL = {"w": np.ones((4, 4, 3, 3), np.float32)}


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [0, 1]},
        {"strides": [-1, 1]},
        {"strides": [1]},
        {"dilations": [0, 0]},
        {"dilations": [2**62, 1]},
        {"group": 0},
        {"group": -1},
        {"group": 3},
        {"pads": [-9, 0, 0, 0]},
        {"pads": [2**62, 0, 2**62, 0]},
        {"pads": [1]},
        {"kernel_shape": [-3, 3]},
        {"kernel_shape": [5, 5]},
        {"auto_pad": "sideways"},
    ],
)
def test_convolutions_that_make_no_sense(attributes):
    nodes = [node("Conv", ["x", "w"], ["y"], name="c1", **attributes)]
    found = limited(lambda: outcome(model(nodes, inputs=IMAGE, constants=KERNEL)))
    assert found.startswith(("ModelError", "BudgetError")) and "c1" in found, found


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [0, 3]},
        {"kernel_shape": [-3, 3]},
        {"kernel_shape": [3]},
        {"kernel_shape": [99, 99]},
        {"kernel_shape": [3, 3], "strides": [0, 0]},
        {"kernel_shape": [3, 3], "pads": [-1, -1, -9, -9]},
    ],
)
def test_pools_that_make_no_sense(op, attributes):
    nodes = [node(op, ["x"], ["y"], name="p1", **attributes)]
    found = limited(lambda: outcome(model(nodes, inputs=IMAGE)))
    assert found.startswith(("ModelError", "BudgetError")) and "p1" in found, found


@pytest.mark.long
@pytest.mark.parametrize(
    "bad",
    [
        node("Add", ["x", "wide"], ["y"], name="n"),
        node("Add", ["x", "int"], ["y"], name="n"),
        node("MatMul", ["x", "x"], ["y"], name="n"),
        node("Gemm", ["x", "x"], ["y"], name="n"),
        node("Concat", ["x", "wide"], ["y"], name="n", axis=0),
        node("Concat", ["x", "x"], ["y"], name="n", axis=2),
        node("Concat", ["x", "x"], ["y"], name="n", axis=-(2**40)),
        node("Softmax", ["x"], ["y"], name="n", axis=5),
        node("Transpose", ["x"], ["y"], name="n", perm=[0, 0]),
        node("Transpose", ["x"], ["y"], name="n", perm=[0, 7]),
        node("Transpose", ["x"], ["y"], name="n", perm=[0]),
        node("Reshape", ["x", "shape"], ["y"], name="n"),
        node("Reshape", ["x", "float"], ["y"], name="n"),
        node("Squeeze", ["x", "axes"], ["y"], name="n"),
        node("Unsqueeze", ["x", "axes"], ["y"], name="n"),
        node("Gather", ["x", "axes"], ["y"], name="n", axis=9),
        node("Expand", ["x", "shape"], ["y"], name="n"),
        node("Slice", ["x", "one", "one", "axes"], ["y"], name="n"),
        node("Slice", ["x", "one", "one", "zero", "zero"], ["y"], name="n"),
        node("ReduceSum", ["x", "axes"], ["y"], name="n"),
        node("Tile", ["x", "minus"], ["y"], name="n"),
        node("Pad", ["x", "minus"], ["y"], name="n"),
        node("TopK", ["x", "hundred"], ["y", "i"], name="n"),
        node("OneHot", ["axes", "hundred", "x"], ["y"], name="n"),
        node("Split", ["x", "shape"], ["y", "z"], name="n"),
        node("Cast", ["x"], ["y"], name="n", to=99),
        node("Cast", ["x"], ["y"], name="n", to=-1),
        node("ConstantOfShape", ["minus"], ["y"], name="n"),
        node("LayerNormalization", ["x", "wide"], ["y"], name="n"),
        node("DepthToSpace", ["image"], ["y"], name="n", blocksize=0),
        node("DepthToSpace", ["image"], ["y"], name="n", blocksize=3),
        node("BatchNormalization", ["image", "one", "one", "one", "one"], ["y"], name="n"),
        node("EyeLike", ["image"], ["y"], name="n"),
        node("Einsum", ["x"], ["y"], name="n", equation="ijk->i"),
        node("Einsum", ["x"], ["y"], name="n", equation="(((("),
        node("CumSum", ["x", "hundred"], ["y"], name="n"),
        node("Resize", ["image", "", "minus_scale"], ["y"], name="n"),
    ],
    ids=lambda n: f"{n.op_type}-{','.join(n.input)}",
)
def test_nodes_that_do_not_fit_their_inputs(bad):
    constants = {
        "wide": np.ones((2, 5), np.float32),
        "int": np.ones((2, 3), np.int32),
        "float": np.ones(2, np.float32),
        "shape": np.array([4, 7]),
        "axes": np.array([9, -9]),
        "one": np.array([1]),
        "zero": np.array([0]),
        "minus": np.array([-2, -3]),
        "hundred": np.array([100]),
        "image": np.ones((1, 4, 8, 8), np.float32),
        "minus_scale": np.array([1, 1, -1, 0], np.float32),
    }
    given = {"x": np.ones((2, 3), np.float32)}
    found = limited(lambda: outcome(model([bad], constants=constants), given))
    assert found.startswith(("ModelError", "BudgetError", "UnsupportedError")), found
    assert "node 'n'" in found, found


def test_indices_out_of_range_are_an_error_of_the_call():
    nodes = [node("Gather", ["x", "i"], ["y"], name="pick")]
    changed = model(nodes, inputs=[value("x"), value("i", (1,), TensorProto.INT64)])
    for index in (2, -3, 2**62, -(2**63)):
        given = {"x": np.ones((2, 3), np.float32), "i": np.array([index])}
        assert outcome(changed, given).startswith("ExecutionError"), index


# ---- tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": 1, "dims": [2, 3], "raw_data": b"\0" * 23},
        {"data_type": 1, "dims": [2, 3], "raw_data": b"\0" * 25},
        {"data_type": 1, "dims": [2, 3], "raw_data": b""},
        {"data_type": 1, "dims": [2, 3], "float_data": [1.0]},
        {"data_type": 1, "dims": [2, 3]},
        {"data_type": 1, "dims": [-2, -3], "raw_data": b"\0" * 24},
        {"data_type": 1, "dims": [2**62, 2**62, 4], "raw_data": b"\0" * 24},
        {"data_type": 1, "dims": [2**63 - 1], "raw_data": b"\0" * 24},
        {"data_type": 1, "dims": [0, 2**62, 2**62], "raw_data": b""},
        {"data_type": 1, "dims": [1] * 1000, "float_data": [1.0]},
        {"data_type": 0, "dims": [1], "raw_data": b"\0" * 4},
        {"data_type": 77, "dims": [1], "raw_data": b"\0" * 4},
        {"data_type": 14, "dims": [1], "raw_data": b"\0" * 8},
        {"data_type": 8, "dims": [2], "string_data": [b"one"]},
        {"data_type": 22, "dims": [3], "raw_data": b"\0"},
        {"data_type": 16, "dims": [3], "int32_data": [1, 2]},
    ],
    ids=str,
)
def test_tensors_that_lie_about_their_data(fields):
    found = limited(lambda: outcome(initializer(**fields)))
    assert found.startswith(("ModelError WEFT-E02", "UnsupportedError WEFT-E02")), found
    assert "'w'" in found


def test_inputs_that_lie_about_their_shape():
    assert "WEFT-E0206" in outcome(model(RELU, inputs=[value("x", (-2, 3))]))
    found = outcome(model(RELU, inputs=[value("x", (2**40, 2**40))]))
    assert found.startswith(("ModelError", "BudgetError")), found
    assert outcome(model(RELU, inputs=[value("x", (2**33, 2**33, 0))])).startswith(
        ("ModelError", "BudgetError")
    )


def test_sparse_bombs():
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    for dims, index in (([2**20, 2**20], [5]), ([2, 3], [6]), ([2, 3], [-1])):
        indices = helper.make_tensor("i", TensorProto.INT64, [1], index)
        changed = model([node("Add", ["x", "w"], ["y"])])
        changed.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dims))
        found = limited(lambda changed=changed: outcome(changed))
        assert found.startswith(("ModelError WEFT-E0205", "BudgetError WEFT-E0209")), found
