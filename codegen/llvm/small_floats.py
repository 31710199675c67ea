"""Floats of 16 bits and fewer: stored bits ↔ a float32 register with the exact value.

Arithmetic is in float32, and ``round_to`` rounds each result to the type, ties to even, so that
values stay unpacked between operations. All of it is integer and float32 arithmetic, the same for
scalars, vectors and all targets, and meets no denormal float32, which may be flushed
(``float_mode``): denormals of these types, except bfloat16's, are normal in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.llvm.builder import Builder, Value, floating, integer
from weft.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """``largest``: the largest finite value. ``infinity`` and ``nan``: their bits, None if there
    are none. ``signed_zero``: -0 differs from +0."""

    exponent: int
    mantissa: int
    bias: int
    largest: float
    infinity: int | None
    nan: int | None
    signed_zero: bool = True
    signed: bool = True


FORMATS: dict[str, Format] = {
    "float16": Format(5, 10, 15, 65504.0, 0x7C00, 0x7E00),
    "bfloat16": Format(8, 7, 127, (2 - 2.0**-7) * 2.0**127, 0x7F80, 0x7FC0),
    "float8_e4m3fn": Format(4, 3, 7, 448.0, None, 0x7F),
    "float8_e4m3fnuz": Format(4, 3, 8, 240.0, None, 0x80, signed_zero=False),
    "float8_e5m2": Format(5, 2, 15, 57344.0, 0x7C, 0x7E),
    "float8_e5m2fnuz": Format(5, 2, 16, 57344.0, None, 0x80, signed_zero=False),
    "float8_e8m0fnu": Format(8, 0, 127, 2.0**127, None, 0xFF, signed_zero=False, signed=False),
    "float4_e2m1fn": Format(2, 1, 1, 6.0, None, None),
}


def is_small(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32


def has_negatives(dtype: DType) -> bool:
    """Whether the negation of every value, zero included, is a value of the type."""
    return not is_small(dtype) or FORMATS[dtype.name].signed_zero


def decode(b: Builder, stored: Value, dtype: DType, half: bool) -> Value:
    """The float32 value of stored bits (``i8`` or ``i16``)."""
    if dtype.name == "float16" and half:
        return b.cast("fpext", b.cast("bitcast", stored, "half"), "float")
    f = FORMATS[dtype.name]
    bits = b.cast("zext", stored, "i32")
    if dtype.name == "bfloat16":
        return b.cast("bitcast", b.binary("shl", bits, integer(16, "i32")), "float")
    width = f.exponent + f.mantissa
    magnitude = b.binary("and", bits, integer((1 << width) - 1, "i32"))
    shifted = b.binary("shl", magnitude, integer(23 - f.mantissa, "i32"))
    value = _with_exponent(b, magnitude, shifted, f)
    if f.mantissa == 0:
        value = b.select(
            b.compare("icmp eq", magnitude, integer(0, "i32")), floating(2.0**-127, "float"), value
        )
    if f.infinity is not None:
        beyond = b.compare("icmp uge", magnitude, integer(f.infinity, "i32"))
        infinite = b.compare("icmp eq", magnitude, integer(f.infinity, "i32"))
        special = b.select(
            infinite, floating(float("inf"), "float"), floating(float("nan"), "float")
        )
        value = b.select(beyond, special, value)
    elif f.nan is not None and f.nan < 1 << width:
        is_nan = b.compare("icmp eq", magnitude, integer(f.nan, "i32"))
        value = b.select(is_nan, floating(float("nan"), "float"), value)
    if not f.signed:
        return value
    sign = b.binary("shl", b.binary("lshr", bits, integer(width, "i32")), integer(31, "i32"))
    signed = b.cast("bitcast", b.binary("or", b.cast("bitcast", value, "i32"), sign), "float")
    if not f.signed_zero:
        is_nan = b.compare("icmp eq", bits, integer(f.nan or 0, "i32"))
        signed = b.select(is_nan, floating(float("nan"), "float"), signed)
    return signed


def _with_exponent(b: Builder, magnitude: Value, shifted: Value, f: Format) -> Value:
    """The non-negative float32 with these bits, already ``shifted`` into place; below the normal
    range the implicit first bit of the mantissa is subtracted."""
    if f.bias == 127:
        return b.cast("bitcast", shifted, "float")
    bias = (127 - f.bias) << 23
    normal = b.cast("bitcast", b.binary("add", shifted, integer(bias, "i32")), "float")
    more = b.cast("bitcast", b.binary("add", shifted, integer(bias + (1 << 23), "i32")), "float")
    below = b.binary("fsub", more, floating(2.0 ** (1 - f.bias), "float"))
    tiny = b.compare("icmp ult", magnitude, integer(1 << f.mantissa, "i32"))
    return b.select(tiny, below, normal)


def _without_exponent(b: Builder, absolute: Value, f: Format) -> Value:
    """The bits of a non-negative number of the type."""
    bits, drop = b.cast("bitcast", absolute, "i32"), integer(23 - f.mantissa, "i32")
    if f.bias == 127:
        return b.binary("lshr", bits, drop)
    normal = b.binary("lshr", b.binary("sub", bits, integer((127 - f.bias) << 23, "i32")), drop)
    # Added to a number whose ulp it is, the least number of the type increments the last bit.
    magic = floating(_spacing(f), "float")
    more = b.cast("bitcast", b.binary("fadd", absolute, magic), "i32")
    below = b.binary("sub", more, b.cast("bitcast", magic, "i32"))
    tiny = b.compare("fcmp olt", absolute, floating(2.0 ** (1 - f.bias), "float"))
    return b.select(tiny, below, normal)


def _spacing(f: Format) -> float:
    """The number whose float32 ulp is the least positive number of the type."""
    return 2.0 ** (24 - f.bias - f.mantissa)


def encode(b: Builder, value: Value, dtype: DType, half: bool) -> Value:
    """The stored bits of a float32 rounded by ``round_to``."""
    if dtype.name == "float16" and half:
        return b.cast("bitcast", b.cast("fptrunc", value, "half"), "i16")
    f = FORMATS[dtype.name]
    bits = b.cast("bitcast", value, "i32")
    unordered = b.compare("fcmp uno", value, value)
    storage = f"i{dtype.storage_bits}"
    if dtype.name == "bfloat16":  # NaN has been rounded to one with these bits
        return b.cast("trunc", b.binary("lshr", bits, integer(16, "i32")), storage)
    width = f.exponent + f.mantissa
    absolute = b.intrinsic("fabs", value)
    magnitude = _without_exponent(b, absolute, f)
    if f.infinity is not None:
        infinite = b.compare("fcmp oeq", absolute, floating(float("inf"), "float"))
        magnitude = b.select(infinite, integer(f.infinity, "i32"), magnitude)
    if f.signed:
        sign = b.binary("lshr", bits, integer(31, "i32"))
        magnitude = b.binary("or", magnitude, b.binary("shl", sign, integer(width, "i32")))
    if f.nan is not None:
        magnitude = b.select(unordered, integer(f.nan, "i32"), magnitude)
    return b.cast("trunc", magnitude, storage)


def round_to(b: Builder, value: Value, dtype: DType, half: bool, saturate: bool = False) -> Value:
    """The float32 ``value`` rounded to ``dtype``, as a float32.

    Beyond the largest value: the largest if ``saturate`` or if the type has no infinity or NaN,
    otherwise infinity or NaN as the type has them.
    """
    if dtype.name == "float16" and half:
        return b.cast("fpext", b.cast("fptrunc", value, "half"), "float")
    if dtype.name == "bfloat16" and not saturate:
        return _round_upper_half(b, value)
    f = FORMATS[dtype.name]
    rounded = _round_mantissa(b, b.intrinsic("fabs", value), f)
    beyond = b.compare("fcmp ogt", rounded, floating(f.largest, "float"))
    if saturate or (f.infinity is None and f.nan is None):
        limit = floating(f.largest, "float")
    else:
        limit = floating(float("inf" if f.infinity is not None else "nan"), "float")
    rounded = b.select(beyond, limit, rounded)
    if not f.signed:
        # Unsigned exponents have neither zero nor negative numbers.
        before = b.binary("sub", b.cast("bitcast", value, "i32"), integer(1, "i32"))
        positive = b.compare("icmp ult", before, integer(0x7F800000, "i32"))
        return b.select(positive, rounded, floating(float("nan"), "float"))
    signed = b.intrinsic("copysign", rounded, value)
    if not f.signed_zero:
        zero = b.compare("fcmp oeq", rounded, floating(0.0, "float"))
        signed = b.select(zero, floating(0.0, "float"), signed)
    unordered = b.compare("fcmp uno", value, value)
    if f.nan is None:
        return b.select(unordered, b.intrinsic("copysign", floating(0.0, "float"), value), signed)
    return b.select(unordered, value, signed)


def _round_upper_half(b: Builder, value: Value) -> Value:
    """For types with float32's exponents: a carry out of the mantissa is correct, also into
    infinity."""
    bits = b.cast("bitcast", value, "i32")
    odd = b.binary("and", b.binary("lshr", bits, integer(16, "i32")), integer(1, "i32"))
    up = b.binary("add", b.binary("add", bits, integer(0x7FFF, "i32")), odd)
    rounded = b.cast("bitcast", b.binary("and", up, integer(-0x10000, "i32")), "float")
    unordered = b.compare("fcmp uno", value, value)
    return b.select(unordered, floating(float("nan"), "float"), rounded)


def _round_mantissa(b: Builder, absolute: Value, f: Format) -> Value:
    """A non-negative float32 rounded to the precision of ``f``, without a limit on the exponent."""
    drop = 23 - f.mantissa
    bits = b.cast("bitcast", absolute, "i32")
    odd = b.binary("and", b.binary("lshr", bits, integer(drop, "i32")), integer(1, "i32"))
    if not f.mantissa:  # no mantissa bit to be even: ties round up
        odd = integer(1, "i32")
    carried = b.binary("add", bits, b.binary("add", odd, integer((1 << (drop - 1)) - 1, "i32")))
    kept = b.binary("and", carried, integer(-(1 << drop), "i32"))
    rounded = b.cast("bitcast", kept, "float")
    if f.exponent == 8 and f.mantissa:
        return rounded
    # Below the normal range the spacing is constant: adding a number whose ulp it is rounds to it.
    if f.exponent == 8:  # all are denormal here, and compared as integers
        least = floating(2.0**-127, "float")
        tiny = b.compare("icmp ult", bits, integer(1 << 23, "i32"))
        big = b.compare("icmp uge", bits, integer(3 << 21, "i32"))  # 1.5 * 2**-127
        return b.select(tiny, b.select(big, floating(2.0**-126, "float"), least), rounded)
    magic = floating(_spacing(f), "float")
    subnormal = b.binary("fsub", b.binary("fadd", absolute, magic), magic)
    tiny = b.compare("fcmp olt", absolute, floating(2.0 ** (1 - f.bias), "float"))
    return b.select(tiny, subnormal, rounded)


def round_to_odd(b: Builder, value: Value) -> Value:
    """A double as the float32 that rounds on to any smaller type like the double itself."""
    single = b.cast("fptrunc", value, "float")
    back = b.cast("fpext", single, "double")
    inexact = b.compare("fcmp one", back, value)
    above = b.compare("fcmp ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", value))
    bits = b.cast("bitcast", single, "i32")
    truncated = b.binary("sub", bits, b.cast("zext", above, "i32"))
    sticky = b.binary("or", truncated, b.cast("zext", inexact, "i32"))
    return b.cast("bitcast", sticky, "float")
