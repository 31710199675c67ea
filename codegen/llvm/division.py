"""Division by a known or loop-invariant number: two operations with the same quotient.

    x / c   →   fma(x, high, x * low)      high + low = 1 / c, to twice the precision

A division takes as long as ten products. The sum is rounded once and is so close to the exact
quotient that it rounds to the same float, unless the quotient is about as close to the midpoint of
two floats. For a given ``c`` only a few x can be such, and each of them is tested. For whole ``c``
of fewer bits than a mantissa there are none, so that these need not be known before run time. For
any other loop-invariant number about one quotient in two million (float64: in 2**50) is off by one
ulp. Infinities, NaN and zeros are correct, since both products have the sign of the quotient. If
the quotient is so close to the least normal number that ``x * low`` loses bits, the last bit may
differ. ``strict`` programs divide.

Reference: Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when
the divisor is known in advance", IEEE Transactions on Computers 53 (2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from weft.codegen.llvm.builder import Builder, Value, floating, integer

_PRECISION = {"double": 53, "float": 24}  # bits of a mantissa
_EXPONENT = {"double": 500, "float": 60}  # largest of a divisor whose two parts have all their bits


def divide_by_constant(b: Builder, x: Value, divisor: float) -> Value | None:
    """``x / divisor`` by a fused multiply-add; None if that is not exact or not faster."""
    parts = reciprocal(divisor, x.type)
    if parts is None:
        return None
    high, low = (floating(part, x.type) for part in parts)
    return b.intrinsic("fma", x, high, b.binary("fmul", x, low))


def divide_by_shared(
    b: Builder, x: Value, divisor: Value, *, whole: bool, mask: Value | None = None
) -> Value:
    """``x / divisor`` in each lane of ``mask``, by a number that all lanes share or a
    loop-invariant vector; exact if the divisor is ``whole``.

    LLVM hoists what depends on the divisor alone. In ulps, a quotient by an odd c is at least 1 /
    (2 * c) off a midpoint, and the sum is off the quotient by at most a few times 2**-bits.
    """
    type_, far = x.type, 2.0 ** _EXPONENT[x.type]
    least, most = (1.0, 2.0 ** (_PRECISION[x.type] - 5)) if whole else (1 / far, far)
    size, one = b.intrinsic("fabs", divisor), floating(1.0, type_)
    nearest = b.binary("fdiv", one, size)
    above = b.compare("fcmp olt", _rest(b, nearest, size), floating(0.0, type_))
    bits = "i64" if type_ == "double" else "i32"
    step = b.cast("sext", above, bits)
    high = b.cast("bitcast", b.binary("add", b.cast("bitcast", nearest, bits), step), type_)
    rest = _rest(b, high, size)
    low = b.binary("fmul", rest, high)
    # The remainder is 0 for a power of two: halves, so that infinity times it is no NaN.
    power = b.compare("fcmp oeq", rest, floating(0.0, type_))
    half = b.binary("fmul", high, floating(0.5, type_))
    high, low = (b.intrinsic("copysign", b.select(power, half, v), divisor) for v in (high, low))
    inside = b.binary(
        "and",
        b.compare("fcmp oge", size, floating(least, type_)),
        b.compare("fcmp ole", size, floating(most, type_)),
    )
    if inside.lanes:  # in all active lanes
        outside = b.binary("xor", inside, b.splat(integer(1, "i1"), inside.lanes))
        outside = outside if mask is None else b.binary("and", outside, mask)
        inside = b.binary("xor", b.any_lane(outside), integer(1, "i1"))
    short, plain, after = (b.new_label(hint) for hint in ("products", "divide", "divided"))
    result = b.cell(b.splat(floating(0.0, type_), x.lanes))
    b.branch(inside, short, plain)
    b.at(short)
    b.store(b.intrinsic("fma", x, high, b.binary("fmul", x, low)), result)
    b.jump(after)
    b.at(plain)
    b.store(b.binary("fdiv", x, divisor), result)
    b.jump(after)
    b.at(after)
    return b.load(result, type_, x.lanes)


def _rest(b: Builder, part: Value, size: Value) -> Value:
    """1 - part * size, which is exact."""
    return b.intrinsic("fma", b.negate(part), size, floating(1.0, size.type))


@cache
def reciprocal(divisor: float, type_: str) -> tuple[float, float] | None:
    """``high`` and ``low`` as above, of one sign; None if they are not exact for every x, and for
    powers of two, which LLVM handles."""
    bits = _PRECISION[type_]
    if not math.isfinite(divisor) or abs(math.frexp(divisor)[1]) > _EXPONENT[type_]:
        return None
    if abs(math.frexp(divisor)[0]) in (0.0, 0.5):
        return None
    exact = 1 / abs(Fraction(divisor))
    high = _rounded(exact, bits, down=True)
    low = _rounded(exact - high, bits)
    for x in _doubtful(abs(Fraction(divisor)), exact, high, low, bits):
        if _rounded(x * high + _rounded(x * low, bits), bits) != _rounded(x * exact, bits):
            return None
    sign = math.copysign(1.0, divisor)
    return sign * float(high), sign * float(low)


def _doubtful(
    divisor: Fraction, exact: Fraction, high: Fraction, low: Fraction, bits: int
) -> Iterator[int]:
    """The x, as integers of ``bits`` bits, whose quotient is so close to a midpoint that the sum
    may round differently. All others are these times powers of two."""
    odd = divisor.numerator // (divisor.numerator & -divisor.numerator)
    # The error of the sum before rounding, in ulps of the quotient.
    off = (abs(exact - high - low) * 2**bits + low) / exact
    # A quotient x * 2**shift / odd of ``bits`` bits is n / (2 * odd) from a middle, n odd, where
    # x * 2**(shift + 1) = n modulo odd.
    most = int(2 * odd * off)
    for shift in (odd.bit_length() - 1, odd.bit_length()):
        inverse = pow(2 ** (shift + 1), -1, odd)
        for n in (n for n in range(-most, most + 1) if n % 2):
            least = 2 ** (bits - 1)
            yield from range(least + (n * inverse - least) % odd, 2**bits, odd)


def _rounded(value: Fraction, bits: int, *, down: bool = False) -> Fraction:
    """``value`` (0 or more) with a mantissa of ``bits`` bits, to the nearest (ties to even) or
    ``down``."""
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= value < Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - bits + 1)
    return (value // unit if down else round(value / unit)) * unit
