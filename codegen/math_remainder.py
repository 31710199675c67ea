"""The floating-point remainder, exact for all operands, by subtracting exact multiples.

Each round removes from r the largest multiple of s = b * 2**k, with k such that the quotient is a
whole number that the type holds; a fused multiply-add makes the difference exact. One round does
unless the quotient of the operands is huge; the loop ends when no lane needs another.
"""

from __future__ import annotations

from weft.codegen.math_values import BIAS, MANTISSA, Number


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
    """The biased exponent of a positive number, as if subnormals had room below 1."""
    mantissa = MANTISSA[x.type]
    lift = mantissa + 2
    subnormal = x < 2.0 ** (1 - BIAS[x.type])
    field = subnormal.where(x * 2.0**lift, x).bits() >> mantissa
    return subnormal.where(field - lift, field)
