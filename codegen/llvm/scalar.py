"""Scalar operators in LLVM IR, with the semantics of ``scalar_expr``.

Values have the types of ``builder.register_type``: bools as ``i1``, integers below 8 bits wrapped
in an ``i8``, floats below 32 bits as an exact ``float``. Every function takes scalars and vectors.
Nothing traps, and no library function is called.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen import math_values
from weft.codegen.llvm import integers
from weft.codegen.llvm.builder import Builder, Value, floating, integer, register_type
from weft.codegen.llvm.division import divide_by_constant
from weft.codegen.llvm.small_floats import (
    decode,
    encode,
    has_negatives,
    is_small,
    round_to,
    round_to_odd,
)
from weft.codegen.math_functions import FUNCTIONS
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Number

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_INTRINSIC = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven", "sqrt": "sqrt",
    "abs": "fabs", "copysign": "copysign",
}  # fmt: skip
_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


@dataclass(frozen=True, slots=True)
class ScalarOps:
    """``half``: the target has float16 conversions; ``contract``: a*b+c may be fused; ``fma``: the
    target has fused multiply-add."""

    b: Builder
    half: bool = True
    contract: bool = True
    fma: bool = True

    @property
    def quick_division(self) -> bool:
        """Whether quotients near the least normal number may be off by one ulp (``division``)."""
        return self.fma and self.contract

    def literal(self, value: Number, dtype: DType) -> Value:
        if dtype.is_float:
            rounded = dtype.numpy.type(value) if is_small(dtype) else value
            return floating(float(rounded), register_type(dtype))
        return integer(int(value), register_type(dtype))

    def load_bits(self, stored: Value, dtype: DType) -> Value:
        """A stored element as a register value."""
        if dtype.kind == "bool":
            return self.b.compare("icmp ne", stored, integer(0, "i8"))
        if is_small(dtype):
            return decode(self.b, stored, dtype, self.half)
        return self._wrap(stored, dtype) if dtype.bits < 8 else stored

    def store_bits(self, value: Value, dtype: DType) -> Value:
        """A register value as the element that a buffer holds."""
        if dtype.kind == "bool":
            return self.b.cast("zext", value, "i8")
        if is_small(dtype):
            return encode(self.b, value, dtype, self.half)
        if dtype.bits < 8:
            return self.b.binary("and", value, integer((1 << dtype.bits) - 1, "i8"))
        return value

    # ---- conversions --------------------------------------------------------------------------

    def cast(self, value: Value, source: DType, target: DType, saturate: bool) -> Value:
        if source == target:
            return value
        b = self.b
        if target.kind == "bool":
            if source.is_float:
                return b.compare("fcmp une", value, floating(0.0, value.type))
            return b.compare("icmp ne", value, integer(0, value.type))
        if target.is_float:
            return self._to_float(value, source, target, saturate and target.bits <= 8)
        if source.is_float:
            return self._float_to_integer(value, target)
        return self._wrap(self._resize(value, source, register_type(target)), target)

    def _to_float(self, value: Value, source: DType, target: DType, saturate: bool) -> Value:
        b, type_ = self.b, register_type(target)
        if not is_small(target):
            if not source.is_float:
                return b.cast("uitofp" if source.kind != "int" else "sitofp", value, type_)
            if value.type == type_:
                return value
            return b.cast("fpext" if type_ == "double" else "fptrunc", value, type_)
        if not source.is_float:
            value = self._integer_to_double(value, source)
        if value.type == "double":
            value = round_to_odd(b, value)
        return round_to(b, value, target, self.half, saturate)

    def _integer_to_double(self, value: Value, source: DType) -> Value:
        """As a double that rounds on to fewer than 32 bits like the integer itself."""
        b = self.b
        signed = source.kind == "int"
        if source.bits == 64:
            # Beyond 2**53 the low bits are sticky: whether the number is a multiple of 2**12.
            low = b.binary("and", value, integer(0x7FF))
            sticky = b.select(b.compare("icmp ne", low, integer(0)), integer(0x800), integer(0))
            coarse = b.binary("or", b.binary("and", value, integer(-0x800)), sticky)
            biased = b.binary("add", value, integer(1 << 53)) if signed else value
            exact = b.compare("icmp ult", biased, integer(1 << (54 if signed else 53)))
            value = b.select(exact, value, coarse)
        return b.cast("sitofp" if signed else "uitofp", value, "double")

    def _float_to_integer(self, value: Value, target: DType) -> Value:
        type_ = register_type(target)
        if value.lanes and target.bits <= 16:
            return self.b.cast("trunc", self._to_small(value, target), type_)
        name = "fptosi.sat" if target.kind == "int" else "fptoui.sat"
        whole = self.b.intrinsic(name, value, result=type_)
        if target.bits >= 8:
            return whole
        prefix = "s" if target.kind == "int" else "u"
        capped = self.b.intrinsic(f"{prefix}min", whole, integer(int(target.highest), type_))
        return self.b.intrinsic(f"{prefix}max", capped, integer(int(target.lowest), type_))

    def _to_small(self, value: Value, target: DType) -> Value:
        """Vectors, saturated to ``target``, of at most 16 bits, and 0 for NaN, in int32: LLVM's own
        saturation to less than that takes them apart."""
        b, type_ = self.b, value.type
        low, high = (floating(float(n), type_) for n in (target.lowest, target.highest))
        if target.kind == "int":  # else NaN, which is above nothing, becomes the least: 0
            value = b.select(b.compare("fcmp uno", value, value), floating(0.0, type_), value)
        value = b.select(b.compare("fcmp ogt", value, low), value, low)
        value = b.select(b.compare("fcmp olt", value, high), value, high)
        return b.cast("fptosi", value, "i32")

    def _resize(self, value: Value, source: DType, type_: str) -> Value:
        old, new = int(value.type[1:]), int(type_[1:])
        if old == new:
            return value
        if new < old:
            return self.b.cast("trunc", value, type_)
        return self.b.cast("sext" if source.kind == "int" else "zext", value, type_)

    def _wrap(self, value: Value, dtype: DType) -> Value:
        """An ``i8`` brought back into the range of a type of fewer bits."""
        if dtype.bits >= 8 or dtype.kind == "bool":
            return value
        if dtype.kind == "uint":
            return self.b.binary("and", value, integer((1 << dtype.bits) - 1, "i8"))
        shift = integer(8 - dtype.bits, "i8")
        return self.b.binary("ashr", self.b.binary("shl", value, shift), shift)

    def bitcast(self, value: Value, source: DType, target: DType) -> Value:
        stored = self.store_bits(value, source)
        element = f"i{target.storage_bits}"
        if stored.type in ("float", "double"):
            stored = self.b.cast("bitcast", stored, element)
        if target.is_float and not is_small(target):
            return self.b.cast("bitcast", stored, register_type(target))
        return self.load_bits(stored, target)

    # ---- operators ----------------------------------------------------------------------------

    def apply(self, op: str, args: list[Value], dtype: DType) -> Value:
        """``op`` on operands of ``dtype``."""
        if dtype.is_float:
            result = self._float(op, args)
            keep = result.type == "i1" or (op in _EXACT and has_negatives(dtype))
            return (
                result
                if keep or not is_small(dtype)
                else round_to(self.b, result, dtype, self.half)
            )
        result = self._integer(op, args, dtype)
        return result if result.type == "i1" else self._wrap(result, dtype)

    def _float(self, op: str, args: list[Value]) -> Value:
        b = self.b
        flag = " contract" if self.contract else ""
        if op == "div" and self.quick_division and args[1].const is not None:
            quotient = divide_by_constant(b, args[0], float(args[1].const))
            if quotient is not None:
                return quotient
        if op in _FLOAT_BINARY:
            return b.binary(_FLOAT_BINARY[op] + flag, *args)
        if op in _COMPARE:
            return b.compare(f"fcmp {_COMPARE[op]}", *args)
        if op in _INTRINSIC:
            return b.intrinsic(_INTRINSIC[op], *args)
        a = args[0]
        match op:
            case "neg":
                return b.negate(a)
            case "min" | "max":
                # Of zeros with different signs, either; NaN if any is. The test of the first
                # operand for NaN is off the critical path of a recurrence through the second.
                return b.intrinsic(f"{op}imum", *args, flags="nsz")
            case "isnan":
                return b.compare("fcmp uno", a, a)
            case "isinf" | "isfinite":
                test = "fcmp oeq" if op == "isinf" else "fcmp one"
                return b.compare(test, b.intrinsic("fabs", a), floating(float("inf"), a.type))
            case "sign":
                one = b.intrinsic("copysign", floating(1.0, a.type), a)
                return b.select(b.compare("fcmp one", a, floating(0.0, a.type)), one, a)
            case "floordiv":
                return b.intrinsic("floor", b.binary("fdiv", *args))
        # A uniform base: what depends on it alone is loop-invariant.
        if (op, a.type) in _INLINE or (op == "pow" and not a.lanes and args[1].lanes):
            return FUNCTIONS[op](*(math_values.Number(b, arg) for arg in args)).value
        return self._called(op, b.match(*args))

    def _called(self, op: str, args: list[Value]) -> Value:
        """A mathematical function out of line, so that a module has its code once."""
        b, type_, lanes = self.b, args[0].type, args[0].lanes
        name = f"weft_{op}_{type_}{lanes or ''}"
        full = args[0].full_type
        if name not in b.support:
            inner = b.nested()
            formal = [Value(f"%x{k}", type_, lanes) for k in range(len(args))]
            result = FUNCTIONS[op](*(math_values.Number(inner, x) for x in formal)).value
            inner.line(f"ret {result}")
            given = ", ".join(map(str, formal))
            b.support[name] = inner.finish(f"internal {full} @{name}({given})")
        return b.emit(f"call {full} @{name}({', '.join(map(str, args))})", type_, lanes)

    def _integer(self, op: str, args: list[Value], dtype: DType) -> Value:
        b, a = self.b, args[0]
        sign = "s" if dtype.kind == "int" else "u"
        if op in _INTEGER_BINARY:
            return b.binary(_INTEGER_BINARY[op], *args)
        if op in ("eq", "ne"):
            return b.compare(f"icmp {op}", *args)
        if op in _COMPARE:
            return b.compare(f"icmp {sign}{op}", *args)
        match op:
            case "min" | "max":
                return b.intrinsic(f"{sign}{op}", *args)
            case "neg":
                return b.binary("sub", integer(0, a.type), a)
            case "not":
                return b.binary("xor", a, integer(1 if a.type == "i1" else -1, a.type))
            case "abs" if sign == "s":
                return b.intrinsic("smax", a, b.binary("sub", integer(0, a.type), a))
            case "abs":
                return a
            case "sign":
                up = b.cast("zext", b.compare(f"icmp {sign}gt", a, integer(0, a.type)), a.type)
                down = b.cast("sext", b.compare(f"icmp {sign}lt", a, integer(0, a.type)), a.type)
                return b.binary("or", up, down)
            case "popcount":
                kept = a if dtype.bits >= 8 else self.store_bits(a, dtype)
                return b.intrinsic("ctpop", kept)
            case "shl" | "shr":
                return integers.shift(b, op, args[0], args[1], dtype)
            case "pow":
                return integers.power(b, args[0], args[1], sign == "s")
        return integers.divide(b, op, args[0], args[1], sign == "s")


# Inlined: short, and common in inner loops.
_INLINE = {(op, "float") for op in ("exp", "exp2", "log", "tanh", "erf")} | {("exp", "double")}
# Exact: operands of a type give results of the type, without rounding.
_EXACT = {"neg", "abs", "min", "max", "sign", "copysign"}
