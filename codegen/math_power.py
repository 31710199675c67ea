"""The power function, its logarithm in twice the precision."""

from __future__ import annotations

from weft.codegen.math_common import INFINITY, NAN, at_most, nothing_below, table
from weft.codegen.math_exponential import reduce_ln2
from weft.codegen.math_logarithm import normalised
from weft.codegen.math_values import Number, quick_two_sum, two_product

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
