"""Integer division, shifts and powers that are defined for all operands, in LLVM IR."""

from __future__ import annotations

from weft.codegen.llvm.builder import Builder, Value, integer
from weft.ir.dtypes import DType


def divide(b: Builder, op: str, left: Value, right: Value, signed: bool) -> Value:
    """``floordiv``, ``mod``, ``truncdiv`` or ``rem``; by zero the result is 0, INT_MIN / -1 is
    INT_MIN."""
    quotient_wanted = op in ("floordiv", "truncdiv")
    divisor = right.const
    if not signed or (divisor is not None and divisor not in (0, -1)):
        return _divide_simple(b, op, left, right, signed, quotient_wanted)
    one, zero = integer(1, right.type), integer(0, right.type)
    by_zero = b.compare("icmp eq", right, zero)
    by_minus_one = b.compare("icmp eq", right, integer(-1, right.type))
    safe = b.select(b.binary("or", by_zero, by_minus_one), one, right)
    result = _divide_simple(b, op, left, safe, signed, quotient_wanted)
    # The remainder by -1 is 0, as ``safe`` has it; the quotient is the negated dividend.
    if quotient_wanted:
        result = b.select(by_minus_one, b.binary("sub", zero, left), result)
    return b.select(by_zero, zero, result)


def _divide_simple(
    b: Builder, op: str, left: Value, right: Value, signed: bool, quotient_wanted: bool
) -> Value:
    zero = integer(0, left.type)
    divisor = right.const
    if divisor is None and not signed:
        by_zero = b.compare("icmp eq", right, zero)
        safe = b.select(by_zero, integer(1, right.type), right)
        quotient = _quotient(b, left, safe, signed)
        remainder = b.binary("sub", left, b.binary("mul", quotient, safe))
        return b.select(by_zero, zero, quotient if quotient_wanted else remainder)
    if divisor == 0:
        return b.splat(zero, left.lanes)
    power = None if divisor is None else _exponent_of_two(int(divisor))
    if power is not None and (not signed or op in ("floordiv", "mod")):
        if quotient_wanted:
            return b.binary("ashr" if signed else "lshr", left, integer(power, left.type))
        return b.binary("and", left, integer((1 << power) - 1, left.type))
    if not signed:
        return b.binary("udiv" if quotient_wanted else "urem", left, right)
    quotient = _quotient(b, left, right, signed)
    if op == "truncdiv":
        return quotient
    remainder = b.binary("sub", left, b.binary("mul", quotient, right))
    if op == "rem":
        return remainder
    nonzero = b.compare("icmp ne", remainder, zero)
    differ = b.compare("icmp slt", b.binary("xor", remainder, right), zero)
    wrong = b.binary("and", nonzero, differ)
    if quotient_wanted:
        return b.binary("add", quotient, b.cast("sext", wrong, left.type))
    return b.binary("add", remainder, b.select(wrong, right, zero))


def _quotient(b: Builder, left: Value, right: Value, signed: bool) -> Value:
    """``left / right``, truncated, for operands where that is defined.

    Processors have no vector division of integers. Division of floats rounds to nearest; truncated,
    it is exact if the dividend has fewer bits than a mantissa: a quotient below an integer is at
    least 1 / right below it, which is more than half an ulp.
    """
    op = "sdiv" if signed else "udiv"
    if right.const is not None or not (left.lanes or right.lanes):
        return b.binary(op, left, right)
    left, right = b.match(left, right)
    bits = int(left.type[1:])
    if bits < 64:
        return _by_floats(b, left, right, signed, "double" if bits > 16 else "float")
    few, lanes = 1 << 52, left.lanes
    shifted = b.binary("add", left, integer(few)) if signed else left
    large = b.compare("icmp uge", shifted, integer(2 * few if signed else few))
    result = b.cell(b.splat(integer(0), lanes))
    many, short, after = (b.new_label(hint) for hint in ("divide", "by_floats", "divided"))
    b.branch(b.any_lane(large), many, short)
    b.at(many)
    b.store(b.binary(op, left, right), result)
    b.jump(after)
    b.at(short)
    b.store(_by_floats(b, left, right, signed, "double"), result)
    b.jump(after)
    b.at(after)
    return b.load(result, left.type, lanes)


def _by_floats(b: Builder, left: Value, right: Value, signed: bool, type_: str) -> Value:
    sign = "s" if signed else "u"
    floats = (b.cast(f"{sign}itofp", value, type_) for value in (left, right))
    return b.cast(f"fpto{sign}i", b.binary("fdiv", *floats), left.type)


def _exponent_of_two(value: int) -> int | None:
    return value.bit_length() - 1 if value & (value - 1) == 0 else None


def shift(b: Builder, op: str, value: Value, amount: Value, dtype: DType) -> Value:
    """``shl`` and ``shr``; amounts outside 0 … bits-1 shift everything out."""
    bits = integer(dtype.bits, value.type)
    inside = b.compare("icmp ult", amount, bits)
    safe = b.select(inside, amount, integer(0, value.type))
    zero = integer(0, value.type)
    if op == "shl":
        return b.select(inside, b.binary("shl", value, safe), zero)
    if dtype.kind == "uint":
        return b.select(inside, b.binary("lshr", value, safe), zero)
    most = integer(int(value.type[1:]) - 1, value.type)
    return b.binary("ashr", value, b.select(inside, amount, most))


def power(b: Builder, base: Value, exponent: Value, signed: bool) -> Value:
    """By squaring; the loop ends when no lane has exponent bits left."""
    base, exponent = b.match(base, exponent)
    lanes, type_ = base.lanes, base.type
    one, zero = b.splat(integer(1, type_), lanes), b.splat(integer(0, type_), lanes)
    negative = b.compare("icmp slt", exponent, zero) if signed else None
    start = b.select(negative, zero, exponent) if negative else exponent
    result, square, left = b.cell(one), b.cell(base), b.cell(start)
    loop, done = b.new_label("power"), b.new_label("power_done")
    b.jump(loop)
    b.at(loop)
    old, factor, bits = (b.load(cell, type_, lanes) for cell in (result, square, left))
    odd = b.compare("icmp ne", b.binary("and", bits, one), zero)
    new_result = b.select(odd, b.binary("mul", old, factor), old)
    b.store(new_result, result)
    b.store(b.binary("mul", factor, factor), square)
    rest = b.binary("lshr", bits, one)
    b.store(rest, left)
    b.branch(b.any_lane(b.compare("icmp ne", rest, zero)), loop, done)
    b.at(done)
    if negative is None:
        return new_result
    # For negative exponents: 1 / power truncates to 0 unless the base is 1 or -1.
    minus = b.splat(integer(-1, type_), lanes)
    is_odd = b.compare("icmp ne", b.binary("and", exponent, one), zero)
    inverse = b.select(b.compare("icmp eq", base, minus), b.select(is_odd, minus, one), zero)
    inverse = b.select(b.compare("icmp eq", base, one), one, inverse)
    return b.select(negative, inverse, new_result)
