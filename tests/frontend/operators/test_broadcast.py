import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.broadcast import broadcast_shape
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.errors import ExpressionError

sizes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(sizes, sizes, sizes)
def test_shapes_broadcast_as_numpy_says(a, b, c):
    try:
        expected = np.broadcast_shapes(a, b, c)
    except ValueError:
        with pytest.raises(ExpressionError, match="WEFT-E0180"):
            broadcast_shape([a, b, c], "add")
    else:
        assert broadcast_shape([a, b, c], "add") == expected


@pytest.mark.parametrize(
    "a, b",
    [((2, 3), (3,)), ((1,), (5, 1)), ((), (4,)), ((2, 1, 3), (7, 1)), ((0, 3), (1, 3)), ((), ())],
)
def test_values_broadcast_as_numpy_says(a, b):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    np.testing.assert_array_equal(run("sub", x, y), x - y)


def test_equal_symbols_broadcast_and_one_gives_way():
    n = var("n")
    program = instantiate(
        "add", [placeholder((n, 1), name="a"), placeholder((1, var("n")), name="b")]
    )
    assert program.outputs[0].shape == (n, n)


def test_different_symbols_are_refused_by_name():
    with pytest.raises(ExpressionError, match="sizes \\(n, m\\) meet"):
        instantiate("add", [placeholder((var("n"),), name="a"), placeholder((var("m"),), name="b")])


def test_mixed_dtypes_are_refused():
    with pytest.raises(ExpressionError, match="WEFT-E0104"):
        run("add", np.zeros(2, np.float32), np.zeros(2, np.float64))
