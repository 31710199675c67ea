"""Numbers in fixed point: an integer expression of known bounds times a power of two.

    Fixed ::= value: Expr (int8 or int32), exponent, low, high        number ≈ value * 2**exponent

What is done to them is addition, multiplication, min, max and shifts in int32, so that any machine
with such an accumulator computes the same; no intermediate result leaves ±``ROOM``, which is proved
by ``low`` and ``high`` here and leaves a bit for the half that rounding adds. A single shift is by
at most 15 bits. Rounding to a coarser exponent adds half and shifts right (ties go up):

    rounded(v, n) = (v + 2**(n-1)) >> n

It is monotone, so that it commutes with min and max; and the half goes into a constant that is
added anyway. So max(Σ + b, 0) becomes max((Σ + b') >> n, 0): one addition, one shift, one max.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from weft.graph.exponents import LARGEST
from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, apply, cast, literal
from weft.ir.tensor_expr import Tensor

ROOM = 1 << 30  # magnitude of an int32 value
MOST_SHIFTED = 15  # bits, by a single shift

Constants = Mapping[Tensor, np.ndarray]


class TooLarge(Exception):
    """A result would leave ±``ROOM``: weights of an exponent coarser by ``bits`` may help."""

    def __init__(self, bits: int = 1) -> None:
        super().__init__(bits)
        self.bits = bits


@dataclass(frozen=True, slots=True)
class Fixed:
    """``value`` * 2**``exponent`` with ``low`` <= value <= ``high``."""

    value: Expr
    exponent: int
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.peak > ROOM:
            raise TooLarge(self.peak.bit_length() - ROOM.bit_length() + 1)

    @property
    def peak(self) -> int:
        """The greatest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def is_int8(self) -> bool:
        return self.value.dtype == dtypes.int8


def wide(number: Fixed) -> Expr:
    """The value in int32."""
    return cast(number.value, dtypes.int32)


def negated(number: Fixed) -> Fixed:
    return Fixed(-wide(number), number.exponent, -number.high, -number.low)


def at(number: Fixed, exponent: int, constants: Constants) -> Fixed:
    """``number`` at ``exponent``: shifted left, or rounded."""
    by = number.exponent - exponent
    if by < 0:
        return rounded(number, -by, constants)
    if by == 0:
        return number
    if number.peak << min(by, 32) > ROOM:
        raise TooLarge(1)
    return Fixed(shifted("shl", wide(number), by), exponent, number.low << by, number.high << by)


def aligned(left: Fixed, right: Fixed, constants: Constants) -> tuple[Fixed, Fixed]:
    """Both at the finer of their exponents, or the finest at which they can still be added."""
    exponent = min(left.exponent, right.exponent)
    for number in (left, right):
        exponent = max(exponent, finest(number.peak, number.exponent))
    return at(left, exponent, constants), at(right, exponent, constants)


def finest(peak: int, exponent: int) -> int:
    """The least exponent at which ``peak`` * 2**``exponent`` takes half of the room."""
    return exponent - ((ROOM >> 1).bit_length() - 1 - peak.bit_length())


def rounded(number: Fixed, by: int, constants: Constants) -> Fixed:
    """``number`` at an exponent that is greater by ``by``: half is added, then shifted right.

    Arrays of ``constants`` that ``number`` adds last are changed in place to hold the half.
    """
    if by == 0:
        return number
    if by >= ROOM.bit_length():
        raise TooLarge(by - ROOM.bit_length() + 1)
    half = 1 << (by - 1)
    low, high = (number.low + half) >> by, (number.high + half) >> by
    value = _rounded(wide(number), by, half, constants)
    return Fixed(value, number.exponent + by, low, high)


def _rounded(value: Expr, by: int, half: int, constants: Constants) -> Expr:
    match value:
        case Apply("min" | "max" as op, (inner, Literal(bound))):
            limit = literal((int(bound) + half) >> by, value.dtype)
            return apply(op, _rounded(inner, by, half, constants), limit)
        case Apply("add", (inner, Load(Tensor() as source))) if source in constants:
            array = constants[source]
            array += half
            return shifted("shr", value, by)
    return shifted("shr", value + half, by)


def shifted(op: str, value: Expr, by: int) -> Expr:
    while by > 0:
        value = apply(op, value, literal(min(by, MOST_SHIFTED), value.dtype))
        by -= MOST_SHIFTED
    return value


def clipped(number: Fixed, largest: int) -> Fixed:
    """``number`` saturated at ±``largest``, where its bounds do not say that it is already."""
    value, low, high = number.value, number.low, number.high
    if low < -largest:
        value = apply("max", value, literal(-largest, value.dtype))
    if high > largest:
        value = apply("min", value, literal(largest, value.dtype))
    low, high = (min(max(bound, -largest), largest) for bound in (low, high))
    return Fixed(value, number.exponent, low, high)


def narrowed(number: Fixed, bits: int, constants: Constants) -> Fixed:
    """``number`` rounded until its magnitude has at most ``bits``."""
    by = max(0, number.peak.bit_length() - bits)
    return rounded(number, by, constants)


def requantised(number: Fixed, exponent: int, constants: Constants) -> Fixed:
    """``number`` as int8 at ``exponent``, rounded and saturated."""
    by = exponent - number.exponent
    if number.is_int8 and by == 0:
        return number
    if by >= 0:
        number = rounded(number, by, constants)
    else:  # what is clipped before it is shifted saturates afterwards; 7 bits are enough for that
        number = clipped(number, LARGEST)
        number = replace(at(number, number.exponent - min(-by, 7), constants), exponent=exponent)
    number = clipped(number, LARGEST)
    return replace(number, value=cast(number.value, dtypes.int8))
