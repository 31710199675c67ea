"""Logarithms and inverse hyperbolic functions."""

from __future__ import annotations

import math

from weft.codegen.math_exponential import reduce_ln2
from weft.codegen.math_values import (
    BIAS,
    INFINITY,
    MANTISSA,
    NAN,
    Number,
    at_most,
    nothing_below,
    quick_two_sum,
    table,
    two_product,
    two_sum,
)


def log(x: Number) -> Number:
    m, k = normalised(x)
    ln2 = table(x, "LN2")
    f = m - 1.0
    s = f / (f + 2.0)
    half_square = 0.5 * f * f
    tail = k.fma(ln2[1], _log_tail(f, s, half_square))
    return _log_special(x, _sum_of_log(k, f, half_square, tail, ln2[0]))


def log2(x: Number) -> Number:
    m, k = normalised(x)
    head, low = _log_head_tail(m)
    unit = table(x, "LOG2_E")
    product, error = two_product(head, unit[0])
    rest = low.fma(unit[0], head.fma(unit[1], error))
    total, lost = two_sum(k, product)
    return _log_special(x, total + (lost + rest))


def log1p(x: Number) -> Number:
    """log(u) where u + c = 1 + x exactly."""
    u, c = two_sum(x.literal(1.0), x)
    m, k = normalised(u)
    ln2 = table(x, "LN2")
    f = m - 1.0
    s = f / (f + 2.0)
    half_square = 0.5 * f * f
    correction = (u < 2.0 ** MANTISSA[x.type]).where(c / u, x.literal(0.0))
    tail = k.fma(ln2[1], _log_tail(f, s, half_square) + correction)
    result = _sum_of_log(k, f, half_square, tail, ln2[0])
    result = (abs(x) < 2.0 ** (-MANTISSA[x.type] - 1)).where(x, result)
    return (x < INFINITY).where(_log_special(u, result), _log_special(x, x))


def asinh(x: Number) -> Number:
    a = abs(x)
    large = log(a) + table(x, "LN2")[0]
    square = a * a
    middle = log1p(a + square / (1.0 + (square + 1.0).sqrt()))
    result = (a > 2.0**28).where(large, middle)
    return result.copysign(x)


def acosh(x: Number) -> Number:
    t = x - 1.0
    large = log(x) + table(x, "LN2")[0]
    middle = log1p(t + (t.fma(t, 2.0 * t)).sqrt())
    result = (x > 2.0**28).where(large, middle)
    return (x < 1.0).where(x.literal(NAN), result)


def atanh(x: Number) -> Number:
    a = abs(x)
    return (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)


def normalised(x: Number) -> tuple[Number, Number]:
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
    result = (x > 0.0).where(result, x.equals(0.0).where(-INFINITY, x.literal(NAN)))
    return (x < INFINITY).where(result, x + abs(x))


def _log_tail(f: Number, s: Number, half_square: Number) -> Number:
    """log(1 + f) - (f - f**2 / 2), where s = f / (2 + f)."""
    z = s * s
    return s * z.fma(z.polynomial(table(f, "LOG")), half_square)


def _sum_of_log(k: Number, f: Number, half_square: Number, tail: Number, unit: float) -> Number:
    """k * unit + f - half_square + tail, in an order that loses little."""
    head, lost = quick_two_sum(k * unit, f)
    swapped, swapped_lost = quick_two_sum(f, k * unit)
    is_zero = k.equals(0.0)
    head, lost = is_zero.where(swapped, head), is_zero.where(swapped_lost, lost)
    return head + (lost + (tail - half_square))


def _log_head_tail(m: Number) -> tuple[Number, Number]:
    """log(m) as head and tail, for m in [sqrt(1/2), sqrt(2))."""
    f = m - 1.0
    s = f / (f + 2.0)
    square, error = two_product(f, f)
    half_square = 0.5 * square
    head, lost = quick_two_sum(f, -half_square)
    tail = _log_tail(f, s, half_square)
    return head, tail + (lost - 0.5 * error)


# ---- The power function, its logarithm in twice the precision.


_LIMIT = 750.0  # beyond it, either way, e**x is 0 or infinite in float64


def pow(x: Number, y: Number) -> Number:
    """2**(y log2 |x|) with the logarithm in twice the precision; the sign by the parity of y."""
    a = abs(x)
    head, low = _log_pair(a)
    product, error = two_product(y, head)
    error = (abs(product) > _LIMIT).where(0.0, y.fma(low, error))
    error = error.is_nan().where(0.0, error)
    bounded = product.is_nan().where(0.0, at_most(product, _LIMIT))
    value = nothing_below(-_LIMIT, bounded, lambda within: _exp_pair(within, error))
    return _pow_special(x, y, a, value)


def _log_pair(a: Number) -> tuple[Number, Number]:
    """log(a) as head and tail, to about 2**-66 of it."""
    m, k = normalised(a)
    f = m - 1.0
    bottom, bottom_low = quick_two_sum(f.literal(2.0), f)
    s = f / bottom
    s_low = ((-s).fma(bottom, f) - s * bottom_low) / bottom
    z, z_error = two_product(s, s)
    z_low = z_error + 2.0 * s * s_low
    # 2/3 + z * tail, as a pair, times z, then 1 + that over two
    tail = z * z.polynomial(table(a, "LOG_TAIL"))
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
    ln2 = table(a, "LN2")
    unit, unit_error = two_product(k, ln2[0])
    total, total_lost = quick_two_sum(unit, head)
    plain = k.equals(0.0)
    total, total_lost = plain.where(head, total), plain.where(0.0, total_lost)
    rest = total_lost + (low + k.fma(ln2[1], unit_error))
    return quick_two_sum(total, rest)


def _exp_pair(head: Number, low: Number) -> Number:
    """e**(head + low), the sum within the limits."""
    r, rest, k = reduce_ln2(head)
    r, rest = quick_two_sum(r, rest + low)
    tail = (r * r).fma(r.polynomial(table(head, "EXP")), rest.fma(r, rest))
    return (1.0 + (r + tail)).scaled(k)


def _pow_special(x: Number, y: Number, a: Number, value: Number) -> Number:
    whole = y.truncated().equals(y)
    odd = whole & (0.5 * y).truncated().differs(0.5 * y) & (abs(y) < INFINITY)
    zero_base, big_base = a.equals(0.0), a.equals(INFINITY)
    rises = (y > 0.0) ^ zero_base
    at_end = rises.where(x.literal(INFINITY), 0.0)
    value = (zero_base | big_base).where(at_end, value)
    grows = (a > 1.0) ^ (y < 0.0)
    endless = a.equals(1.0).where(1.0, grows.where(x.literal(INFINITY), 0.0))
    value = abs(y).equals(INFINITY).where(endless, value)
    negative = x.bits() < 0
    value = (negative & odd).where(-value, value)
    finite = (a < INFINITY) & (a > 0.0) & (abs(y) < INFINITY)
    value = (negative & ~whole & finite).where(x.literal(NAN), value)
    value = (x.is_nan() | y.is_nan()).where(x + y, value)
    return (x.equals(1.0) | y.equals(0.0)).where(1.0, value)
