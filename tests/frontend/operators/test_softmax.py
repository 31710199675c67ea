import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


def softmax(x, axes):
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (7, 13, 1)])
@pytest.mark.parametrize("axes", [(-1,), (0,), (1,), (1, 2), (0, 1, 2)])
def test_softmax_and_its_logarithm(shape, axes):
    x = rng.standard_normal(shape) * 10
    np.testing.assert_allclose(run("softmax", x, axes=axes), softmax(x, axes), rtol=1e-12)
    logarithm = run("log_softmax", x, axes=axes)
    np.testing.assert_allclose(logarithm, np.log(softmax(x, axes)), rtol=1e-12, atol=1e-14)


def test_large_inputs_do_not_overflow():
    x = np.float32([[1000, 1001, -1000], [-3e38, 3e38, 0]])
    np.testing.assert_allclose(run("softmax", x), softmax(x.astype(np.float64), -1), rtol=1e-6)
    np.testing.assert_allclose(
        run("log_softmax", x[:1])[0, :2], [-1.3132616, -0.3132617], rtol=1e-5
    )


def test_nan_and_masked_elements():
    x = np.array([[0.0, -np.inf, 0.0], [np.nan, 1.0, 2.0]])
    result = run("softmax", x)
    np.testing.assert_array_equal(result[0], [0.5, 0.0, 0.5])
    assert np.isnan(result[1]).all()


def test_half_precision_is_rounded_after_each_step_and_summed_in_float32():
    x = (rng.standard_normal((5, 1000)) * 4).astype(np.float16)
    shifted = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64)).astype(np.float16)
    total = shifted.astype(np.float64).sum(-1, keepdims=True).astype(np.float16)
    expected = (shifted.astype(np.float64) / total).astype(np.float16)
    result = run("softmax", x)
    assert np.abs(result.view(np.int16) - expected.view(np.int16)).max() <= 1


@pytest.mark.parametrize("axes", [(-1,), (0,), (1, 2)])
def test_hardmax_takes_the_first_greatest(axes):
    x = rng.integers(0, 3, (3, 4, 5)).astype(np.float64)
    result = run("hardmax", x, axes=axes)
    moved = np.moveaxis(x, axes, range(3 - len(axes), 3)).reshape(
        -1, np.prod([x.shape[a] for a in axes])
    )
    expected = np.eye(moved.shape[1])[moved.argmax(1)]
    got = np.moveaxis(result, axes, range(3 - len(axes), 3)).reshape(moved.shape)
    np.testing.assert_array_equal(got, expected)


def test_symbolic_sizes():
    x = rng.standard_normal((3, 4, 5))
    for op in ("softmax", "log_softmax", "hardmax"):
        result = run_symbolic(op, x, sizes={0: {0: "a", 1: "b", 2: "c"}}, axes=(1, 2))
        np.testing.assert_array_equal(result, run(op, x, axes=(1, 2)))


def test_empty_batches():
    assert run("softmax", np.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(("axes", "code"), [((3,), "WEFT-E0151"), ((1, -2), "WEFT-E0153")])
def test_bad_axes_are_refused(axes, code):
    with pytest.raises(ExpressionError) as caught:
        instantiate("softmax", [placeholder((2, 3, 4), name="x")], axes=axes)
    assert caught.value.code == code
