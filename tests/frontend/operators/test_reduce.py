import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.errors import ExpressionError
from weft.ir.tensor_interpreter import interpret

X = np.random.default_rng(0).standard_normal((3, 1, 5, 2))


def log_sum_exp(x, **kw):
    return np.log(np.sum(np.exp(x), **kw))


REFERENCES = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_prod": np.prod,
    "reduce_min": np.min,
    "reduce_max": np.max,
    "reduce_l1": lambda x, **kw: np.sum(np.abs(x), **kw),
    "reduce_l2": lambda x, **kw: np.sqrt(np.sum(x * x, **kw)),
    "reduce_log_sum_exp": log_sum_exp,
    "reduce_sum_square": lambda x, **kw: np.sum(x * x, **kw),
}


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize("axes", [None, (0,), (-1, 0), (1, 2), (0, 1, 2, 3), ()])
@pytest.mark.parametrize("keepdims", [True, False])
def test_agrees_with_numpy(op, axes, keepdims):
    expected = REFERENCES[op](X, axis=axes, keepdims=keepdims)
    np.testing.assert_allclose(run(op, X, axes=axes, keepdims=keepdims), expected, rtol=1e-12)


def test_log_of_a_sum():
    np.testing.assert_allclose(
        run("reduce_log_sum", np.abs(X)), np.log(np.abs(X).sum(keepdims=True))
    )


@pytest.mark.parametrize(
    "op, value",
    [
        ("reduce_sum", 0),
        ("reduce_prod", 1),
        ("reduce_min", np.inf),
        ("reduce_max", -np.inf),
        ("reduce_mean", np.nan),
        ("reduce_log_sum_exp", -np.inf),
        ("reduce_l2", 0),
    ],
)
def test_an_empty_reduction_gives_the_identity(op, value):
    result = run(op, np.zeros((2, 0, 3), np.float32), axes=(1,), keepdims=False)
    np.testing.assert_array_equal(result, np.full((2, 3), value, np.float32))


def test_nan_wins_minimum_and_maximum():
    x = np.array([1.0, np.nan, 2.0])
    assert np.isnan(run("reduce_min", x)) and np.isnan(run("reduce_max", x))


def test_reductions_of_booleans_and_integers():
    x = np.array([[True, False], [False, False]])
    assert run("reduce_max", x, axes=(1,), keepdims=False).tolist() == [True, False]
    assert run("reduce_min", x, axes=(1,), keepdims=False).tolist() == [False, False]
    n = np.array([-7, 2, 0], np.int32)
    assert run("reduce_mean", n, keepdims=False) == -1  # -5 / 3, truncated
    assert run("reduce_l2", n, keepdims=False) == 7  # sqrt(53)
    assert run("reduce_log_sum_exp", np.array([1000, 0]), keepdims=False) == 1000


def test_sums_of_narrow_floats_are_kept_in_float32():
    ones = np.ones(4096, ml_dtypes.bfloat16)  # in bfloat16, 256 + 1 is 256
    assert run("reduce_sum", ones, keepdims=False) == 4096
    assert run("reduce_mean", ones, keepdims=False) == 1


def test_log_sum_exp_survives_what_its_formula_does_not():
    x = np.array(
        [[1000.0, 1000.0], [-1000.0, -1001.0], [-np.inf, -np.inf], [np.inf, 0.0]], np.float32
    )
    result = run("reduce_log_sum_exp", x, axes=(1,), keepdims=False)
    np.testing.assert_allclose(result, np.logaddexp(x[:, 0], x[:, 1]), rtol=1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_arg_reductions_break_ties_as_told_and_a_nan_wins(last):
    x = np.array([[3.0, 1.0, 3.0, 1.0], [np.nan, 9.0, np.nan, -9.0], [-np.inf] * 4])
    most, least = ([2, 2, 3], [3, 2, 3]) if last else ([0, 0, 0], [1, 0, 0])
    for op, expected in (("arg_max", most), ("arg_min", least)):
        result = run(op, x, axis=1, keepdims=False, select_last_index=last)
        assert result.tolist() == expected and result.dtype == np.int64


def test_arg_reduction_keeps_its_dimension():
    np.testing.assert_array_equal(run("arg_max", X, axis=-2), X.argmax(axis=2, keepdims=True))


def test_symbolic_sizes():
    n = var("n")
    program = instantiate("reduce_mean", [placeholder((n, 3), name="x")], axes=(0,), keepdims=False)
    for rows in (1, 7):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_allclose(interpret(program, [x])[0], x.mean(0))


@pytest.mark.parametrize("axes", [(4,), (-5,), (0, -4)])
def test_bad_axes_are_refused(axes):
    with pytest.raises(ExpressionError, match="reduce_sum axes"):
        run("reduce_sum", X, axes=axes)
