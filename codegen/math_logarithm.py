"""Logarithms and inverse hyperbolic functions."""

from __future__ import annotations

import math

from weft.codegen.math_common import INFINITY, NAN, table
from weft.codegen.math_values import BIAS, MANTISSA, Number, quick_two_sum, two_product, two_sum


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


def log(x: Number) -> Number:
    m, k = normalised(x)
    ln2 = table(x, "LN2")
    f = m - 1.0
    s = f / (f + 2.0)
    half_square = 0.5 * f * f
    tail = k.fma(ln2[1], _log_tail(f, s, half_square))
    return _log_special(x, _sum_of_log(k, f, half_square, tail, ln2[0]))


def _sum_of_log(k: Number, f: Number, half_square: Number, tail: Number, unit: float) -> Number:
    """k * unit + f - half_square + tail, in an order that loses little."""
    head, lost = quick_two_sum(k * unit, f)
    swapped, swapped_lost = quick_two_sum(f, k * unit)
    is_zero = k.equals(0.0)
    head, lost = is_zero.where(swapped, head), is_zero.where(swapped_lost, lost)
    return head + (lost + (tail - half_square))


def log2(x: Number) -> Number:
    m, k = normalised(x)
    head, low = _log_head_tail(m)
    unit = table(x, "LOG2_E")
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
