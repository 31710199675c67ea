"""Handlers of special functions, computed in float64 for results of at most 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.pointwise import pointwise
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, binary, literal, select


def _number(value: float) -> Expr:
    return literal(value, dtypes.float64)


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """The polynomial with these ``coefficients``, the constant first, by Horner's rule."""
    result = _number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


# Relative error below 1.2e-7 everywhere: Press et al., Numerical Recipes, 1992, 6.2.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
         1.48851587, -0.82215223, 0.17087277)  # fmt: skip


def erfc(x: Expr) -> Expr:
    """1 - erf(x): t · exp(-x² + p(t)) with t = 1 / (1 + |x| / 2) of a positive x."""
    size = abs(x)
    t = _number(1) / (size * 0.5 + 1)
    tail = t * apply("exp", polynomial(t, _ERFC) - size * size)
    return select(x < 0, _number(2) - tail, tail)


# g = 7, nine terms: P. Godfrey, 2001.
_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)  # fmt: skip


def lgamma(x: Expr) -> Expr:
    """log |Γ(x)| by Lanczos' approximation; below 1/2 by Γ(x) Γ(1 - x) = π / sin πx."""
    reflected = x < 0.5
    z = select(reflected, _number(0) - x, x - 1)
    total = _number(0.99999999999980993)
    for k, c in enumerate(_LANCZOS):
        total = total + _number(c) / (z + (k + 1))
    t = z + 7.5
    right = apply("log", t) * (z + 0.5) - t + apply("log", total) + math.log(2 * math.pi) / 2
    sine = abs(apply("sin", (x - apply("floor", x)) * math.pi))
    left = _number(math.log(math.pi)) - apply("log", sine) - right
    whole = (x <= 0) & x.equal(apply("floor", x))
    infinite = whole | apply("isinf", x)
    return select(infinite, _number(math.inf), select(reflected, left, right))


_STEPS = 8  # of ψ(x) = ψ(x + 1) - 1/x, after which the asymptotic series holds


def digamma(x: Expr) -> Expr:
    """ψ(x), the derivative of log Γ: recurrence, then log x - 1/2x - Σ B₂ₖ / 2k x²ᵏ; below 0 by
    ψ(1 - x) - ψ(x) = π / tan πx."""
    reflected = x < 0
    y = select(reflected, _number(1) - x, x)
    result = _number(0)
    for _ in range(_STEPS):
        result = result - _number(1) / y
        y = y + 1
    square = _number(1) / (y * y)
    series = (0, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
    result = result + apply("log", y) - _number(0.5) / y - polynomial(square, series)
    tangent = apply("tan", (x - apply("floor", x)) * math.pi)
    left = result - _number(math.pi) / tangent
    whole = reflected & x.equal(apply("floor", x))
    found = select(whole, _number(math.nan), select(reflected, left, result))
    pole = binary("copysign", _number(math.inf), -x)
    return select(x.equal(0), pole, select(x.equal(math.inf), x, found))


# Giles, Approximating the erfinv function, 2011: a first value, then Newton's steps.
_NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-6,
         -3.5233877e-6, 3.43273939e-7, 2.81022636e-8)  # fmt: skip
_FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
        0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def erfinv(y: Expr) -> Expr:
    """x with erf(x) = y."""
    w = _number(0) - apply("log", (_number(1) - y) * (y + 1))
    near, far = polynomial(w - 2.5, _NEAR), polynomial(apply("sqrt", w) - 3, _FAR)
    x = select(w < 5, near, far) * y
    for _ in range(2):
        slope = apply("exp", _number(0) - x * x) * (2 / math.sqrt(math.pi))
        x = x - (apply("erf", x) - y) / slope
    edge = binary("copysign", _number(math.inf), y)
    return select(abs(y).equal(1), edge, select(abs(y) > 1, _number(math.nan), x))


def _special(function: Callable[[Expr], Expr], *targets: str) -> None:
    @handler(*targets)
    def import_(node: NodeContext, x: Value) -> Results:
        if node.dtype == dtypes.float64:
            raise node.unsupported("in float64")
        return pointwise(node, function, node.cast(x, node.dtype), dtype=dtypes.float64)


_special(erfc, "aten.erfc", "prims.erfc")
_special(lgamma, "aten.lgamma", "prims.lgamma")
_special(digamma, "aten.digamma", "prims.digamma")
_special(erfinv, "aten.erfinv", "prims.erf_inv")
