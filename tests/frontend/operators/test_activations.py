import math

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExpressionError

X = np.array([-1e4, -100.0, -3.0, -1.0, -1e-8, -0.0, 0.0, 1e-8, 0.3, 1.0, 3.0, 20.0, 100.0, 1e4])
E = np.vectorize(math.erf)


def sigmoid(x):
    return np.where(
        x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))
    )


def soft_threshold(x):
    return np.sign(x) * np.where(abs(x) > 0.5, abs(x) - 0.2, 0)


def softplus(x):
    return np.logaddexp(0, x)


CASES = [
    ("sigmoid", {}, sigmoid),
    ("softplus", {}, softplus),
    ("softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("gelu", {}, lambda x: 0.5 * x * (1 + E(x / math.sqrt(2)))),
    (
        "gelu",
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("swish", {"alpha": 0.5}, lambda x: x * sigmoid(0.5 * x)),
    ("mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("elu", {"alpha": 2.0}, lambda x: np.where(x < 0, 2 * np.expm1(np.minimum(x, 0)), x)),
    (
        "selu",
        {"alpha": 1.5, "gamma": 2.0},
        lambda x: 2 * np.where(x < 0, 1.5 * np.expm1(np.minimum(x, 0)), x),
    ),
    ("celu", {"alpha": 2.0}, lambda x: np.where(x < 0, 2 * np.expm1(np.minimum(x, 0) / 2), x)),
    ("hard_sigmoid", {"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    ("hard_swish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("leaky_relu", {"alpha": 0.1}, lambda x: np.where(x < 0, 0.1 * x, x)),
    ("thresholded_relu", {"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    ("shrink", {"bias": 0.2, "lambd": 0.5}, soft_threshold),
    ("relu", {}, lambda x: np.maximum(x, 0)),
]  # fmt: skip


@pytest.mark.parametrize("op, attributes, reference", CASES)
@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-12), ("float32", 1e-5), ("float16", 2e-3)])
def test_agrees_with_the_formula_far_from_zero_too(op, attributes, reference, dtype, rtol):
    x = X.astype(dtype)
    result = run(op, x, **attributes)
    assert result.dtype == x.dtype
    expected = reference(x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(
        result, expected, rtol=rtol, atol=1e-7 if dtype != "float64" else 1e-14
    )


@pytest.mark.parametrize("op", [c[0] for c in CASES if c[0] not in ("thresholded_relu", "shrink")])
def test_nan_stays_nan(op):
    attributes = {"alpha": 1.5, "gamma": 2.0} if op == "selu" else {}
    assert np.isnan(run(op, np.array([np.nan]), **attributes)).all()


def test_relu_and_shrink_of_integers():
    x = np.array([-3, -1, 0, 1, 3], np.int8)
    assert run("relu", x).tolist() == [0, 0, 0, 1, 3]
    assert run("shrink", x, bias=1.5, lambd=1.5).tolist() == [-1, 0, 0, 0, 1]


def test_prelu_broadcasts_its_slope():
    x = np.array([[-1.0, 2.0], [-3.0, -4.0]])
    assert run("prelu", x, np.array([10.0, 100.0])).tolist() == [[-10.0, 2.0], [-30.0, -400.0]]


def test_an_unknown_approximation_is_refused():
    with pytest.raises(ExpressionError, match="gelu cannot be approximated by 'sigmoid'"):
        run("gelu", X, approximate="sigmoid")
