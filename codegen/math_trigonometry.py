"""Trigonometric functions and their inverses."""

from __future__ import annotations

from weft.codegen.math_common import INFINITY, table
from weft.codegen.math_reduction import reduce_half_pi
from weft.codegen.math_values import MANTISSA, Number, quick_two_sum


def _sin_kernel(r: Number, low: Number) -> Number:
    """sin(r + low) for |r| <= pi / 4."""
    z = r * r
    cube = z * r
    rest = cube.fma(z.polynomial(table(r, "SIN")), low)
    return r + z.fma(-0.5 * low, rest)


def _cos_kernel(r: Number, low: Number) -> Number:
    z = r * r
    half = 0.5 * z
    w = 1.0 - half
    rest = (z * z).fma(z.polynomial(table(r, "COS")), -(r * low))
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
    rest = (z * u) * z.polynomial(table(t, "ATAN"))
    half_pi = table(t, "HALF_PI")
    base, base_low = (
        high.where(t.literal(half_pi[0] / 2), 0.0),
        high.where(t.literal(half_pi[1] / 2), 0.0),
    )
    head, lost = quick_two_sum(base, u)
    head, lost = high.where(head, u), high.where(lost, 0.0)
    return head, lost + (rest + (base_low + high.where(error, 0.0)))


def atan(x: Number) -> Number:
    a = abs(x)
    inverted = a > 1.0
    t = inverted.where(1.0 / a, a)
    error = (a < INFINITY).where((-t).fma(a, 1.0) / a, 0.0)
    head, low = _atan_unit(t)
    low = inverted.where(low + error / t.fma(t, 1.0), low)
    return _turned(head, low, inverted).copysign(x)


def _turned(head: Number, low: Number, inverted: Number) -> Number:
    """pi / 2 - (head + low) where ``inverted``, else head + low."""
    half_pi = table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total + (lost + (half_pi[1] - low)), head + low)


def atan2(y: Number, x: Number) -> Number:
    a, b = abs(y), abs(x)
    inverted = a > b
    small, big = inverted.where(b, a), inverted.where(a, b)
    quotient = small / big
    both_infinite = small.equals(INFINITY)
    t = both_infinite.where(1.0, big.equals(0.0).where(0.0, quotient))
    # t stands for small / big: what the division lost matters once it is turned
    usable = (big < 2.0**1000) & (big > 2.0**-900) & (t > 2.0**-100)
    error = usable.where((-t).fma(big, small) / big, 0.0)
    head, low = _atan_unit(t)
    low = low + error / t.fma(t, 1.0)
    quarter, quarter_low = _turned_pair(head, low, inverted)
    pi = [2.0 * part for part in table(x, "HALF_PI")[:2]]
    back, lost = quick_two_sum(x.literal(pi[0]), -quarter)
    negative = x.bits() < 0
    result = negative.where(back + (lost + (pi[1] - quarter_low)), quarter + quarter_low)
    result = result.copysign(y)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


def _turned_pair(head: Number, low: Number, inverted: Number) -> tuple[Number, Number]:
    half_pi = table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total, head), inverted.where(lost + (half_pi[1] - low), low)


def _asin_series(x: Number, z: Number) -> Number:
    """asin(x) - x where z = x**2 <= 1/4."""
    return (x * z) * z.polynomial(table(x, "ASIN"))


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
    half_pi = table(x, "HALF_PI")
    total, lost = quick_two_sum(x.literal(half_pi[0]), -2.0 * root)
    far = total + (lost + (half_pi[1] - 2.0 * low))
    return (a <= 0.5).where(near, far).copysign(x)


def acos(x: Number) -> Number:
    a = abs(x)
    half_pi = table(x, "HALF_PI")
    total, lost = quick_two_sum(x.literal(half_pi[0]), -x)
    near = total + (lost + (half_pi[1] - _asin_series(x, x * x)))
    root, low = _asin_root(a)
    top, top_lost = quick_two_sum(x.literal(2.0 * half_pi[0]), -2.0 * root)
    left = top + (top_lost + (2.0 * half_pi[1] - 2.0 * low))
    right = 2.0 * (root + low)
    return (a <= 0.5).where(near, (x < 0.0).where(left, right))
