"""Numbers that write code: arithmetic on a ``Number`` emits LLVM IR, for scalars and vectors alike.

Each operation rounds exactly once, in the order written (no contraction), so that error-free
transformations (two-sum, products split with a fused multiply-add) mean what they say. Python
numbers on either side become literals of the type in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.codegen import math_coefficients
from weft.codegen.llvm.builder import Builder, Value, floating, integer, vector_type

MANTISSA = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}
INTEGER = {"float": "i32", "double": "i64"}


@dataclass(frozen=True, slots=True)
class Number:
    """A float, an integer or a truth value, in one lane or many."""

    b: Builder
    value: Value

    @property
    def type(self) -> str:
        return self.value.type

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    def literal(self, value: float | int) -> Number:
        """``value`` in this number's type."""
        if self.is_float:
            return Number(self.b, floating(float(value), self.type))
        return Number(self.b, integer(int(value), self.type))

    def _operand(self, other: Number | float) -> Value:
        return other.value if isinstance(other, Number) else self.literal(other).value

    def _binary(self, name: str, other: Number | float) -> Number:
        return Number(self.b, self.b.binary(name, self.value, self._operand(other)))

    def __add__(self, other: Number | float) -> Number:
        return self._binary("fadd" if self.is_float else "add", other)

    def __radd__(self, other: float) -> Number:
        return self.literal(other) + self

    def __sub__(self, other: Number | float) -> Number:
        return self._binary("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: float) -> Number:
        return self.literal(other) - self

    def __mul__(self, other: Number | float) -> Number:
        return self._binary("fmul" if self.is_float else "mul", other)

    def __rmul__(self, other: float) -> Number:
        return self.literal(other) * self

    def __truediv__(self, other: Number | float) -> Number:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Number:
        return self.literal(other) / self

    def __neg__(self) -> Number:
        if self.is_float:
            return Number(self.b, self.b.negate(self.value))
        return 0 - self

    def __and__(self, other: Number | int) -> Number:
        return self._binary("and", other)

    def __or__(self, other: Number | int) -> Number:
        return self._binary("or", other)

    def __xor__(self, other: Number | int) -> Number:
        return self._binary("xor", other)

    def __invert__(self) -> Number:
        return self ^ (1 if self.type == "i1" else -1)

    def __lshift__(self, other: int) -> Number:
        return self._binary("shl", other)

    def __rshift__(self, other: int) -> Number:
        """Arithmetic: the sign comes in from the left."""
        return self._binary("ashr", other)

    def _compare(self, name: str, other: Number | float) -> Number:
        """Comparison with a NaN is false (``ne``: true)."""
        kind = "fcmp" if self.is_float else "icmp"
        prefix = "u" if self.is_float and name == "ne" else "o" if self.is_float else "s"
        prefix = "" if not self.is_float and name in ("eq", "ne") else prefix
        operand = self._operand(other)
        return Number(self.b, self.b.compare(f"{kind} {prefix}{name}", self.value, operand))

    def __lt__(self, other: Number | float) -> Number:
        return self._compare("lt", other)

    def __le__(self, other: Number | float) -> Number:
        return self._compare("le", other)

    def __gt__(self, other: Number | float) -> Number:
        return self._compare("gt", other)

    def __ge__(self, other: Number | float) -> Number:
        return self._compare("ge", other)

    def equals(self, other: Number | float) -> Number:
        return self._compare("eq", other)

    def differs(self, other: Number | float) -> Number:
        return self._compare("ne", other)

    def is_nan(self) -> Number:
        return Number(self.b, self.b.compare("fcmp uno", self.value, self.value))

    def where(self, if_true: Number | float, if_false: Number | float) -> Number:
        """``if_true`` in the lanes where this truth value holds; one side at least a ``Number``."""
        like = if_true if isinstance(if_true, Number) else if_false
        assert isinstance(like, Number)
        a, b = like._operand(if_true), like._operand(if_false)
        return Number(self.b, self.b.select(self.value, a, b))

    # ---- floats as bits -----------------------------------------------------------------------

    def bits(self) -> Number:
        return Number(self.b, self.b.cast("bitcast", self.value, INTEGER[self.type]))

    def from_bits(self) -> Number:
        type_ = "float" if self.type == "i32" else "double"
        return Number(self.b, self.b.cast("bitcast", self.value, type_))

    def to_float(self, type_: str) -> Number:
        """A signed integer, converted."""
        return Number(self.b, self.b.cast("sitofp", self.value, type_))

    def convert(self, type_: str) -> Number:
        """Between ``float`` and ``double``."""
        if type_ == self.type:
            return self
        return Number(
            self.b, self.b.cast("fpext" if type_ == "double" else "fptrunc", self.value, type_)
        )

    # ---- functions that processors have -------------------------------------------------------

    def fma(self, factor: Number | float, addend: Number | float) -> Number:
        """``self * factor + addend``, rounded once."""
        args = self.value, self._operand(factor), self._operand(addend)
        return Number(self.b, self.b.intrinsic("fma", *args))

    def _intrinsic(self, name: str, *others: Number | float) -> Number:
        operands = (self._operand(o) for o in others)
        return Number(self.b, self.b.intrinsic(name, self.value, *operands))

    def __abs__(self) -> Number:
        return self._intrinsic("fabs")

    def sqrt(self) -> Number:
        return self._intrinsic("sqrt")

    def rounded(self) -> Number:
        """To the nearest whole number, ties to even."""
        return self._intrinsic("roundeven")

    def truncated(self) -> Number:
        return self._intrinsic("trunc")

    def copysign(self, sign: Number) -> Number:
        return self._intrinsic("copysign", sign)

    # ---- common shapes ------------------------------------------------------------------------

    def polynomial(self, coefficients: Sequence[float | Number]) -> Number:
        """Horner's scheme, constant coefficient first."""
        last = coefficients[-1]
        total = last if isinstance(last, Number) else self.literal(last)
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total

    def scaled(self, exponent: Number, whole: Number | None = None) -> Number:
        """``self * 2**exponent``, rounded once even if the result is subnormal.

        ``exponent`` is an integer of the float's width, of at most twice the exponent range;
        ``whole``: the same as a float, or more by less than 1, if available, for processors that
        take it.
        """
        quick = None if whole is None else self._scaled_at_once(whole)
        if quick is not None:
            return quick
        half = exponent >> 1
        mantissa, bias = MANTISSA[self.type], BIAS[self.type]
        first = ((half + bias) << mantissa).from_bits()
        second = ((exponent - half + bias) << mantissa).from_bits()
        return self * first * second

    def _scaled_at_once(self, whole: Number) -> Number | None:
        """``self * 2**floor(whole)`` by one instruction, if there is one for these lanes."""
        width = int(INTEGER[self.type][1:])
        lanes = min(self.value.lanes, 512 // width)
        bits = lanes * width
        needed = {512: "avx512f", 256: "avx512vl", 128: "avx512vl"}.get(bits)
        if needed not in self.b.features or self.value.lanes % lanes:
            return None
        full = vector_type(self.type, lanes)
        mask, rounding = f"i{max(8, lanes)}", ", i32" if bits == 512 else ""
        name = f"@llvm.x86.avx512.mask.scalef.{'ps' if self.type == 'float' else 'pd'}.{bits}"
        self.b.declare(f"{full} {name}({full}, {full}, {full}, {mask}{rounding})")
        found = []
        for each, by in zip(
            self.b.parts(self.value, lanes), self.b.parts(whole.value, lanes), strict=True
        ):
            given = f"{each}, {by}, {full} zeroinitializer, {mask} -1"
            given += f"{rounding} 4" if rounding else ""  # as the processor rounds
            found.append(self.b.emit(f"call {full} {name}({given})", self.type, lanes))
        return Number(self.b, self.b.joined(found))

    def whole(self, factor: float = 1.0) -> tuple[Number, Number]:
        """The integer nearest to ``self * factor``, or next to that, as a float and as an integer;
        undefined for NaN and huge values."""
        whole, k, _ = self.nearest(factor)
        return whole, k

    def nearest(self, factor: float = 1.0, parts: int = 1) -> tuple[Number, Number, Number]:
        """The multiple of 1 / ``parts``, a power of two, nearest to ``self * factor``, or next to
        that: as a float; its floor as an integer; and as an integer of which the low bits count
        ``parts``. Undefined for NaN and huge values."""
        magic = self.literal(1.5 * 2.0 ** MANTISSA[self.type] / parts)
        shifted = self + magic if factor == 1.0 else self.fma(factor, magic)
        k = (shifted.bits() - magic.bits()) >> (parts.bit_length() - 1)
        return shifted - magic, k, shifted.bits()


def two_sum(a: Number, b: Number) -> tuple[Number, Number]:
    """The sum and its rounding error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def quick_two_sum(a: Number, b: Number) -> tuple[Number, Number]:
    """As ``two_sum``, for |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Number, b: Number | float) -> tuple[Number, Number]:
    """The product and its rounding error, exactly."""
    product = a * b
    return product, a.fma(b, -product)


# ---- what the mathematical functions share


INFINITY, NAN = float("inf"), float("nan")


def table(x: Number, name: str) -> tuple[float, ...]:
    """The coefficients ``name`` in the precision of ``x``."""
    tables = math_coefficients.FLOAT if x.type == "float" else math_coefficients.DOUBLE
    return tables[name]


def clamped(x: Number, low: float, high: float) -> Number:
    """``x`` clamped to the bounds; NaN is kept."""
    return at_most((x < low).where(low, x), high)


def at_most(x: Number, high: float) -> Number:
    """``x``, at most ``high``; NaN is kept."""
    return (x > high).where(high, x)


def nothing_below(low: float, x: Number, power: Callable[[Number], Number]) -> Number:
    """``power(x)``, but 0 where ``x < low``, which is not passed on: the result would be denormal
    on the way to 0, at a hundred cycles each on some processors."""
    below = x < low
    return below.where(0.0, power(below.where(0.0, x)))
