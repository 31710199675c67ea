import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)
X, G, V = rng.standard_normal((3, 4, 5))
H = rng.random((4, 5))
RATE = np.float64(0.1)


@pytest.mark.parametrize("count", [0, 3])
def test_adagrad(count):
    x, h = run("adagrad", RATE, np.int64(count), X, G, H, decay=0.1, epsilon=1e-3, norm=0.01)
    g = G + 0.01 * X
    np.testing.assert_allclose(h, H + g * g, rtol=1e-13)
    step = 0.1 / (1 + count * 0.1)
    np.testing.assert_allclose(x, X - step * g / (np.sqrt(h) + 1e-3), rtol=1e-12)


@pytest.mark.parametrize("count", [0, 3])
def test_adam(count):
    x, v, h = run("adam", RATE, np.int64(count), X, G, V, H, norm=0.01, norm_after=0.02)
    g = G + 0.01 * X
    np.testing.assert_allclose(v, 0.9 * V + 0.1 * g, rtol=1e-12)
    np.testing.assert_allclose(h, 0.999 * H + 0.001 * g * g, rtol=1e-12)
    step = 0.1 * np.sqrt(1 - 0.999**count) / (1 - 0.9**count) if count else 0.1
    expected = (X - step * v / (np.sqrt(h) + 1e-6)) * 0.98
    np.testing.assert_allclose(x, expected, rtol=1e-11)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum(count, nesterov):
    x, v = run("momentum", RATE, np.int64(count), X, G, V, alpha=0.9, beta=0.5, norm=0.01,
               nesterov=nesterov)  # fmt: skip
    g = G + 0.01 * X
    np.testing.assert_allclose(v, 0.9 * V + (0.5 if count else 1.0) * g, rtol=1e-12)
    np.testing.assert_allclose(x, X - 0.1 * (g + 0.9 * v if nesterov else v), rtol=1e-12)


def test_state_of_another_shape_is_refused():
    shapes = ((), (), (4, 5), (4, 5), (4, 4))
    with pytest.raises(ExpressionError, match="sizes of an optimizer's tensors differ: 4 and 5"):
        instantiate("adagrad", [placeholder(s, name="t") for s in shapes])
