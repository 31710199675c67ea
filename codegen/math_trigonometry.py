"""Trigonometric functions and their inverses."""

from __future__ import annotations

from weft.codegen import math_coefficients
from weft.codegen.llvm.builder import Builder, Value, floating, integer
from weft.codegen.math_values import (
    INFINITY,
    MANTISSA,
    Number,
    quick_two_sum,
    table,
    two_product,
    two_sum,
)


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


def _quadrant(x: Number, shift: int) -> Number:
    """sin(x + shift * pi / 2)."""
    r, low, quarter = reduce_half_pi(x)
    quarter = quarter + shift
    s, c = _sin_kernel(r, low), _cos_kernel(r, low)
    value = (quarter & 1).equals(0).where(s, c)
    return (quarter & 2).equals(0).where(value, -value)


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


def atan(x: Number) -> Number:
    a = abs(x)
    inverted = a > 1.0
    t = inverted.where(1.0 / a, a)
    error = (a < INFINITY).where((-t).fma(a, 1.0) / a, 0.0)
    head, low = _atan_unit(t)
    low = inverted.where(low + error / t.fma(t, 1.0), low)
    return _complement(head, low, inverted).copysign(x)


def atan2(y: Number, x: Number) -> Number:
    a, b = abs(y), abs(x)
    inverted = a > b
    small, big = inverted.where(b, a), inverted.where(a, b)
    quotient = small / big
    both_infinite = small.equals(INFINITY)
    t = both_infinite.where(1.0, big.equals(0.0).where(0.0, quotient))
    # t stands for small / big: what the division lost matters after the complement
    usable = (big < 2.0**1000) & (big > 2.0**-900) & (t > 2.0**-100)
    error = usable.where((-t).fma(big, small) / big, 0.0)
    head, low = _atan_unit(t)
    low = low + error / t.fma(t, 1.0)
    quarter, quarter_low = _complement_pair(head, low, inverted)
    pi = [2.0 * part for part in table(x, "HALF_PI")[:2]]
    back, lost = quick_two_sum(x.literal(pi[0]), -quarter)
    negative = x.bits() < 0
    result = negative.where(back + (lost + (pi[1] - quarter_low)), quarter + quarter_low)
    result = result.copysign(y)
    return (x.is_nan() | y.is_nan()).where(x + y, result)


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


def _complement(head: Number, low: Number, inverted: Number) -> Number:
    """pi / 2 - (head + low) where ``inverted``, else head + low."""
    half_pi = table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total + (lost + (half_pi[1] - low)), head + low)


def _complement_pair(head: Number, low: Number, inverted: Number) -> tuple[Number, Number]:
    half_pi = table(head, "HALF_PI")
    total, lost = quick_two_sum(head.literal(half_pi[0]), -head)
    return inverted.where(total, head), inverted.where(lost + (half_pi[1] - low), low)


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


def _asin_series(x: Number, z: Number) -> Number:
    """asin(x) - x where z = x**2 <= 1/4."""
    return (x * z) * z.polynomial(table(x, "ASIN"))


def _asin_root(a: Number) -> tuple[Number, Number]:
    """asin(sqrt((1 - a) / 2)) as head and tail, for 1/2 <= a <= 1."""
    z = 0.5 * (1.0 - a)
    root = z.sqrt()
    error = root.equals(0.0).where(0.0, (-root).fma(root, z) / (2.0 * root))
    return root, error + _asin_series(root, z)


# ---- Range reduction: x modulo pi/2, accurate for every finite x.
#
# Small arguments: Cody and Waite's subtraction in pieces, exact with fused multiply-add. Lanes
# beyond that, rare in practice, take Payne and Hanek's way one by one: the product of x with the
# window of 2/pi's bits that matters, in 192-bit integers.


_SLOW = "weft_reduce_half_pi"
_BOUND = {"float": 2.0**12, "double": 2.0**20}


def reduce_half_pi(x: Number) -> tuple[Number, Number, Number]:
    """(head, tail, quarter): x = quarter * pi / 2 + head + tail, |head| <= pi / 4 and a little.

    Quarters count modulo 4, in integers of x's width. The head is NaN unless x is finite.
    """
    fast = _subtract(x)
    b = x.b
    huge = abs(x) >= _BOUND[x.type]
    cells = [b.cell(part.value) for part in fast]
    slow, after = b.new_label("huge"), b.new_label("reduced")
    b.branch(b.any_lane(huge.value), slow, after)
    b.at(slow)
    if x.type == "float":
        precise = _through_double(x)
    else:
        precise = _lane_by_lane(x, cells, huge)
    for cell, old, new in zip(cells, fast, precise, strict=True):
        b.store(huge.where(new, old).value, cell)
    b.jump(after)
    b.at(after)
    head, tail, quarter = (
        Number(b, b.load(cell, part.type, part.value.lanes))
        for cell, part in zip(cells, fast, strict=True)
    )
    return head + (x - x), tail, quarter


def _subtract(x: Number) -> tuple[Number, Number, Number]:
    tables = math_coefficients.FLOAT if x.type == "float" else math_coefficients.DOUBLE
    first, second, third = tables["HALF_PI"]
    whole, quarter = (x * (1.0 / (first + second))).whole()
    rest = (-whole).fma(first, x)
    product, error = two_product(whole, second)
    head, lost = two_sum(rest, -product)
    low = (-whole).fma(third, lost - error)
    head, low = quick_two_sum(head, low)
    return head, low, quarter


def _through_double(x: Number) -> tuple[Number, Number, Number]:
    head, low, quarter = reduce_half_pi(x.convert("double"))
    short = head.convert("float")
    rest = (head - short.convert("double") + low).convert("float")
    b = x.b
    return short, rest, Number(b, b.cast("trunc", quarter.value, "i32"))


def _lane_by_lane(x: Number, cells: list[Value], huge: Number) -> tuple[Number, Number, Number]:
    """The huge lanes of doubles, each by a call of the slow function."""
    b, lanes = x.b, x.value.lanes
    _support(b)
    if not lanes:
        parts = _call(b, x.value)
        return Number(b, parts[0]), Number(b, parts[1]), Number(b, parts[2])
    found = [b.alloca(f"<{lanes} x {t}>") for t in ("double", "double", "i64")]
    types = ("double", "double", "i64")
    for cell, source, type_ in zip(found, cells, types, strict=True):
        b.store(b.load(source, type_, lanes), cell)
    count = b.cell(integer(0))
    loop, call = b.new_label("lane"), b.new_label("call")
    following, done = b.new_label("next"), b.new_label("lanes_done")
    b.jump(loop)
    b.at(loop)
    lane = b.load(count, "i64")
    b.branch(b.extract(huge.value, lane), call, following)
    b.at(call)
    for cell, type_, part in zip(found, types, _call(b, b.extract(x.value, lane)), strict=True):
        b.store(b.insert(b.load(cell, type_, lanes), part, lane), cell)
    b.jump(following)
    b.at(following)
    after = b.binary("add", lane, integer(1))
    b.store(after, count)
    b.branch(b.compare("icmp slt", after, integer(lanes)), loop, done)
    b.at(done)
    head, low, quarter = (
        Number(b, b.load(cell, type_, lanes)) for cell, type_ in zip(found, types, strict=True)
    )
    return head, low, quarter


def _call(b: Builder, x: Value) -> list[Value]:
    triple = "{ double, double, i64 }"
    result = b.emit(f"call {triple} @{_SLOW}({x})", triple)
    types = ("double", "double", "i64")
    return [b.emit(f"extractvalue {triple} {result.text}, {k}", t) for k, t in enumerate(types)]


def _support(b: Builder) -> None:
    """Write the slow function once a module.

    With x = m * 2**e the bits of 2/pi of weight 2**(2-e) and more only add whole turns to the
    product; the 192 bits that follow leave 75 good ones at the worst cancellation (62 bits).
    """
    if _SLOW in b.support:
        return
    b.declare("i192 @llvm.ctlz.i192(i192, i1)")
    b.declare("double @llvm.fma.f64(double, double, double)")
    digits = math_coefficients.TWO_OVER_PI
    words = [0, *(int(digits[k : k + 16], 16) for k in range(0, len(digits), 16)), 0, 0, 0]
    listed = ", ".join(f"i64 {integer(w).text}" for w in words)
    first, second = math_coefficients.DOUBLE["HALF_PI"][:2]
    b.support[_SLOW] = _SLOW_TEXT.format(
        name=_SLOW,
        count=len(words),
        words=listed,
        head=floating(first, "double").text,
        tail=floating(second, "double").text,
    )


_SLOW_TEXT = """@{name}_bits = internal constant [{count} x i64] [{words}], align 64
define internal {{ double, double, i64 }} @{name}(double %x) noinline cold {{
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %biased = and i64 %field, 2047
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  %start = sub i64 %biased, 1013
  %word = lshr i64 %start, 6
  %skip = and i64 %start, 63
  %p0 = getelementptr i64, ptr @{name}_bits, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %w0 = load i64, ptr %p0
  %w1 = load i64, ptr %p1
  %w2 = load i64, ptr %p2
  %w3 = load i64, ptr %p3
  %z0 = zext i64 %w0 to i256
  %z1 = zext i64 %w1 to i256
  %z2 = zext i64 %w2 to i256
  %z3 = zext i64 %w3 to i256
  %s0 = shl i256 %z0, 192
  %s1 = shl i256 %z1, 128
  %s2 = shl i256 %z2, 64
  %o0 = or i256 %s0, %s1
  %o1 = or i256 %s2, %z3
  %all = or i256 %o0, %o1
  %skip.w = zext i64 %skip to i256
  %left = shl i256 %all, %skip.w
  %high = lshr i256 %left, 64
  %window = trunc i256 %high to i192
  %m = zext i64 %mantissa to i192
  %product = mul i192 %window, %m
  %half = shl i192 1, 189
  %up = add i192 %product, %half
  %quarter.w = lshr i192 %up, 190
  %quarter = trunc i192 %quarter.w to i64
  %whole = shl i192 %quarter.w, 190
  %rest = sub i192 %product, %whole
  %below = icmp slt i192 %rest, 0
  %minus = sub i192 0, %rest
  %size = select i1 %below, i192 %minus, i192 %rest
  %nonzero = or i192 %size, 1
  %zeros = call i192 @llvm.ctlz.i192(i192 %nonzero, i1 true)
  %normal = shl i192 %nonzero, %zeros
  %top.w = lshr i192 %normal, 128
  %top = trunc i192 %top.w to i64
  %next.w = lshr i192 %normal, 64
  %next = trunc i192 %next.w to i64
  %top.high = and i64 %top, -2048
  %top.low = and i64 %top, 2047
  %low.a = shl i64 %top.low, 53
  %low.b = lshr i64 %next, 11
  %low = or i64 %low.a, %low.b
  %zeros.n = trunc i192 %zeros to i64
  %e.high = sub i64 961, %zeros.n
  %e.low = sub i64 908, %zeros.n
  %b.high = shl i64 %e.high, 52
  %b.low = shl i64 %e.low, 52
  %scale.high = bitcast i64 %b.high to double
  %scale.low = bitcast i64 %b.low to double
  %f.high = uitofp i64 %top.high to double
  %f.low = uitofp i64 %low to double
  %high.f = fmul double %f.high, %scale.high
  %low.f = fmul double %f.low, %scale.low
  %r = fmul double %high.f, {head}
  %r.minus = fneg double %r
  %r.lost = call double @llvm.fma.f64(double %high.f, double {head}, double %r.minus)
  %r.tail = call double @llvm.fma.f64(double %high.f, double {tail}, double %r.lost)
  %r.low = call double @llvm.fma.f64(double %low.f, double {head}, double %r.tail)
  %sum = fadd double %r, %r.low
  %back = fsub double %sum, %r
  %sum.low = fsub double %r.low, %back
  %negative = icmp slt i64 %bits, 0
  %flip = xor i1 %below, %negative
  %sum.minus = fneg double %sum
  %low.minus = fneg double %sum.low
  %head = select i1 %flip, double %sum.minus, double %sum
  %tail = select i1 %flip, double %low.minus, double %sum.low
  %quarter.minus = sub i64 0, %quarter
  %turns = select i1 %negative, i64 %quarter.minus, i64 %quarter
  %i0 = insertvalue {{ double, double, i64 }} poison, double %head, 0
  %i1 = insertvalue {{ double, double, i64 }} %i0, double %tail, 1
  %i2 = insertvalue {{ double, double, i64 }} %i1, i64 %turns, 2
  ret {{ double, double, i64 }} %i2
}}
"""
