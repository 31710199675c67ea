"""Mathematical functions as arithmetic: range reduction and polynomials, without a library; tables
only in registers, if the processor permutes them (``math_exponential``).

Written once for scalars and vectors (``math_values``). Types below float32 are computed in float32.
``BOUNDS`` states the largest error of each function in ulps of its result, over all inputs, as
tested against higher precision; subnormal results count ulps of the least subnormal. Special values
follow C's Annex F. A few functions of float32 are those of float64, rounded.

References: Cody and Waite, Software Manual for the Elementary Functions (1980); Tang, ACM TOMS 15
and 16 (1989-90); Payne and Hanek, SIGNUM 18 (1983); Muller, Elementary Functions (2016).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen import math_exponential as e
from weft.codegen import math_logarithm as lg
from weft.codegen import math_trigonometry as t
from weft.codegen.math_logarithm import pow
from weft.codegen.math_values import BIAS, MANTISSA, Number

# ---- The floating-point remainder, exact for all operands, by subtracting exact multiples.
#
# Each round removes from r the largest multiple of s = b * 2**k, with k such that the quotient is
# a whole number that the type holds; a fused multiply-add makes the difference exact. One round
# does unless the quotient of the operands is huge; the loop ends when no lane needs another.


def rem(a: Number, b: Number) -> Number:
    """C's ``fmod``: the sign of ``a``; NaN where ``a`` is infinite or ``b`` is 0."""
    w, size = a.b, abs(b)
    rest = w.cell(w.splat(abs(a).value, _lanes(a, b)))
    loop, step, done = w.new_label("rem"), w.new_label("rem_step"), w.new_label("rem_done")
    w.jump(loop)
    w.at(loop)
    r = Number(w, w.load(rest, a.type, _lanes(a, b)))
    active = (r >= size) & (r < float("inf")) & (size > 0.0)
    w.branch(w.any_lane(active.value), step, done)
    w.at(step)
    k = _exponent(r) - _exponent(size) - (MANTISSA[a.type] - 2)
    k = (k > 0).where(k, 0)
    divisor = size.scaled(k >> 1).scaled(k - (k >> 1))
    quotient = (r / divisor).truncated()
    smaller = (-quotient).fma(divisor, r)
    smaller = (smaller < 0.0).where(smaller + divisor, smaller)  # the quotient was rounded up
    w.store(active.where(smaller, r).value, rest)
    w.jump(loop)
    w.at(done)
    valid = (abs(a) < float("inf")) & (size > 0.0)
    return valid.where(r.copysign(a), r.literal(float("nan")))


def mod(a: Number, b: Number) -> Number:
    """The remainder with the sign of ``b``."""
    r = rem(a, b)
    wrong = r.differs(0.0) & ((r < 0.0) ^ (b < 0.0))
    r = wrong.where(r + b, r)
    return r.equals(0.0).where((0.0 * r).copysign(b), r)


def _lanes(a: Number, b: Number) -> int:
    return max(a.value.lanes, b.value.lanes)


def _exponent(x: Number) -> Number:
    """The biased exponent of a positive number, extended below 1 for subnormals."""
    mantissa = MANTISSA[x.type]
    lift = mantissa + 2
    subnormal = x < 2.0 ** (1 - BIAS[x.type])
    field = subnormal.where(x * 2.0**lift, x).bits() >> mantissa
    return subnormal.where(field - lift, field)


# name -> (float32, float64), ulps
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1), "exp2": (1.0, 1.0), "expm1": (1.7, 1.7), "log": (1.2, 1.2),
    "log2": (1.0, 1.0), "log1p": (1.5, 1.5), "sin": (1.0, 1.0), "cos": (1.0, 1.0),
    "tan": (0.51, 2.5), "asin": (0.51, 1.0), "acos": (0.51, 1.0), "atan": (0.51, 1.5),
    "atan2": (0.51, 1.5), "sinh": (0.51, 2.5), "cosh": (0.51, 2.5), "tanh": (2.0, 3.0),
    "asinh": (0.51, 2.5), "acosh": (0.51, 2.5), "atanh": (0.51, 2.0), "erf": (6.0, 2.0),
    "pow": (0.51, 1.0), "rem": (0.0, 0.0), "mod": (0.5, 0.5),
}  # fmt: skip


def _by_double(function: Callable[..., Number]) -> Callable[..., Number]:
    """``function`` computed in float64 and rounded to the type of its operands."""

    def rounded(*args: Number) -> Number:
        return function(*(x.convert("double") for x in args)).convert(args[0].type)

    return rounded


_IN_PLACE: dict[str, Callable[..., Number]] = {
    "exp": e.exp, "exp2": e.exp2, "expm1": e.expm1, "log": lg.log, "log2": lg.log2,
    "log1p": lg.log1p, "sin": t.sin, "cos": t.cos, "tanh": e.tanh, "erf": e.erf, "rem": rem,
    "mod": mod,
}  # fmt: skip
_IN_DOUBLE: dict[str, Callable[..., Number]] = {
    "tan": t.tan, "asin": t.asin, "acos": t.acos, "atan": t.atan, "atan2": t.atan2,
    "sinh": e.sinh, "cosh": e.cosh, "asinh": lg.asinh, "acosh": lg.acosh, "atanh": lg.atanh,
    "pow": pow,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Number]] = _IN_PLACE | {
    name: _by_double(function) for name, function in _IN_DOUBLE.items()
}
