import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.tensor_interpreter import interpret

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1,), (0,), (13,), (3, 5), (2, 3, 4), (2, 0)])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.int8])
def test_nonzero(shape, dtype):
    x = RNG.integers(0, 2, shape).astype(dtype)
    if dtype == np.float32 and x.size:
        x.flat[0] = np.nan
    coordinates, count = run("nonzero", x)
    expected = np.array(np.nonzero(x))
    assert count == expected.shape[1] and coordinates.shape == (x.ndim, x.size)
    np.testing.assert_array_equal(coordinates[:, :count], expected)


def reference(slices, sorted_):
    """First place, inverse and count of each different one, by comparing all pairs in Python."""
    different = []
    for s in slices:
        if s not in different:
            different.append(s)
    if sorted_:
        different.sort()
    inverse = [different.index(s) for s in slices]
    return [slices.index(s) for s in different], inverse, [slices.count(s) for s in different]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("sorted_", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (7, 2), (2, 7), (5, 3)])
def test_unique(axis, sorted_, shape):
    x = RNG.integers(-1, 2, shape).astype(np.float32)
    if axis is None:
        slices = [(v,) for v in x.reshape(-1).tolist()]
    else:
        slices = [tuple(s.tolist()) for s in np.moveaxis(x, axis, 0)]
    got = run("unique", x, axis=None if axis is None else axis % 2, sorted_=sorted_)
    expected = reference(slices, sorted_)
    count = int(got[3])
    assert count == len(expected[0])
    np.testing.assert_array_equal(got[0][:count], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(got[2][:count], expected[2])


def test_slices_compare_lexicographically():
    x = np.array([[[1, 0], [5, 5]], [[0, 9], [9, 9]], [[1, 0], [4, 9]], [[0, 9], [9, 9]]])
    first, inverse, counts, count = run("unique", x, axis=0, sorted_=True)
    assert count == 3
    np.testing.assert_array_equal(first[:3], [1, 2, 0])
    np.testing.assert_array_equal(inverse, [2, 0, 1, 0])
    np.testing.assert_array_equal(counts[:3], [2, 1, 1])


def test_all_nans_are_one_value_and_the_last():
    x = np.array([np.nan, 1.0, np.nan, -np.inf, np.inf, -0.0, 0.0], np.float32)
    first, inverse, counts, count = run("unique", x, axis=None, sorted_=True)
    assert count == 5
    np.testing.assert_array_equal(first[:5], [3, 5, 1, 4, 0])
    np.testing.assert_array_equal(inverse, [4, 2, 4, 0, 3, 1, 1])
    np.testing.assert_array_equal(counts[:5], [1, 2, 1, 1, 2])


def test_nothing_has_no_different_elements():
    assert run("unique", np.zeros((0,), np.int32), axis=None, sorted_=True)[3] == 0


def test_symbolic_sizes():
    x = placeholder((var("n"), 2), "int64", name="x")
    data = np.array([[0, 1], [1, 0], [2, 2]])
    coordinates, count = interpret(instantiate("nonzero", [x]), [data])
    np.testing.assert_array_equal(coordinates[:, :count], np.array(np.nonzero(data)))
    results = interpret(instantiate("unique", [x], axis=None, sorted_=True), [data])
    np.testing.assert_array_equal(results[0][: results[3]], [0, 1, 4])
