"""``onnx.backend.base.Backend``: prepare, run_model, run_node, devices, what is refused and how."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx.backend.base import Backend
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import weft.onnx_backend
from tests.errors.hostile_models import model, node, value
from weft.ir.errors import CallError, ModelError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
TWO = model(
    [node("Neg", ["x"], ["y"]), node("Add", ["x", "w"], ["z"])],
    inputs=[value("x"), value("w", ())],
    outputs=["y", "z"],
)


def test_it_is_a_backend_and_a_module_of_functions():
    assert issubclass(weft.onnx_backend.WeftBackend, Backend)
    assert weft.onnx_backend.is_compatible(TWO)
    assert weft.onnx_backend.supports_device("CPU")
    assert not weft.onnx_backend.supports_device("CUDA")


@pytest.mark.parametrize("weight", [np.float32(3), np.array(3, np.float32)])
def test_inputs_in_order_or_by_name_and_numpy_scalars(weight):
    rep = weft.onnx_backend.prepare(TWO, "CPU")
    for given in ([X, weight], {"w": weight, "x": X}):
        outputs = rep.run(given)
        assert np.array_equal(outputs[0], -X) and np.array_equal(outputs.z, X + 3)


def test_one_array_for_one_input():
    (y,) = weft.onnx_backend.run_model(model([node("Abs", ["x"], ["y"])]), X)
    assert np.array_equal(y, abs(X))


def test_run_node():
    (y,) = weft.onnx_backend.run_node(node("Sub", ["a", "b"], ["c"]), [X, X[:1]])
    assert np.array_equal(y, X - X[:1])
    # The same input twice, and an absent one.
    (y,) = weft.onnx_backend.run_node(node("Clip", ["a", "", "b"], ["c"]), [X, np.float32(1)])
    assert np.array_equal(y, np.minimum(X, 1))


def test_only_what_is_unsupported_is_not_supposed_to_be_implemented():
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="Foo"):
        weft.onnx_backend.prepare(model([node("Foo", ["x"], ["y"])]))
    with pytest.raises(BackendIsNotSupposedToImplementIt):
        weft.onnx_backend.prepare(TWO, "CUDA")
    with pytest.raises(ModelError):
        weft.onnx_backend.prepare(model([node("Add", ["x", "ghost"], ["y"])]))
    with pytest.raises(CallError, match="3 inputs for a model with 2"):
        weft.onnx_backend.prepare(TWO).run([X, X, X])


def test_integers_stay_integers():
    changed = model([node("Neg", ["x"], ["y"])], inputs=[value("x", (3,), TensorProto.INT8)])
    (y,) = weft.onnx_backend.run_model(changed, [np.array([1, -128, 5], np.int8)])
    assert y.dtype == np.int8 and y.tolist() == [-1, -128, -5]
