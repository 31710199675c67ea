import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.dtypes import float32
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)
EPSILON = 1e-5


def normal(x, axes, epsilon=EPSILON):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def along(p, rank, axis=1):
    return p.reshape([-1 if d == axis else 1 for d in range(rank)])


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 1), (4, 5), (1, 2, 1)])
def test_batch_norm(shape):
    x, (scale, bias, mean) = rng.standard_normal(shape), rng.standard_normal((3, shape[1]))
    variance = rng.random(shape[1]) + 0.1
    a, b = run("batch_norm_coefficients", scale, bias, mean, variance, epsilon=0.01)
    result = run("scale_shift", x, a, b)
    s, o, m, v = (along(p, x.ndim) for p in (scale, bias, mean, variance))
    np.testing.assert_allclose(result, s * (x - m) / np.sqrt(v + 0.01) + o, atol=1e-12)


def test_batch_norm_while_training():
    x, (scale, bias, mean) = rng.standard_normal((4, 3, 5)), rng.standard_normal((3, 3))
    variance = rng.random(3)
    y, new_mean, new_variance, own_mean, own_variance = run(
        "batch_norm_training", x, scale, bias, mean, variance, momentum=0.75
    )
    np.testing.assert_allclose(y, normal(x, (0, 2)) * along(scale, 3) + along(bias, 3), atol=1e-12)
    np.testing.assert_allclose(own_mean, x.mean((0, 2)), atol=1e-14)
    np.testing.assert_allclose(own_variance, x.var((0, 2)), atol=1e-14)
    np.testing.assert_allclose(new_mean, 0.75 * mean + 0.25 * own_mean, atol=1e-14)
    np.testing.assert_allclose(new_variance, 0.75 * variance + 0.25 * own_variance, atol=1e-14)


def test_batch_norm_of_each_activation():
    """spatial = 0: parameters have a value for every element of a sample."""
    x, parameters = rng.standard_normal((6, 3, 5)), rng.standard_normal((2, 3, 5))
    y, *_ = run("batch_norm_training", x, *parameters, np.zeros((3, 5)), np.ones((3, 5)))
    np.testing.assert_allclose(y, normal(x, (0,)) * parameters[0] + parameters[1], atol=1e-12)


def test_batch_norm_of_one_far_sample_is_the_bias():
    """Its variance is 0, so that all that rounding makes of x - mean is 300 times as large."""
    x = np.array([[33759.88, -70047.894, -12547.641]], np.float32)
    scale, bias, mean, variance = (np.array([a, 2, 1], np.float32) for a in (1.45, 0.7, 0, 1))
    y, *_ = run("batch_norm_training", x, scale, bias, mean, variance)
    np.testing.assert_array_equal(y, bias[None])


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_layer_norm(axis):
    x = rng.standard_normal((3, 4, 5))
    scale, bias = rng.standard_normal((2, *x.shape[axis:]))
    axes = tuple(range(axis % 3, 3))
    y, mean, inverse = run("layer_norm", x, scale, bias, axis=axis, statistics=True)
    np.testing.assert_allclose(y, normal(x, axes) * scale + bias, atol=1e-12)
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True), atol=1e-6)
    deviation = np.sqrt(x.var(axes, keepdims=True) + EPSILON)
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=1e-6)
    assert mean.dtype == inverse.dtype == np.float32
    without = run("layer_norm", x, scale, axis=axis)
    np.testing.assert_allclose(without, normal(x, axes) * scale, atol=1e-12)


def test_large_means_do_not_cancel():
    x = (rng.standard_normal((2, 1000)) + 1e4).astype(np.float32)
    y = run("layer_norm", x, np.ones(1000, np.float32), None)
    np.testing.assert_allclose(y, normal(x.astype(np.float64), 1), atol=2e-3)


def test_layer_norm_of_half_precision():
    x = (rng.standard_normal((3, 64)) * 100).astype(np.float16)
    scale = rng.standard_normal(64).astype(np.float16)
    expected = normal(x.astype(np.float64), 1) * scale
    y = run("layer_norm", x, scale, None, stash=float32)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_norm(axis):
    x = rng.standard_normal((3, 4, 5))
    scale, axes = rng.standard_normal(x.shape[axis:]), tuple(range(axis % 3, 3))
    expected = x / np.sqrt((x * x).mean(axes, keepdims=True) + EPSILON) * scale
    np.testing.assert_allclose(run("rms_norm", x, scale, axis=axis), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 7), (2, 2, 1, 1, 3)])
def test_instance_norm(shape):
    x, (scale, bias) = rng.standard_normal(shape), rng.standard_normal((2, shape[1]))
    expected = normal(x, tuple(range(2, x.ndim))) * along(scale, x.ndim) + along(bias, x.ndim)
    np.testing.assert_allclose(run("instance_norm", x, scale, bias), expected, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("per_group", [False, True])
def test_group_norm(groups, per_group):
    x = rng.standard_normal((2, 6, 3, 5))
    scale, bias = rng.standard_normal((2, groups if per_group else 6))
    split = normal(x.reshape(2, groups, -1), (2,)).reshape(x.shape)
    wide = [np.repeat(p, 6 // len(p)) for p in (scale, bias)]
    expected = split * along(wide[0], 4) + along(wide[1], 4)
    np.testing.assert_allclose(
        run("group_norm", x, scale, bias, groups=groups), expected, atol=1e-12
    )


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp_normalization_of_zeros_is_zero(p, axis):
    x = rng.standard_normal((3, 4))
    x[1], x[:, 2] = 0, 0
    norm = np.linalg.norm(x, p, axis, keepdims=True)
    expected = np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)
    np.testing.assert_allclose(run("lp_normalization", x, axis=axis, p=p), expected, rtol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_lrn(size):
    x = rng.standard_normal((2, 5, 3, 1))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = np.stack(
        [(x[:, max(c - before, 0) : c + after + 1] ** 2).sum(1) for c in range(5)], axis=1
    )
    expected = x / (0.5 + 0.1 / size * squares) ** 0.6
    result = run("lrn", x, size=size, alpha=0.1, beta=0.6, bias=0.5)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_mean_variance_norm():
    x = rng.standard_normal((2, 3, 4, 5))
    expected = (x - x.mean((0, 2, 3), keepdims=True)) / (x.std((0, 2, 3), keepdims=True) + 1e-9)
    result = run("mean_variance_norm", x, axes=(0, 2, 3))
    np.testing.assert_allclose(result, expected, rtol=1e-11)


def test_symbolic_sizes():
    x, p = rng.standard_normal((2, 6, 5)), rng.standard_normal((2, 6))
    names = {0: {0: "n", 2: "h"}}
    for op, inputs, more in (
        ("instance_norm", p, {}),
        ("group_norm", p, {"groups": 3}),
        ("scale_shift", p, {}),
        ("mean_variance_norm", (), {"axes": (0, 2)}),
    ):
        expected = run(op, x, *inputs, **more)
        np.testing.assert_array_equal(run_symbolic(op, x, *inputs, sizes=names, **more), expected)
    scale = rng.standard_normal(5)
    named = run_symbolic("layer_norm", x, scale, sizes={0: {1: "s", 2: "h"}, 1: {0: "h"}})
    np.testing.assert_array_equal(named, run("layer_norm", x, scale))


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("instance_norm", [(2, 3, 4), (4,), (4,)], {}),
        ("instance_norm", [(2, 3), (3,), (3,)], {}),
        ("group_norm", [(2, 6, 4), (6,), (6,)], {"groups": 4}),
        ("group_norm", [(2, 6, 4), (6,), (6,)], {"groups": 0}),
        ("layer_norm", [(2, 3, 4), (3,)], {}),
        ("layer_norm", [(2, 3, 4), (5, 2, 3, 4)], {}),
        ("batch_norm_coefficients", [(3,), (3,), (4,), (3,)], {}),
        ("lrn", [(2, 3, 4)], {"size": 0}),
        ("lp_normalization", [(2, 3)], {"axis": 2}),
    ],
)
def test_what_does_not_fit_is_refused(op, shapes, attributes):
    tensors = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ExpressionError):
        instantiate(op, tensors, **attributes)
