import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExpressionError


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (7, 7), (2, 3, 4, 4), (0, 3, 3)])
def test_agrees_with_lapack(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run("det", x), np.linalg.det(x.astype(float)), rtol=1e-5)


def test_zero_pivots_and_singular_matrices():
    assert run("det", np.array([[0.0, 1.0], [1.0, 0.0]])) == -1
    assert run("det", np.ones((5, 5))) == 0


def test_a_matrix_must_be_square():
    with pytest.raises(ExpressionError, match="WEFT-E0184"):
        run("det", np.ones((2, 3)))
