import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExecutionError, ExpressionError

RNG = np.random.default_rng(0)
UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
REDUCTIONS = ["none", *UFUNCS]


def put(result, place, value, reduction):
    old = result[place]
    result[place] = value if reduction == "none" else UFUNCS[reduction](old, value)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (2, 3, 0), (3, 2, 4)])
def test_scatter_elements_in_order(reduction, axis, shape):
    x = RNG.integers(-9, 9, (3, 4, 5))
    indices = RNG.integers(-x.shape[axis], x.shape[axis], shape)
    updates = RNG.integers(-9, 9, shape)
    expected = x.copy()
    for place in np.ndindex(shape):
        at = list(place)
        at[axis] = indices[place]
        put(expected, tuple(at), updates[place], reduction)
    result = run("scatter_elements", x, indices, updates, axis=axis, reduction=reduction)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("outer", [(), (0,), (7,), (2, 11)])
def test_scatter_nd_in_order(reduction, width, outer):
    x = RNG.integers(-9, 9, (3, 4, 2))
    indices = np.stack([RNG.integers(-n, n, outer) for n in x.shape[:width]], -1)
    updates = RNG.integers(-9, 9, (*outer, *x.shape[width:]))
    expected = x.copy()
    for place in np.ndindex(outer):
        put(expected, tuple(indices[place]), updates[place], reduction)
    result = run("scatter_nd", x, indices, updates, reduction=reduction)
    np.testing.assert_array_equal(result, expected)


def test_of_many_writes_to_one_element_the_last_wins():
    x, indices = np.zeros(3, np.float32), np.array([1, 1, -2, 1])
    updates = np.array([1, 2, 3, 4], np.float32)
    result = run("scatter_elements", x, indices, updates, axis=0)
    np.testing.assert_array_equal(result, np.array([0, 4, 0], np.float32))


@pytest.mark.parametrize("reduction", ["min", "max", "add"])
def test_nan_stays(reduction):
    x, updates = np.array([1, np.nan], np.float32), np.array([np.nan, 1], np.float32)
    result = run("scatter_elements", x, np.arange(2), updates, axis=0, reduction=reduction)
    assert np.isnan(result).all()


def test_bools_combine_by_or_and_and():
    x, updates = np.array([False, True, True]), np.array([True, False, True])
    for reduction, expected in (("add", x | updates), ("mul", x & updates)):
        result = run("scatter_elements", x, np.arange(3), updates, axis=0, reduction=reduction)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("index", [3, -4, 2**62])
def test_an_index_out_of_range_is_an_execution_error(index):
    x, one = np.zeros(3, np.float32), np.ones(1, np.float32)
    with pytest.raises(ExecutionError):
        run("scatter_elements", x, np.array([index]), one, axis=0)
    with pytest.raises(ExecutionError):
        run("scatter_nd", x, np.array([[index]]), one)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_tensor_scatter(mode, axis):
    cache = RNG.standard_normal((2, 5, 7)).astype(np.float32)
    size = cache.shape[axis]
    update = np.moveaxis(RNG.standard_normal((2, 12 - size, 3)).astype(np.float32), -1, axis)
    starts = np.array([size - 3, 0]) if mode == "linear" else np.array([size - 1, size + 2])
    expected = cache.copy()
    for b, t in np.ndindex(2, 3):
        at = (starts[b] + t) % size
        np.moveaxis(expected, axis, 1)[b, at] = np.moveaxis(update, axis, 1)[b, t]
    result = run("tensor_scatter", cache, update, starts, axis=axis, mode=mode)
    np.testing.assert_array_equal(result, expected)
    if mode == "linear":
        with pytest.raises(ExecutionError):
            run("tensor_scatter", cache, update, starts + 1, axis=axis, mode=mode)


def test_the_batch_is_no_place_for_a_sequence():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ExpressionError, match="batch dimension"):
        run("tensor_scatter", x, x, None, axis=0, mode="linear")
    with pytest.raises(ExpressionError, match="WEFT-E0191"):
        run("tensor_scatter", x[:, :2], x, None, axis=1, mode="linear")
