import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run

FLOATS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_truth_tables(op):
    a, b = np.array(list(itertools.product([False, True], repeat=2))).T
    np.testing.assert_array_equal(run(op, a, b), getattr(np, f"logical_{op}")(a, b))


def test_not():
    assert run("not", np.array([True, False])).tolist() == [False, True]


@pytest.mark.parametrize("op", ["equal", "greater", "greater_or_equal", "less", "less_or_equal"])
@pytest.mark.parametrize("values", [FLOATS, np.array([-(2**63), -1, 0, 2**63 - 1])])
def test_comparisons(op, values):
    a, b = np.meshgrid(values, values)
    reference = {"greater_or_equal": "greater_equal", "less_or_equal": "less_equal"}.get(op, op)
    np.testing.assert_array_equal(run(op, a, b), getattr(np, reference)(a, b))


def test_unsigned_integers_compare_as_unsigned():
    assert run("greater", np.array([2**64 - 1], np.uint64), np.array([1], np.uint64)).all()


def test_where_broadcasts_all_three():
    c, x, y = np.array([[True], [False]]), np.arange(3), np.full((), -1)
    np.testing.assert_array_equal(run("where", c, x, y), np.where(c, x, y))


def test_nan_and_infinities_of_either_sign():
    np.testing.assert_array_equal(run("is_nan", FLOATS), np.isnan(FLOATS))
    np.testing.assert_array_equal(run("is_inf", FLOATS), np.isinf(FLOATS))
    np.testing.assert_array_equal(run("is_inf", FLOATS, negative=False), np.isposinf(FLOATS))
    np.testing.assert_array_equal(run("is_inf", FLOATS, positive=False), np.isneginf(FLOATS))
    assert not run("is_inf", FLOATS, positive=False, negative=False).any()
