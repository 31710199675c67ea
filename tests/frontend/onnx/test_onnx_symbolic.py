"""Models with open sizes: imported once, right at every size, whatever the sizes are called."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from weft.frontend.onnx.importer import import_model
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify

rng = np.random.default_rng(0)


def data(*shape):
    return rng.standard_normal(shape).astype(np.float32)


node = helper.make_node

# nodes, declared shape of x, shapes to run at, constants. Some symbols have the names of axes.
MODELS = {
    "convolution and pooling": (
        [
            node("Conv", ["x", "w", "b"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
            node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4,
                 ceil_mode=1),
            node("AveragePool", ["p"], ["y"], kernel_shape=[2, 2], strides=[2, 1],
                 pads=[1, 0, 0, 1], ceil_mode=1),
        ],
        ["n", 3, "r", "i0"],
        [(1, 3, 9, 13), (2, 3, 16, 8)],
        {"w": data(4, 3, 3, 3), "b": data(4)},
    ),
    "transposed convolution": (
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 0, 0],
              output_padding=[1, 0])],
        ["n", 3, "k", "r"],
        [(1, 3, 4, 5), (2, 3, 1, 2)],
        {"w": data(3, 2, 3, 3)},
    ),
    "cubic resizing": (
        [node("Resize", ["x", "", "s"], ["y"], mode="cubic")],
        ["n", 3, "output", "tap"],
        [(1, 3, 4, 6), (2, 3, 6, 4)],
        {"s": np.float32([1, 1, 2, 1.5])},
    ),
    "recurrence": (
        [node("LSTM", ["x", "w", "r"], ["all", "y"], hidden_size=5)],
        ["s", "b", 4],
        [(3, 2, 4), (7, 1, 4)],
        {"w": data(1, 20, 4), "r": data(1, 20, 5)},
    ),
    "products, norms and softmax": (
        [node("MatMul", ["x", "w"], ["m"]), node("LayerNormalization", ["m", "g"], ["l"]),
         node("Einsum", ["l", "l"], ["e"], equation="bik,bjk->bij"),
         node("Softmax", ["e"], ["y"])],
        ["k", "k2", 4],
        [(3, 2, 4), (1, 7, 4)],
        {"w": data(4, 6), "g": data(6)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MODELS)
def test_one_import_serves_all_sizes(what):
    nodes, dims, shapes, constants = MODELS[what]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=9,
    )
    graph = import_model(model)
    for shape in shapes:
        sizes = {d: s for d, s in zip(dims, shape, strict=True) if isinstance(d, str)}
        x = data(*shape)
        values = {**graph.constants, "x": x}
        for n in graph.nodes:
            verify(n.program)
            results = interpret(n.program, [values[v.name] for v in n.inputs], sizes)
            values |= {v.name: r for v, r in zip(n.outputs, results, strict=True)}
        (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(values[graph.outputs[0].name], expected, rtol=1e-4, atol=1e-5)


def test_sizes_do_not_grow_with_depth():
    """Fifty layers, each of which needs its input's size several times."""
    nodes, name = [], "x"
    for n in range(50):
        op = ("Conv", {"auto_pad": "SAME_LOWER"}) if n % 2 else ("MaxPool", {"ceil_mode": 1})
        more = {} if op[0] == "Conv" else {"kernel_shape": [3, 3]}
        inputs = [name, "w"] if op[0] == "Conv" else [name]
        nodes.append(
            node(op[0], inputs, [f"y{n}"], strides=[1 + (n % 10 == 0)] * 2, **op[1], **more)
        )
        name = f"y{n}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, "h", "w_"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(data(2, 2, 3, 3), "w")],
    )
    imported = import_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    )
    assert len(str(imported.outputs[0].shape)) < 2000
