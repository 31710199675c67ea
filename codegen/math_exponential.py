"""Exponential and hyperbolic functions, and the error function."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.llvm.builder import Builder, Value, floating, integer
from weft.codegen.math_values import (
    BIAS,
    MANTISSA,
    Number,
    at_most,
    clamped,
    nothing_below,
    quick_two_sum,
    table,
    two_product,
)

_LARGEST = {"float": 89.0, "double": 710.0}  # beyond it exp overflows
_LEAST = {"float": -104.0, "double": -746.0}  # below it exp is 0


def exp(x: Number) -> Number:
    """e**x = 2**k * e**r, |r| <= ln(2) / 2; with n powers of two in a register
    e**x = 2**k * 2**(j / n) * e**r, |r| <= ln(2) / 2n, which is a shorter polynomial."""
    return nothing_below(_LEAST[x.type], at_most(x, _LARGEST[x.type]), _exp_within)


def _exp_within(x: Number) -> Number:
    ln2, n = table(x, "LN2"), entries(x)
    whole, k, bits = x.nearest(table(x, "LOG2_E")[0], n or 1)
    r = (-whole).fma(ln2[1], (-whole).fma(ln2[0], x))  # the inner one is exact
    if not n:
        return r.polynomial((1.0, 1.0, *table(x, "EXP"))).scaled(k, whole)
    power = pick(table(x, "POWERS"), bits, x.type)
    rest = r.polynomial((1.0, *table(x, f"EXP_{n}")))
    return (r * power).fma(rest, power).scaled(k, whole)


def reduce_ln2(x: Number) -> tuple[Number, Number, Number]:
    """x - k ln 2 as head and tail, and k."""
    ln2 = table(x, "LN2")
    whole, k = (x * table(x, "LOG2_E")[0]).whole()
    head = (-whole).fma(ln2[0], x)
    product, error = two_product(whole, ln2[1])
    total, lost = quick_two_sum(head, -product)
    return total, lost - error, k


def exp2(x: Number) -> Number:
    bits, least = BIAS[x.type] + 1.0, -BIAS[x.type] - MANTISSA[x.type] - 2.0
    return nothing_below(least, at_most(x, bits), _exp2_within)


def _exp2_within(x: Number) -> Number:
    whole, k = x.whole()
    r = x - whole
    head, tail = table(x, "LN2")[0], table(x, "LN2")[1]
    rest = (r * r).fma(r.polynomial(table(x, "EXP2")), r * tail)
    return (r.fma(head, rest) + 1.0).scaled(k, whole)


def expm1(x: Number) -> Number:
    """2**k (expm1(r) + 1 - 2**-k), or 2**k expm1(r) + (2**k - 1) where k < 1."""
    top = _LARGEST[x.type]
    bounded = clamped(x, -60.0, top)
    r, low, k = reduce_ln2(bounded)
    # expm1(r + low) = expm1(r) + low * e**r; low is below half an ulp of r
    p = r + (r * r).fma(r.polynomial(table(x, "EXP")), low)
    one = r.literal(1.0)
    up = (p + (one - one.scaled(-(k < 64).where(k, 64)))).scaled(k)  # beyond that it is 1
    power = one.scaled(k)
    down = power.fma(p, power - 1.0)
    result = (k > 0).where(up, down)
    return x.equals(0.0).where(x, (abs(x) < 2.0 ** -MANTISSA[x.type]).where(x, result))


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
        return _piece(abs(x), "TANH_32", 2).copysign(x) if entries(x) else _tanh_single(x)
    a = abs(x)
    e = expm1(-2.0 * a)
    return (-e / (e + 2.0)).copysign(x)


def _piece(a: Number, name: str, parts: int) -> Number:
    """A function of a >= 0 by pieces: around each multiple of 1 / ``parts`` a polynomial, whose
    coefficients are in the tables ``name``; constant beyond the last."""
    values, count = table(a, name), 2 * entries(a)
    a = at_most(a, (count - 1) / parts)
    near, _, bits = a.nearest(parts=parts)
    rows = [values[start : start + count] for start in range(0, len(values), count)]
    return (a - near).polynomial([pick(row, bits, a.type) for row in rows])


def _tanh_single(x: Number) -> Number:
    a = abs(x)
    z = x * x
    small = (a * z).fma(z.polynomial(table(x, "TANH")), a)
    e = exp(2.0 * a)
    large = 1.0 - 2.0 / (e + 1.0)
    return (a < 0.625).where(small, large).copysign(x)


def erf(x: Number) -> Number:
    if x.type == "float":
        return _erf_single(x)
    a = abs(x)
    z = x * x
    near = a * z.polynomial(table(x, "ERF"))
    b = (a > 6.0).where(6.0, a)
    square, error = two_product(b, b)
    gauss = exp(-square) * (1.0 - error)
    far = 1.0 - gauss * ((b - 2.0) / (b + 2.0)).polynomial(table(x, "ERFC"))
    result = (a < 1.0).where(near, far).copysign(x)
    return x.is_nan().where(x, result)


def _erf_single(x: Number) -> Number:
    if not entries(x):
        return _erf_quotient(x)
    a = at_most(abs(x), 31 / 8)
    return (a * _piece(a, "ERF_32", 8)).copysign(x)


def _erf_quotient(x: Number) -> Number:
    """One quotient, no exponential; where x**2 > 15 it grows with x, so that 1 is reached."""
    z = x * x
    z = (z < 15.0).where(z, 15.0)
    top, bottom = z.polynomial(table(x, "ERF_TOP")), z.polynomial(table(x, "ERF_BOTTOM"))
    return clamped(x * top / bottom, -1.0, 1.0)


# ---- Tables in registers, indexed in each lane by the low bits of an integer.
#
# One instruction where a processor permutes a whole register by another (``vpermps``), as long as
# a shuffle and beside the multiply-add pipes. Two registers hold a table of twice as many entries
# (``vpermi2ps``). Fewer lanes than a register has pick in some of its lanes, more one register
# after the other.


_REGISTER = 64  # bytes of those that AVX-512 permutes
_SHORT = {"float": "s", "double": "d"}


def entries(x: Number) -> int:
    """The number of table entries of the type of ``x`` in one register; 0 if the target cannot
    permute them."""
    count = _REGISTER // _bytes(x.type)
    whole = x.value.lanes <= count or x.value.lanes % count == 0
    return count if "avx512f" in x.b.features and whole else 0


def pick(table: Sequence[float], index: Number, type_: str) -> Number:
    """The entry of ``table``, one register or two of ``type_``, at ``index`` modulo its length.

    ``index``: integers as wide as the entries.
    """
    b, count = index.b, _REGISTER // _bytes(type_)
    assert len(table) in (count, 2 * count)
    vector = f"<{count} x {type_}>"
    parts = [_constant(table[k : k + count], type_) for k in range(0, len(table), count)]
    found = []
    for lanes in b.parts(_widened(b, index.value, count), count):
        if len(parts) == 1:
            name, given = f"permvar.{_SHORT[type_]}f.512", [parts[0], lanes]
        else:
            name, given = f"vpermi2var.p{_SHORT[type_]}.512", [parts[0], lanes, parts[1]]
        called = f"{vector} @llvm.x86.avx512.{name}"
        b.declare(f"{called}({', '.join(value.full_type for value in given)})")
        found.append(b.emit(f"call {called}({', '.join(map(str, given))})", type_, count))
    return Number(b, _narrowed(b, b.joined(found), index.value.lanes))


def _bytes(type_: str) -> int:
    return {"float": 4, "double": 8}[type_]


def _constant(values: Sequence[float], type_: str) -> Value:
    entries = ", ".join(str(floating(value, type_)) for value in values)
    return Value(f"<{entries}>", type_, len(values))


def _widened(b: Builder, value: Value, count: int) -> Value:
    """``value`` in the first of ``count`` lanes, the others undefined."""
    if not value.lanes:
        return b.insert(Value("poison", value.type, count), value, integer(0, "i32"))
    if value.lanes >= count:
        return value
    return b.shuffle(value, None, [k if k < value.lanes else -1 for k in range(count)])


def _narrowed(b: Builder, value: Value, lanes: int) -> Value:
    if not lanes:
        return b.extract(value, integer(0, "i32"))
    return value if value.lanes == lanes else b.shuffle(value, None, list(range(lanes)))
