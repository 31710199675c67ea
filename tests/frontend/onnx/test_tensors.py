"""Tensors of every element type, in every form in which ONNX stores them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from weft.frontend.onnx.tensors import (
    ELEMENT_TYPES,
    dtype_of,
    element_type_of,
    sparse_to_array,
    tensor_to_array,
)
from weft.ir import dtypes
from weft.ir.errors import BudgetError, ModelError, UnsupportedError


def numbers(element_type: int, shape: tuple[int, ...]) -> np.ndarray:
    dtype = ELEMENT_TYPES[element_type]
    few = np.random.default_rng(element_type).integers(-8, 8, shape)
    if dtype.kind in ("uint", "bool"):
        few = few % 2 if dtype.bits == 2 or dtype.kind == "bool" else abs(few)
    elif dtype.bits == 2:
        few = few % 2 - 1
    if dtype == dtypes.float8_e8m0fnu:
        few = 2 ** (few % 5)
    return few.astype(np.float32).astype(dtype.numpy)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("element_type", sorted(ELEMENT_TYPES))
@pytest.mark.parametrize("raw", [True, False])
def test_data_survives(element_type, shape, raw):
    data = numbers(element_type, shape)
    if raw:
        tensor = numpy_helper.from_array(data, "t")
    else:
        tensor = helper.make_tensor("t", element_type, shape, data.reshape(-1).tolist())
    found = tensor_to_array(tensor)
    assert found.dtype == data.dtype and found.shape == shape
    assert found.tobytes() == data.tobytes()
    assert not found.flags.writeable


def test_dtypes_and_element_types_are_inverse():
    for element_type, dtype in ELEMENT_TYPES.items():
        assert dtype_of(element_type) == dtype and element_type_of(dtype) == element_type
    with pytest.raises(UnsupportedError, match="complex64"):
        dtype_of(TensorProto.COMPLEX64)
    with pytest.raises(ModelError, match="WEFT-E0203"):
        dtype_of(1234)


def test_strings():
    tensor = helper.make_tensor("t", TensorProto.STRING, [2, 1], ["a", "é"])
    assert tensor_to_array(tensor).tolist() == [["a"], ["é"]]


@pytest.mark.parametrize("coordinates", [True, False])
def test_sparse(coordinates):
    dense = np.zeros((3, 4), np.float32)
    dense[0, 1], dense[2, 3] = 5, -2
    places = np.argwhere(dense) if coordinates else np.flatnonzero(dense)
    values = helper.make_tensor("v", TensorProto.FLOAT, [2], [5.0, -2.0])
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places), [3, 4])
    assert np.array_equal(sparse_to_array(sparse, 100), dense)
    with pytest.raises(BudgetError):
        sparse_to_array(sparse, 11)


def test_signed_small_integers():
    tensor = onnx.TensorProto(data_type=TensorProto.INT4, dims=[3], raw_data=b"\x8f\x07")
    assert tensor_to_array(tensor).astype(int).tolist() == [-1, -8, 7]
