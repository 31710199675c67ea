import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExpressionError

X = np.random.default_rng(0).standard_normal((3, 4, 2))


def reference(function, x, axis, exclusive, reverse, unit):
    x = np.flip(x, axis) if reverse else x
    y = function(x, axis=axis)
    if exclusive:
        head = np.full_like(np.take(y, [0], axis), unit)
        y = np.concatenate([head, np.take(y, range(y.shape[axis] - 1), axis)], axis)
    return np.flip(y, axis) if reverse else y


@pytest.mark.parametrize(
    "op, function, unit", [("cum_sum", np.cumsum, 0), ("cum_prod", np.cumprod, 1)]
)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_agrees_with_numpy(op, function, unit, axis, exclusive, reverse):
    result = run(op, X, axis=axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_allclose(result, reference(function, X, axis, exclusive, reverse, unit))


@pytest.mark.parametrize("n", [0, 1])
def test_few_elements(n):
    x = np.arange(n, dtype=np.int64) + 5
    assert run("cum_sum", x, axis=0).tolist() == [5] * n
    assert run("cum_sum", x, axis=0, exclusive=True, reverse=True).tolist() == [0] * n


def test_running_sums_of_narrow_floats_are_kept_in_float32():
    assert run("cum_sum", np.ones(4096, np.float16), axis=0)[-1] == 4096


def test_a_bad_axis_is_refused():
    with pytest.raises(ExpressionError, match="cum_sum axis"):
        run("cum_sum", X, axis=3)
