"""Mathematical functions as arithmetic: range reduction and polynomial, no tables, no library.

Written once for scalars and vectors (``math_values``). Types below float32 are computed in float32.
``BOUNDS`` states the largest error of each function in ulps of its result, over all inputs, as
tested against higher precision; subnormal results count ulps of the least subnormal. Special
values are those of C's Annex F. A few functions of float32 are those of float64, rounded.

References: Cody and Waite, Software Manual for the Elementary Functions (1980); Tang, ACM TOMS 15
and 16 (1989-90); Payne and Hanek, SIGNUM 18 (1983); Muller, Elementary Functions (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.codegen import math_coefficients
from weft.codegen.math_reduction import reduce_half_pi
from weft.codegen.math_remainder import mod, rem
from weft.codegen.math_values import (
    BIAS,
    MANTISSA,
    Number,
    quick_two_sum,
    two_product,
    two_sum,
)

# name -> (float32, float64), ulps
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1), "exp2": (1.0, 1.0), "expm1": (1.7, 1.7), "log": (1.2, 1.2),
    "log2": (1.0, 1.0), "log1p": (1.5, 1.5), "sin": (1.0, 1.0), "cos": (1.0, 1.0),
    "tan": (0.51, 2.5), "asin": (0.51, 1.0), "acos": (0.51, 1.0), "atan": (0.51, 1.5),
    "atan2": (0.51, 1.5), "sinh": (0.51, 2.5), "cosh": (0.51, 2.5), "tanh": (2.0, 3.0),
    "asinh": (0.51, 2.5), "acosh": (0.51, 2.5), "atanh": (0.51, 2.0), "erf": (2.5, 2.0),
    "pow": (0.51, 1.0), "rem": (0.0, 0.0), "mod": (0.5, 0.5),
}  # fmt: skip

_INFINITY, _NAN = float("inf"), float("nan")
_LARGEST_EXPONENT = {"float": 89.0, "double": 710.0}  # of e; beyond it exp overflows
_LEAST_EXPONENT = {"float": -104.0, "double": -746.0}  # below it exp is 0


def _table(x: Number, name: str) -> tuple[float, ...]:
    tables = math_coefficients.FLOAT if x.type == "float" else math_coefficients.DOUBLE
    return tables[name]


def _clamped(x: Number, low: float, high: float) -> Number:
    """``x`` within the bounds; NaN stays."""
    x = (x < low).where(low, x)
    return (x > high).where(high, x)


# ---- exponentials -------------------------------------------------------------------------------


def exp(x: Number) -> Number:
    """e**x = 2**k * e**r, |r| <= ln(2) / 2."""
    x = _clamped(x, _LEAST_EXPONENT[x.type], _LARGEST_EXPONENT[x.type])
    r, low, k = _reduce_ln2(x)
    r = r + low
    return ((r * r).fma(r.polynomial(_table(x, "EXP")), r) + 1.0).scaled(k)


def _reduce_ln2(x: Number) -> tuple[Number, Number, Number]:
    """x - k ln 2 as head and tail, and k."""
    ln2 = _table(x, "LN2")
    whole, k = (x * _table(x, "LOG2_E")[0]).whole()
    head = (-whole).fma(ln2[0], x)
    product, error = two_product(whole, ln2[1])
    total, lost = quick_two_sum(head, -product)
    return total, lost - error, k


def exp2(x: Number) -> Number:
    bits, least = BIAS[x.type] + 1.0, -BIAS[x.type] - MANTISSA[x.type] - 2.0
    x = _clamped(x, least, bits)
    whole, k = x.whole()
    r = x - whole
    head, tail = _table(x, "LN2")[0], _table(x, "LN2")[1]
    rest = (r * r).fma(r.polynomial(_table(x, "EXP2")), r * tail)
    return (r.fma(head, rest) + 1.0).scaled(k)


def expm1(x: Number) -> Number:
    """2**k (expm1(r) + 1 - 2**-k), or 2**k expm1(r) + (2**k - 1) where k < 1."""
    top = _LARGEST_EXPONENT[x.type]
    clamped = _clamped(x, -60.0, top)
    r, low, k = _reduce_ln2(clamped)
    # expm1(r + low) = expm1(r) + low * e**r; low is below half an ulp of r
    p = r + (r * r).fma(r.polynomial(_table(x, "EXP")), low)
    one = r.literal(1.0)
    up = (p + (one - one.scaled(-k))).scaled(k)
    power = one.scaled(k)
    down = power.fma(p, power - 1.0)
    result = (k > 0).where(up, down)
    return x.equals(0.0).where(x, (abs(x) < 2.0**-MANTISSA[x.type]).where(x, result))


def sinh(x: Number) -> Number:
    a = abs(x)
    e = expm1(a)
    small = 0.5 * (e + e / (e + 1.0))
    half = exp(0.5 * a)
    large = 0.5 * half * half
    result = (a < 22.0).where(small, (a < 700.0).where(0.5 * exp(a), large))
    return result.copysign(x)


def cosh(x: Number) -> Number:
    a = abs(x)
    e = exp(a)
    half = exp(0.5 * a)
    return (a < 700.0).where(0.5 * e + 0.5 / e, 0.5 * half * half)


def tanh(x: Number) -> Number:
    if x.type == "float":
        return _tanh_single(x)
    a = abs(x)
    e = expm1(-2.0 * a)
    return (-e / (e + 2.0)).copysign(x)


def _tanh_single(x: Number) -> Number:
    a = abs(x)
    z = x * x
    small = (a * z).fma(z.polynomial(_table(x, "TANH")), a)
    e = exp(2.0 * a)
    large = 1.0 - 2.0 / (e + 1.0)
    return (a < 0.625).where(small, large).copysign(x)


# ---- logarithms ---------------------------------------------------------------------------------


def _normalised(x: Number) -> tuple[Number, Number]:
    """x = 2**k * m with m in [sqrt(1/2), sqrt(2)); any bits unless x is positive and finite."""
    mantissa, tiny = MANTISSA[x.type], 2.0 ** (1 - BIAS[x.type])
    lift = 2.0 ** (mantissa + 2)
    subnormal = x < tiny
    bits = subnormal.where(x * lift, x).bits()
    base = x.literal(math.sqrt(0.5)).bits()
    offset = bits - base
    k = offset >> mantissa
    m = (bits - (k << mantissa)).from_bits()
    exponent = k.to_float(x.type)
    return m, subnormal.where(exponent - float(mantissa + 2), exponent)


def _log_special(x: Number, result: Number) -> Number:
    """Put in the results at 0, below 0, at infinity and NaN."""
    result = (x > 0.0).where(result, x.equals(0.0).where(-_INFINITY, x.literal(_NAN)))
    return (x < _INFINITY).where(result, x + abs(x))


def _log_tail(f: Number, s: Number, half_square: Number) -> Number:
    """log(1 + f) - (f - f**2 / 2), where s = f / (2 + f)."""
    z = s * s
    return s * z.fma(z.polynomial(_table(f, "LOG")), half_square)


def log(x: Number) -> Number:
    m, k = _normalised(x)
    ln2 = _table(x, "LN2")
    f = m - 1.0
    s = f / (f + 2.0)
    half_square = 0.5 * f * f
    tail = k.fma(ln2[1], _log_tail(f, s, half_square))
    return _log_special(x, _sum_of_log(k, f, half_square, tail, ln2[0]))


def _sum_of_log(
    k: Number, f: Number, half_square: Number, tail: Number, unit: float
) -> Number:
    """k * unit + f - half_square + tail, in an order that loses little."""
    head, lost = quick_two_sum(k * unit, f)
    swapped, swapped_lost = quick_two_sum(f, k * unit)
    is_zero = k.equals(0.0)
    head, lost = is_zero.where(swapped, head), is_zero.where(swapped_lost, lost)
    return head + (lost + (tail - half_square))


def log2(x: Number) -> Number:
    m, k = _normalised(x)
    head, low = _log_head_tail(m)
    unit = _table(x, "LOG2_E")
    product, error = two_product(head, unit[0])
    rest = low.fma(unit[0], head.fma(unit[1], error))
    total, lost = two_sum(k, product)
    return _log_special(x, total + (lost + rest))


def _log_head_tail(m: Number) -> tuple[Number, Number]:
    """log(m) as head and tail, for m in [sqrt(1/2), sqrt(2))."""
    f = m - 1.0
    s = f / (f + 2.0)
    square, error = two_product(f, f)
    half_square = 0.5 * square
    head, lost = quick_two_sum(f, -half_square)
    tail = _log_tail(f, s, half_square)
    return head, tail + (lost - 0.5 * error)


def log1p(x: Number) -> Number:
    """log(u) where u + c = 1 + x exactly."""
    u, c = two_sum(x.literal(1.0), x)
    m, k = _normalised(u)
    ln2 = _table(x, "LN2")
    f = m - 1.0
    s = f / (f + 2.0)
    half_square = 0.5 * f * f
    correction = (u < 2.0 ** MANTISSA[x.type]).where(c / u, x.literal(0.0))
    tail = k.fma(ln2[1], _log_tail(f, s, half_square) + correction)
    result = _sum_of_log(k, f, half_square, tail, ln2[0])
    result = (abs(x) < 2.0 ** (-MANTISSA[x.type] - 1)).where(x, result)
    return (x < _INFINITY).where(_log_special(u, result), _log_special(x, x))


def asinh(x: Number) -> Number:
    a = abs(x)
    large = log(a) + _table(x, "LN2")[0]
    square = a * a
    middle = log1p(a + square / (1.0 + (square + 1.0).sqrt()))
    result = (a > 2.0**28).where(large, middle)
    return result.copysign(x)


def acosh(x: Number) -> Number:
    t = x - 1.0
    large = log(x) + _table(x, "LN2")[0]
    middle = log1p(t + (t.fma(t, 2.0 * t)).sqrt())
    result = (x > 2.0**28).where(large, middle)
    return (x < 1.0).where(x.literal(_NAN), result)


def atanh(x: Number) -> Number:
    a = abs(x)
    return (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)


# ---- trigonometry -------------------------------------------------------------------------------


def _sin_kernel(r: Number, low: Number) -> Number:
    """sin(r + low) for |r| <= pi / 4."""
    z = r * r
    cube = z * r
    rest = cube.fma(z.polynomial(_table(r, "SIN")), low)
    return r + z.fma(-0.5 * low, rest)


def _cos_kernel(r: Number, low: Number) -> Number:
    z = r * r
    half = 0.5 * z
    w = 1.0 - half
    rest = (z * z).fma(z.polynomial(_table(r, "COS")), -(r * low))
    return w + (((1.0 - w) - half) + rest)


def _quadrant(x: Number, shift: int) -> Number:
    """sin(x + shift * pi / 2)."""
    r, low, quarter = reduce_half_pi(x)
    quarter = quarter + shift
    s, c = _sin_kernel(r, low), _cos_kernel(r, low)
    value = (quarter & 1).equals(0).where(s, c)
    return (quarter & 2).equals(0).where(value, -value)


def sin(x: Number) -> Number:
    return (abs(x) < 2.0 ** (-MANTISSA[x.type] // 2)).where(x, _quadrant(x, 0))


def cos(x: Number) -> Number:
    return _quadrant(x, 1)


def tan(x: Number) -> Number:
    r, low, quarter = reduce_half_pi(x)
    s, c = _sin_kernel(r, low), _cos_kernel(r, low)
    even = (quarter & 1).equals(0)
    result = even.where(s, -c) / even.where(c, s)
    return (abs(x) < 2.0 ** (-MANTISSA[x.type] // 2)).where(x, result)


def _atan_unit(t: Number) -> tuple[Number, Number]:
    """atan(t) as head and tail for 0 <= t <= 1: t, or pi / 4 + atan((t - 1) / (t + 1))."""
    high = t > 0.4142135623730951
    bottom = t + 1.0
    quotient = (t - 1.0) / bottom
    # what the division lost, in the units of the quotient
    error = ((-quotient).fma(bottom, t - 1.0) - quotient * (t - (bottom - 1.0))) / bottom
    u = high.where(quotient, t)
    z = u * u
    rest = (z * u) * z.polynomial(_table(t, "ATAN"))
    half_pi = _table(t, "HALF_PI")
    base, base_low = high.where(t.literal(half_pi[0] / 2), 0.0), high.where(
        t.literal(half_pi[1] / 2), 0.0
    )
    head, lost = quick_two_sum(base, u)
    head, lost = high.where(head, u), high.where(lost, 0.0)
    return head, lost + (rest + (base_low + high.where(error, 0.0)))


def atan(x: Number) -> Number:
    a = abs(x)
    inverted = a > 1.0
    t = inverted.where(1.0 / a, a)
    error = (a < _INFINITY).where((-t).fma(a, 1.0) / a, 0.0)
    head, low = _atan_unit(t)
    low = inverted.where(low + error / t.fma(t, 1.0), low)
    return _turned(head, low, inverted).copysign(x)


def _turned(head: Number, low: Number, inverted: Number) -> Number:
    """pi / 2 - (head + low) where ``inverted``, else head + low."""
    half_pi = _table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total + (lost + (half_pi[1] - low)), head + low)


def atan2(y: Number, x: Number) -> Number:
    a, b = abs(y), abs(x)
    inverted = a > b
    small, big = inverted.where(b, a), inverted.where(a, b)
    quotient = small / big
    both_infinite = small.equals(_INFINITY)
    t = both_infinite.where(1.0, big.equals(0.0).where(0.0, quotient))
    # t stands for small / big: what the division lost matters once it is turned
    usable = (big < 2.0**1000) & (big > 2.0**-900) & (t > 2.0**-100)
    error = usable.where((-t).fma(big, small) / big, 0.0)
    head, low = _atan_unit(t)
    low = low + error / t.fma(t, 1.0)
    quarter, quarter_low = _turned_pair(head, low, inverted)
    pi = [2.0 * part for part in _table(x, "HALF_PI")[:2]]
    back, lost = quick_two_sum(x.literal(pi[0]), -quarter)
    negative = x.bits() < 0
    result = negative.where(back + (lost + (pi[1] - quarter_low)), quarter + quarter_low)
    result = result.copysign(y)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


def _turned_pair(head: Number, low: Number, inverted: Number) -> tuple[Number, Number]:
    half_pi = _table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total, head), inverted.where(lost + (half_pi[1] - low), low)


def _asin_series(x: Number, z: Number) -> Number:
    """asin(x) - x where z = x**2 <= 1/4."""
    return (x * z) * z.polynomial(_table(x, "ASIN"))


def _asin_root(a: Number) -> tuple[Number, Number]:
    """asin(sqrt((1 - a) / 2)) as head and tail, for 1/2 <= a <= 1."""
    z = 0.5 * (1.0 - a)
    root = z.sqrt()
    error = root.equals(0.0).where(0.0, (-root).fma(root, z) / (2.0 * root))
    return root, error + _asin_series(root, z)


def asin(x: Number) -> Number:
    a = abs(x)
    near = a + _asin_series(a, a * a)
    root, low = _asin_root(a)
    half_pi = _table(x, "HALF_PI")
    total, lost = quick_two_sum(x.literal(half_pi[0]), -2.0 * root)
    far = total + (lost + (half_pi[1] - 2.0 * low))
    return (a <= 0.5).where(near, far).copysign(x)


def acos(x: Number) -> Number:
    a = abs(x)
    half_pi = _table(x, "HALF_PI")
    total, lost = quick_two_sum(x.literal(half_pi[0]), -x)
    near = total + (lost + (half_pi[1] - _asin_series(x, x * x)))
    root, low = _asin_root(a)
    top, top_lost = quick_two_sum(x.literal(2.0 * half_pi[0]), -2.0 * root)
    left = top + (top_lost + (2.0 * half_pi[1] - 2.0 * low))
    right = 2.0 * (root + low)
    return (a <= 0.5).where(near, (x < 0.0).where(left, right))


# ---- error function and power -------------------------------------------------------------------


def erf(x: Number) -> Number:
    a = abs(x)
    z = x * x
    near = a * z.polynomial(_table(x, "ERF"))
    b = (a > 6.0).where(6.0, a)
    square, error = two_product(b, b)
    gauss = exp(-square) * (1.0 - error)
    far = 1.0 - gauss * ((b - 2.0) / (b + 2.0)).polynomial(_table(x, "ERFC"))
    result = (a < 1.0).where(near, far).copysign(x)
    return x.is_nan().where(x, result)


def pow(x: Number, y: Number) -> Number:
    """2**(y log2 |x|) with the logarithm in twice the precision; the sign by the parity of y."""
    a = abs(x)
    head, low = _log_pair(a)
    product, error = two_product(y, head)
    limit = 1.0e5
    bounded = _clamped(product, -limit, limit)
    error = bounded.equals(product).where(y.fma(low, error), 0.0)
    bounded = product.is_nan().where(0.0, bounded)
    value = _exp_pair(bounded, error.is_nan().where(0.0, error))
    return _pow_special(x, y, a, value)


def _log_pair(a: Number) -> tuple[Number, Number]:
    """log(a) as head and tail, to about 2**-66 of it."""
    m, k = _normalised(a)
    f = m - 1.0
    bottom, bottom_low = quick_two_sum(f.literal(2.0), f)
    s = f / bottom
    s_low = ((-s).fma(bottom, f) - s * bottom_low) / bottom
    z, z_error = two_product(s, s)
    z_low = z_error + 2.0 * s * s_low
    # 2/3 + z * tail, as a pair, times z, then 1 + that over two
    tail = z * z.polynomial(_table(a, "LOG_TAIL"))
    third = 2.0 / 3.0
    third_low = 3.700743415417188e-17  # 2/3 - its double
    inner, inner_low = quick_two_sum(a.literal(third), tail)
    inner_low = inner_low + third_low
    outer, outer_error = two_product(inner, z)
    outer_low = outer_error + (inner_low * z + inner * z_low)
    cubic, cubic_error = two_product(s, outer)
    cubic_low = cubic_error + (s * outer_low + s_low * outer)
    head, lost = quick_two_sum(2.0 * s, cubic)
    low = lost + (2.0 * s_low + cubic_low)
    ln2 = _table(a, "LN2")
    unit, unit_error = two_product(k, ln2[0])
    total, total_lost = quick_two_sum(unit, head)
    plain = k.equals(0.0)
    total, total_lost = plain.where(head, total), plain.where(0.0, total_lost)
    rest = total_lost + (low + k.fma(ln2[1], unit_error))
    return quick_two_sum(total, rest)


def _exp_pair(head: Number, low: Number) -> Number:
    """e**(head + low), the sum within +-1e5."""
    head = _clamped(head, _LEAST_EXPONENT[head.type], _LARGEST_EXPONENT[head.type])
    r, rest, k = _reduce_ln2(head)
    r, rest = quick_two_sum(r, rest + low)
    tail = (r * r).fma(r.polynomial(_table(head, "EXP")), rest.fma(r, rest))
    return (1.0 + (r + tail)).scaled(k)


def _pow_special(x: Number, y: Number, a: Number, value: Number) -> Number:
    whole = y.truncated().equals(y)
    odd = whole & (0.5 * y).truncated().differs(0.5 * y) & (abs(y) < _INFINITY)
    zero_base, big_base = a.equals(0.0), a.equals(_INFINITY)
    rises = (y > 0.0) ^ zero_base
    at_end = rises.where(x.literal(_INFINITY), 0.0)
    value = (zero_base | big_base).where(at_end, value)
    grows = (a > 1.0) ^ (y < 0.0)
    endless = a.equals(1.0).where(1.0, grows.where(x.literal(_INFINITY), 0.0))
    value = abs(y).equals(_INFINITY).where(endless, value)
    negative = x.bits() < 0
    value = (negative & odd).where(-value, value)
    finite = (a < _INFINITY) & (a > 0.0) & (abs(y) < _INFINITY)
    value = (negative & ~whole & finite).where(x.literal(_NAN), value)
    value = (x.is_nan() | y.is_nan()).where(x + y, value)
    return (x.equals(1.0) | y.equals(0.0)).where(1.0, value)


# ---- the table ----------------------------------------------------------------------------------


def _by_double(function: Callable[..., Number]) -> Callable[..., Number]:
    """``function`` computed in float64 and rounded to the type of its operands."""

    def rounded(*args: Number) -> Number:
        return function(*(x.convert("double") for x in args)).convert(args[0].type)

    return rounded


_IN_DOUBLE = {
    "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2, "sinh": sinh,
    "cosh": cosh, "asinh": asinh, "acosh": acosh, "atanh": atanh, "pow": pow,
}  # fmt: skip
_IN_PLACE = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "log": log, "log2": log2, "log1p": log1p,
    "sin": sin, "cos": cos, "tanh": tanh, "erf": erf, "rem": rem, "mod": mod,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Number]] = _IN_PLACE | {
    name: _by_double(function) for name, function in _IN_DOUBLE.items()
}
