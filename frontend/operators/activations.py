"""Activation functions, elementwise; narrow floats are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.frontend.operators.broadcast import elementwise, number
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import require
from weft.ir.build import erf, exp, expm1, log1p, maximum, minimum, tanh
from weft.ir.scalar_expr import Expr, apply, select
from weft.ir.tensor_expr import Tensor


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)): exp overflows to infinity where the result is 0, which is right."""
    return number(1, x) / (number(1, x) + exp(-x))


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)) without overflow."""
    return maximum(x, 0) + log1p(exp(-abs(x)))


def gelu(x: Expr, *, approximate: str = "none") -> Expr:
    """x Φ(x), or its approximation by tanh (Hendrycks and Gimpel, 2016)."""
    require(approximate in ("none", "tanh"), f"gelu cannot be approximated by {approximate!r}")
    if approximate == "tanh":
        return x * 0.5 * (tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)
    return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1)


def elu(x: Expr, *, alpha: float = 1.0) -> Expr:
    return select(x < 0, expm1(x) * alpha, x)


def selu(x: Expr, *, alpha: float, gamma: float) -> Expr:
    return elu(x, alpha=alpha) * gamma


def celu(x: Expr, *, alpha: float = 1.0) -> Expr:
    return select(x < 0, expm1(x / alpha) * alpha, x)


def hard_sigmoid(x: Expr, *, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    return maximum(minimum(x * alpha + beta, 1), 0)


def shrink(x: Expr, *, bias: float = 0.0, lambd: float = 0.5) -> Expr:
    return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))


_FLOAT: dict[str, Callable[..., Expr]] = {
    "sigmoid": sigmoid,
    "softplus": softplus,
    "softsign": lambda x: x / (abs(x) + 1),
    "gelu": gelu,
    "swish": lambda x, *, alpha=1.0: x * sigmoid(x * alpha),
    "mish": lambda x: x * tanh(softplus(x)),
    "elu": elu,
    "selu": selu,
    "celu": celu,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": lambda x: x * hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    "leaky_relu": lambda x, *, alpha=0.01: select(x < 0, x * alpha, x),
    "thresholded_relu": lambda x, *, alpha=1.0: select(x > alpha, x, 0),
}


def _register(name: str, function: Callable[..., Expr]) -> None:
    @operator(name)
    def definition(x: Tensor, **parameters: object) -> Tensor:
        return elementwise(name, lambda v: function(v, **parameters), x, wide=True)


for _name, _function in _FLOAT.items():
    _register(_name, _function)


@operator("relu")
def relu(x: Tensor) -> Tensor:
    """max(x, 0), of integers too; NaN stays."""
    return elementwise("relu", lambda v: maximum(v, 0), x)


@operator("prelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return elementwise("prelu", lambda v, s: select(v < 0, s * v, v), x, slope)


@operator("shrink")
def shrink_definition(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Soft threshold; integers are compared as float64, so that fractional bounds hold."""

    def body(value: Expr) -> Expr:
        real = value.astype("float64") if value.dtype.is_integer else value
        return shrink(real, bias=bias, lambd=lambd).astype(x.dtype)

    return elementwise("shrink", body, x, wide=True)


# ---- Mathematical functions, elementwise.


FUNCTIONS = (
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf",
)  # fmt: skip


def _register_function(name: str) -> None:
    @operator(name)
    def definition(x: Tensor) -> Tensor:
        def body(value: Expr) -> Expr:
            return apply(name, value)

        return elementwise(name, body, x)


for _name in FUNCTIONS:
    _register_function(_name)
