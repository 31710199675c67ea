"""Handlers of special functions, computed in float64 for results of at most 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.frontend.torch.context import NodeContext, Operand, Results, handler
from weft.frontend.torch.pointwise import pointwise
from weft.ir import dtypes
from weft.ir.build import maximum, minimum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, binary, literal, select


def number(value: float) -> Expr:
    return literal(value, dtypes.float64)


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """The polynomial with these ``coefficients``, the constant first, by Horner's rule."""
    result = number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


# Relative error below 1.2e-7 everywhere: Press et al., Numerical Recipes, 1992, 6.2.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
         1.48851587, -0.82215223, 0.17087277)  # fmt: skip


def erfc(x: Expr) -> Expr:
    """1 - erf(x): t · exp(-x² + p(t)) with t = 1 / (1 + |x| / 2) of a positive x."""
    tail = _scaled_tail(x, number(0) - x * x)
    return select(x < 0, number(2) - tail, tail)


def erfcx(x: Expr) -> Expr:
    """exp(x²) erfc(x)."""
    tail = _scaled_tail(x, number(0))
    return select(x < 0, apply("exp", x * x) * 2 - tail, tail)


def _scaled_tail(x: Expr, exponent: Expr) -> Expr:
    """exp(x² + exponent) erfc(|x|)."""
    t = number(1) / (abs(x) * 0.5 + 1)
    return t * apply("exp", polynomial(t, _ERFC) + exponent)


# g = 7, nine terms: P. Godfrey, 2001.
_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)  # fmt: skip


def lgamma(x: Expr) -> Expr:
    """log |Γ(x)| by Lanczos' approximation; below 1/2 by Γ(x) Γ(1 - x) = π / sin πx."""
    reflected = x < 0.5
    z = select(reflected, number(0) - x, x - 1)
    total = number(0.99999999999980993)
    for k, c in enumerate(_LANCZOS):
        total = total + number(c) / (z + (k + 1))
    t = z + 7.5
    right = apply("log", t) * (z + 0.5) - t + apply("log", total) + math.log(2 * math.pi) / 2
    sine = abs(apply("sin", (x - apply("floor", x)) * math.pi))
    left = number(math.log(math.pi)) - apply("log", sine) - right
    whole = (x <= 0) & x.equal(apply("floor", x))
    infinite = whole | apply("isinf", x)
    return select(infinite, number(math.inf), select(reflected, left, right))


_STEPS = 8  # of ψ(x) = ψ(x + 1) - 1/x, after which the asymptotic series holds


def digamma(x: Expr) -> Expr:
    """ψ(x), the derivative of log Γ: recurrence, then log x - 1/2x - Σ B₂ₖ / 2k x²ᵏ; below 0 by
    ψ(1 - x) - ψ(x) = π / tan πx."""
    reflected = x < 0
    y = select(reflected, number(1) - x, x)
    result = number(0)
    for _ in range(_STEPS):
        result = result - number(1) / y
        y = y + 1
    square = number(1) / (y * y)
    series = (0, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
    result = result + apply("log", y) - number(0.5) / y - polynomial(square, series)
    tangent = apply("tan", (x - apply("floor", x)) * math.pi)
    left = result - number(math.pi) / tangent
    whole = reflected & x.equal(apply("floor", x))
    found = select(whole, number(math.nan), select(reflected, left, result))
    pole = binary("copysign", number(math.inf), -x)
    return select(x.equal(0), pole, select(x.equal(math.inf), x, found))


# Giles, Approximating the erfinv function, 2011: a first value, then Newton's steps.
_NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-6,
         -3.5233877e-6, 3.43273939e-7, 2.81022636e-8)  # fmt: skip
_FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
        0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def erfinv(y: Expr) -> Expr:
    """x with erf(x) = y."""
    w = number(0) - apply("log", (number(1) - y) * (y + 1))
    near, far = polynomial(w - 2.5, _NEAR), polynomial(apply("sqrt", w) - 3, _FAR)
    x = select(w < 5, near, far) * y
    for _ in range(2):
        slope = apply("exp", number(0) - x * x) * (2 / math.sqrt(math.pi))
        x = x - (apply("erf", x) - y) / slope
    edge = binary("copysign", number(math.inf), y)
    return select(abs(y).equal(1), edge, select(abs(y) > 1, number(math.nan), x))


def ndtri(p: Expr) -> Expr:
    """x with (1 + erf(x / √2)) / 2 = p. Tails by Newton's steps on log erfc(z) = log 2p, which is
    concave: from √(-log 2p), which is too large, they fall to z."""
    side = minimum(p, number(1) - p)
    wanted = apply("log", side * 2)
    z = apply("sqrt", number(0) - wanted)
    for _ in range(5):
        scaled = erfcx(z)
        z = z + (apply("log", scaled) - z * z - wanted) * scaled * (math.sqrt(math.pi) / 2)
    tail = select(p < 0.5, number(0) - z, z)
    tail = select(side.equal(0), select(p < 0.5, number(-math.inf), number(math.inf)), tail)
    found = select(side > 0.05, erfinv(p * 2 - 1), tail) * math.sqrt(2)
    return select((p < 0) | (p > 1), number(math.nan), found)


# ---- Chebyshev's polynomials --------------------------------------------------------------------

# With x = cos θ: cos nθ, sin (n+1)θ / sin θ, cos (n+½)θ / cos ½θ, sin (n+½)θ / sin ½θ. For each
# kind: what is added to n; whether it is a sine; the factor of θ below, 0 where nothing is.
_KINDS = {"t": (0, False, 0), "u": (1, True, 1), "v": (0.5, False, 0.5), "w": (0.5, True, 0.5)}
_MIRRORED = {"t": "t", "u": "u", "v": "w", "w": "v"}  # p(-x) = (-1)ⁿ times which polynomial of x


def chebyshev(kind: str, x: Expr, degree: Expr) -> Expr:
    """The polynomial of ``x`` of this ``kind``, with hyperbolic functions where |x| > 1."""
    n, size = apply("trunc", degree), abs(x)
    odd = (n * 0.5).not_equal(apply("floor", n * 0.5))
    mirrored = _of_positive(_MIRRORED[kind], size, n)
    mirrored = select(odd, number(0) - mirrored, mirrored)
    found = select(x < 0, mirrored, _of_positive(kind, size, n))
    return select(n < 0, number(0), select(n.equal(0), number(1), found))


def _of_positive(kind: str, x: Expr, n: Expr) -> Expr:
    more, sine, below = _KINDS[kind]
    inside, outside = (("cos", "cosh"), ("sin", "sinh"))[sine]
    angle = select(x > 1, apply("acosh", maximum(x, 1)), apply("acos", minimum(x, 1)))

    def wave(factor: Expr) -> Expr:
        return select(x > 1, apply(outside, angle * factor), apply(inside, angle * factor))

    top = n + more
    if not below:
        return wave(top)
    limit = top / below if sine else number(1)
    return select(angle.equal(0), limit, wave(top) / wave(number(below)))


def _chebyshev(kind: str) -> None:
    @handler(f"aten.special_chebyshev_polynomial_{kind}")
    def import_(node: NodeContext, x: Operand, n: Operand) -> Results:
        return _in_float64(node, lambda x, n: chebyshev(kind, x, n), x, n)

    @handler(f"aten.special_shifted_chebyshev_polynomial_{kind}")
    def import_shifted(node: NodeContext, x: Operand, n: Operand) -> Results:
        return _in_float64(node, lambda x, n: chebyshev(kind, x * 2 - 1, n), x, n)


for _kind in _KINDS:
    _chebyshev(_kind)


# ---- sums of powers -----------------------------------------------------------------------------

_DIRECT = 10  # terms before those that Euler and Maclaurin's formula is for
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


def _power_sum(s: Expr, q: Expr) -> Expr:
    """Σ_k (q + k)^-s of a positive q, by Euler and Maclaurin's formula."""
    result = number(0)
    for k in range(_DIRECT):
        result = result + apply("pow", q + k, number(0) - s)
    a = q + _DIRECT
    last = apply("pow", a, number(0) - s)
    result = result + last * a / (s - 1) + last * 0.5
    term = last * s / a  # s (s + 1) … (s + 2j - 2) / a^(s + 2j - 1)
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        result = result + term * (bernoulli / math.factorial(2 * j))
        term = term * (s + (2 * j - 1)) * (s + 2 * j) / (a * a)
    return result


def zeta(s: Expr, q: Expr) -> Expr:
    """Hurwitz's: Σ_k (q + k)^-s. For a negative q and a whole s, the terms below 0 are powers of
    positive numbers but for their sign."""
    f = apply("floor", q)
    below = q - f  # the first term above 0, and 1 - below the last below it
    negative = _power_sum(s, number(1) - below) - _power_sum(s, number(1) - q)
    even = (s * 0.5).equal(apply("floor", s * 0.5))
    reflected = _power_sum(s, below) + select(even, negative, number(0) - negative)
    found = select(q > 0, _power_sum(s, q), reflected)
    pole = select(q.equal(f), number(math.inf), number(math.nan))
    whole = s.equal(apply("floor", s))
    found = select((q > 0) | (whole & q.not_equal(f)), found, pole)
    return select(s > 1, found, select(s.equal(1), number(math.inf), number(math.nan)))


@handler("aten.special_zeta", "prims.zeta")
def import_zeta(node: NodeContext, s: Operand, q: Operand) -> Results:
    return _in_float64(node, zeta, s, q)


@handler("aten.polygamma.default")
def polygamma(node: NodeContext, n: int, x: Value) -> Results:
    """(-1)^(n + 1) n! ζ(n + 1, x), the n-th derivative of ψ."""
    if n == 0:
        return _in_float64(node, digamma, x)
    factor = (-1) ** (n + 1) * math.factorial(n)
    return _in_float64(node, lambda q: zeta(number(n + 1), q) * factor, x)


def _in_float64(node: NodeContext, function: Callable[..., Expr], *operands: Operand) -> Value:
    """``function`` of ``operands``, which are rounded to the dtype of the result before."""
    if node.dtype == dtypes.float64:
        raise node.unsupported("in float64")
    given = [node.cast(x, node.dtype) if isinstance(x, Value) else x for x in operands]
    return pointwise(node, function, *given, dtype=dtypes.float64)


def special(function: Callable[[Expr], Expr], *targets: str) -> None:
    """Register ``function`` of float64 as the handler of ``targets``."""

    @handler(*targets)
    def import_(node: NodeContext, x: Value) -> Results:
        return _in_float64(node, function, x)


special(erfc, "aten.erfc", "prims.erfc")
special(erfcx, "aten.special_erfcx", "prims.erfcx")
special(lgamma, "aten.lgamma", "prims.lgamma")
special(digamma, "aten.digamma", "prims.digamma")
special(erfinv, "aten.erfinv", "prims.erf_inv")
special(ndtri, "aten.special_ndtri", "prims.ndtri")
