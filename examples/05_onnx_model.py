"""An ONNX model: compile, run, save, and run again without compiling."""

import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import weft

rng = np.random.default_rng(0)
weights = {
    "w1": rng.standard_normal((64, 32), dtype=np.float32) / 8,
    "w2": rng.standard_normal((32, 10), dtype=np.float32) / 6,
}
graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "w1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
    ],
    "two_layers",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 64))],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 10))],
    [numpy_helper.from_array(array, name) for name, array in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

# Open sizes are bound by the calls; each new shape is compiled once.
open_program = weft.compile(model)
for batch in (1, 4):
    x = rng.standard_normal((batch, 64), dtype=np.float32)
    y = open_program(x)
    hidden = np.maximum(x.astype(np.float64) @ weights["w1"], 0) @ weights["w2"]
    e = np.exp(hidden - hidden.max(axis=1, keepdims=True))
    assert np.allclose(y, e / e.sum(axis=1, keepdims=True), atol=1e-5)

# With its shapes fixed the model is one program, which can be saved.
program = weft.compile(model, shapes={"x": (4, 64)})
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "two_layers.weft"
    program.save(path)
    assert np.array_equal(weft.load(path)(x), program(x))
    print(f"{path.name}: {path.stat().st_size:,} bytes")
print(program)
