import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.errors import ExecutionError, ExpressionError
from weft.ir.tensor_interpreter import interpret

X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
RNG = np.random.default_rng(1)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (7,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_gather(axis, shape, dtype):
    low = 0 if dtype == np.uint8 else -X.shape[axis]
    indices = np.array(RNG.integers(low, X.shape[axis], shape), dtype)
    expected = np.take(X, indices.astype(np.int64), axis)
    np.testing.assert_array_equal(run("gather", X, indices, axis=axis), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (2, 0, 3), (3, 2, 4)])
def test_gather_elements(axis, shape):
    indices = RNG.integers(-X.shape[axis], X.shape[axis], shape)
    source = X[tuple(slice(None) if d == axis % 3 else slice(n) for d, n in enumerate(shape))]
    expected = np.take_along_axis(source, indices, axis)
    np.testing.assert_array_equal(run("gather_elements", X, indices, axis=axis), expected)


@pytest.mark.parametrize("width, batch_dims", [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)])
def test_gather_nd(width, batch_dims):
    outer = (*X.shape[:batch_dims], 6)
    sizes = X.shape[batch_dims : batch_dims + width]
    indices = np.stack([RNG.integers(-n, n, outer) for n in sizes], -1)
    expected = np.empty((*outer, *X.shape[batch_dims + width :]), np.float32)
    for place in np.ndindex(outer):
        expected[place] = X[(*place[:batch_dims], *indices[place])]
    np.testing.assert_array_equal(run("gather_nd", X, indices, batch_dims=batch_dims), expected)


@pytest.mark.parametrize("index", [3, -4, 2**40, -(2**63)])
def test_an_index_out_of_range_is_an_execution_error(index):
    with pytest.raises(ExecutionError):
        run("gather", X, np.array([0, index]), axis=0)
    with pytest.raises(ExecutionError):
        run("gather_elements", X, np.full((1, 1, 1), index), axis=0)
    with pytest.raises(ExecutionError):
        run("gather_nd", X, np.array([index]))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_one_hot(axis, depth):
    indices = np.arange(-8, 8).reshape(4, 4)
    values = np.array([3, 7], np.int16)
    at = np.where(indices < 0, indices + depth, indices)
    expected = np.where(np.expand_dims(at, axis) == _along(depth, axis), 7, 3).astype(np.int16)
    result = run("one_hot", indices, values, depth=depth, axis=axis)
    np.testing.assert_array_equal(result, expected)


def _along(depth, axis):
    shape = [1, 1, 1]
    shape[axis] = depth
    return np.arange(depth).reshape(shape)


def test_one_hot_of_floats_and_of_rare_types():
    values = np.array([0, 1], ml_dtypes.bfloat16)
    result = run("one_hot", np.array([1.9, -1.0], np.float32), values, depth=3, axis=-1)
    np.testing.assert_array_equal(result, np.array([[0, 1, 0], [0, 0, 1]], ml_dtypes.bfloat16))


def test_symbolic_sizes():
    n, k = var("n"), var("k")
    x, indices = placeholder((n, 5), name="x"), placeholder((k,), "int64", name="indices")
    data, picks = X[0], np.array([-1, 3, 3])
    (result,) = interpret(instantiate("gather", [x, indices], axis=0), [data, picks])
    np.testing.assert_array_equal(result, data[picks])


def test_indices_are_integers():
    with pytest.raises(ExpressionError, match="not integers"):
        run("gather", X, np.array([0.0]), axis=0)
