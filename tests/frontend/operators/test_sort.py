import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.errors import BudgetError, ExpressionError
from weft.ir.tensor_interpreter import interpret


def top_k(x, k, axis, largest):
    """By Python's stable sort, NaN counting as the greatest value."""
    rows = np.moveaxis(x, axis, -1)
    indices = np.empty((*rows.shape[:-1], k), np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        row = rows[place].tolist()

        def key(j, row=row):
            value = row[j]
            nan = value != value
            return (nan, 0 if nan else value)

        order = sorted(range(len(row)), key=key)
        if largest:  # the other way round, ties still by rising index
            order = sorted(range(len(row)), key=lambda j: (key(j), -j), reverse=True)
        indices[place] = order[:k]
    indices = np.moveaxis(indices, -1, axis)
    return np.take_along_axis(x, indices, axis), indices


CASES = [
    (1, 1), (1, 0), (0, 0), (2, 2), (7, 3), (13, 13), (40, 1), (40, 5), (41, 6), (97, 2),
]  # fmt: skip


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n, k", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64])
def test_top_k_with_ties(n, k, largest, dtype):
    x = np.random.default_rng(n).integers(0, 9, (2, n)).astype(dtype)
    values, indices = run("top_k", x, k=k, axis=-1, largest=largest)
    expected = top_k(x, k, -1, largest)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 2, 20, 24])
def test_nan_is_the_greatest_value(k, largest):
    x = np.random.default_rng(3).standard_normal(24).astype(np.float32)
    x[[2, 3, 17]] = np.nan
    x[[5, 6]] = np.inf, -np.inf
    x[[7, 8]] = 0.0, -0.0
    values, indices = run("top_k", x, k=k, axis=0, largest=largest)
    expected = top_k(x, k, 0, largest)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_array_equal(values, expected[0])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n, k", [(256, 4), (500, 5), (509, 5), (510, 5), (720, 8)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64])
def test_a_few_of_many(n, k, largest, dtype):
    """Most divide into groups; equal elements are in several of them, and NaN and infinities."""
    x = np.random.default_rng(n).integers(0, 99, (3, n)).astype(dtype)
    if dtype is np.float32:
        x[0, :: n // 7] = np.nan
        x[1, : n - k // 2] = np.nan
        x[2, 1:] = np.inf if largest else -np.inf
        x[2, n // 2 :] *= -1
    for axis, given in ((1, x), (0, np.ascontiguousarray(x.T))):
        values, indices = run("top_k", given, k=k, axis=axis, largest=largest)
        expected = top_k(given, k, axis, largest)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(indices, expected[1])


def test_all_nan():
    x = np.full(20, np.nan, np.float32)
    for k in (1, 20):
        np.testing.assert_array_equal(run("top_k", x, k=k, axis=0, largest=False)[1], np.arange(k))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("k", [1, 3])
def test_any_axis(axis, k):
    x = np.random.default_rng(axis).permutation(9 * 10 * 11).reshape(9, 10, 11)
    values, indices = run("top_k", x, k=k, axis=axis, largest=True)
    expected = top_k(x, k, axis, True)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


def test_symbolic_sizes():
    x = placeholder((2, var("n")), "int64", name="x")
    data = np.random.default_rng(0).permutation(34).reshape(2, 17)
    values, indices = interpret(instantiate("top_k", [x], k=3, axis=1, largest=True), [data])
    np.testing.assert_array_equal(values, -np.sort(-data)[:, :3])
    np.testing.assert_array_equal(indices, np.argsort(-data)[:, :3])


@pytest.mark.parametrize("k", [-1, 6])
def test_k_is_within_the_axis(k):
    with pytest.raises(ExpressionError, match=f"k = {k} of 5"):
        run("top_k", np.zeros(5, np.float32), k=k, axis=0, largest=True)


def test_no_more_comparisons_than_a_minute_allows():
    x = placeholder((2**20,), name="x")
    instantiate("top_k", [x], k=2**10, axis=0, largest=True)
    with pytest.raises(BudgetError, match="WEFT-E0291"):
        instantiate("top_k", [x], k=2**20, axis=0, largest=True)
    with pytest.raises(BudgetError, match="WEFT-E0291"):
        instantiate("unique", [x], axis=None, sorted_=True)
