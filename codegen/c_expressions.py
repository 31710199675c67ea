"""Scalar expressions of loop IR as C99."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import UnsupportedError
from weft.ir.loop_ir import Buffer
from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var, walk

Text = tuple[str, int]  # and how tightly its outermost operator binds

ATOM, UNARY, CHOICE = 15, 14, 3
_INFIX = {
    "mul": ("*", 13), "div": ("/", 13), "add": ("+", 12), "sub": ("-", 12), "lt": ("<", 10),
    "le": ("<=", 10), "gt": (">", 10), "ge": (">=", 10), "eq": ("==", 9), "ne": ("!=", 9),
    "and": ("&", 8), "xor": ("^", 7), "or": ("|", 6), "truncdiv": ("/", 13), "rem": ("%", 13),
}  # fmt: skip
_ROUNDED = {"truncdiv", "rem"}  # C's own, where the divisor is neither 0 nor -1
_LOGICAL = {"and": ("&&", 5), "or": ("||", 4)}
_TIGHT = {6, 7, 8, 9, 10}  # operators that people do not know to bind: always parenthesised
_FUNCTIONS = {  # of math.h; with an f behind for floats of 32 bits
    "abs": "fabs", "round": "rint", "rem": "fmod", "pow": "pow", "atan2": "atan2",
    "copysign": "copysign", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "sqrt": "sqrt",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf",
}  # fmt: skip
_TESTS = ("isnan", "isinf", "isfinite")
_LONGEST = 200_000  # characters of one expression

MATH = frozenset({name + end for name in _FUNCTIONS.values() for end in ("", "f")} | {*_TESTS})
_KEYWORDS = """auto break case char const continue default do double else enum extern float for goto
if inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while bool true false NULL INFINITY NAN asm memcpy aligned_alloc free status
detail size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t"""
_RESERVED = MATH | set(_KEYWORDS.split())


def c_name(name: str, taken: set[str] | frozenset[str] = frozenset()) -> str:
    """``name`` as an identifier of C that is not ``taken``, a keyword or a function of math.h."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    base = f"k_{base}" if base[0].isdigit() else base
    endings = itertools.chain([""], (f"_{n}" for n in itertools.count(2)))
    return next(base + e for e in endings if base + e not in _RESERVED and base + e not in taken)


@dataclass(frozen=True, slots=True)
class Scope:
    """C's names of the variables and of the buffers that can be used here."""

    variables: Mapping[str, str]
    buffers: Mapping[str, tuple[str, Buffer]]

    def taken(self) -> set[str]:
        return {*self.variables.values(), *(name for name, _ in self.buffers.values())}

    def variable(self, name: str, wish: str = "") -> Scope:
        """This scope with ``name`` declared, as ``wish`` if free; it hides nothing in sight."""
        called = c_name(wish or name, self.taken())
        return Scope({**self.variables, name: called}, self.buffers)

    def buffer(self, buffer: Buffer) -> Scope:
        named = (c_name(buffer.name, self.taken()), buffer)
        return Scope(self.variables, {**self.buffers, buffer.name: named})


@dataclass(slots=True)
class Expressions:
    """Prints expressions; ``helpers`` are the functions that they call, by name."""

    element: Callable[[str, list[Text], Scope], Text]  # a load of a buffer at these subscripts
    helpers: dict[str, str] = field(default_factory=dict)

    def text(self, expr: Expr, scope: Scope, level: int = 0) -> str:
        """``expr`` in the names of ``scope``, in parentheses if it binds less than ``level``.

        Raises ``UnsupportedError``: WEFT-E0504 for types that C lacks, WEFT-E0505 if too long.
        """
        return inside(self.part(expr, scope), level)

    def part(self, expr: Expr, scope: Scope) -> Text:
        """``expr`` in the names of ``scope``, and how tightly it binds."""
        texts: dict[int, Text] = {}
        for node in walk(expr):
            text = self._text(node, [texts[id(child)] for child in node.children], scope)
            if len(text[0]) > _LONGEST:
                raise UnsupportedError(
                    "WEFT-E0505",
                    "an expression repeats its parts too often to be written out in C",
                    hint="bind the parts to names of their own",
                )
            texts[id(node)] = text
        return texts[id(expr)]

    def place(self, load: Load, scope: Scope) -> str:
        """``load`` as something to assign to."""
        indices = [self.part(index, scope) for index in load.indices]
        return self.element(str(load.source), indices, scope)[0]

    def _text(self, node: Expr, parts: list[Text], scope: Scope) -> Text:
        match node:
            case Literal(value, dtype):
                return _literal(value, dtype)
            case Var(name):
                return scope.variables[name], ATOM
            case Load(source, _, dtype):
                text = self.element(str(source), parts, scope)
                return _wrapped(text, dtype) if dtype.bits < 8 else text  # other bits are open
            case Apply():
                return self._apply(node, parts)
            case Cast(arg, dtype):
                return self._cast(parts[0], arg.dtype, dtype)
            case Bitcast(arg, dtype):
                name = bits_name(arg.dtype, dtype)
                self.helpers[name] = bits_helper(arg.dtype, dtype)
                return f"{name}({parts[0][0]})", ATOM
            case Select():
                test, yes, no = (inside(p, CHOICE + (k < 2)) for k, p in enumerate(parts))
                return f"{test} ? {yes} : {no}", CHOICE
        raise AssertionError(f"{type(node).__name__} is not a scalar expression")

    def _apply(self, node: Apply, parts: list[Text]) -> Text:
        op, dtype = node.op, node.args[0].dtype
        c_type(dtype)
        if op in _ROUNDED and _divides(node.args[1]):
            return _narrowed(_infix(node, parts), dtype)
        defined = helper(op, dtype)
        if defined is not None:
            name = f"{op}_{suffix(dtype)}"
            self.helpers[name] = defined
            call = f"{name}({', '.join(text for text, _ in parts)})", ATOM
            return _narrowed(call, dtype) if dtype.bits < 8 else call
        if op in _INFIX and op not in _ROUNDED:
            text = _infix(node, parts)
            return text if node.dtype == dtypes.bool_ else _narrowed(text, dtype)
        if op == "neg":
            return _narrowed((f"-{inside(parts[0], ATOM)}", UNARY), dtype)
        if op == "not":
            sign = "!" if dtype == dtypes.bool_ else "~"
            return _narrowed((f"{sign}{inside(parts[0], UNARY)}", UNARY), dtype)
        if op in _TESTS:
            return f"({op}({parts[0][0]}) != 0)", ATOM
        name = _FUNCTIONS[op] + ("f" if dtype == dtypes.float32 else "")
        return f"{name}({', '.join(text for text, _ in parts)})", ATOM

    def _cast(self, part: Text, source: DType, target: DType) -> Text:
        if target == dtypes.bool_:
            return f"{inside(part, 10)} != 0", 9
        if source.is_float and target.is_integer:
            name = cast_name(source, target)
            self.helpers[name] = cast_helper(source, target)
            return f"{name}({part[0]})", ATOM
        return _wrapped(part, target)


def _divides(divisor: Expr) -> bool:
    """Whether ``divisor`` is a whole number but 0 and -1."""
    return (
        isinstance(divisor, Literal)
        and divisor.dtype.is_integer
        and int(divisor.value) not in (0, -1)
    )


def inside(part: Text, level: int) -> str:
    """``part`` as an operand of what binds as tightly as ``level``."""
    text, own = part
    return f"({text})" if own < level else text


def _infix(node: Apply, parts: list[Text]) -> Text:
    left, right = parts
    op, dtype = node.op, node.args[0].dtype
    logical = dtype == dtypes.bool_ and op in _LOGICAL
    symbol, level = _LOGICAL[op] if logical else _INFIX[op]
    if all(isinstance(arg, Literal) for arg in node.args) and dtype.is_integer:
        left = (f"({c_type(dtype)}){inside(left, UNARY)}", UNARY)
    if op == "add" and right[1] == UNARY and right[0].startswith("-"):
        op, symbol, right = "sub", "-", (right[0][1:], UNARY)  # a + -b is a - b
    least = level + 1 if op in ("add", "sub", "mul", "div", *_ROUNDED) or logical else UNARY
    if level in _TIGHT:
        least = 11
    first = inside(left, level if least == level + 1 else least)
    return f"{first} {symbol} {inside(right, least)}", level


def _narrowed(text: Text, dtype: DType) -> Text:
    """C computes in int at least: back to the width of ``dtype``."""
    return _wrapped(text, dtype) if dtype.is_integer and dtype.bits < 32 else text


def _wrapped(text: Text, dtype: DType) -> Text:
    if dtype.bits >= 8:
        return f"({c_type(dtype)}){inside(text, UNARY)}", UNARY
    if dtype.kind == "uint":
        return f"(uint8_t)({inside(text, UNARY)} & {(1 << dtype.bits) - 1})", UNARY
    spare = 8 - dtype.bits
    return f"(int8_t)((int8_t)((uint8_t){inside(text, UNARY)} << {spare}) >> {spare})", UNARY


def _literal(value: float, dtype: DType) -> Text:
    if dtype == dtypes.bool_:
        return ("true" if value else "false"), ATOM
    if not dtype.is_float:
        return _whole(int(value), dtype)
    c_type(dtype)
    if math.isnan(value):
        return "NAN", ATOM
    if math.isinf(value):
        return ("INFINITY", ATOM) if value > 0 else ("-INFINITY", UNARY)
    if dtype == dtypes.float32:
        single = np.float32(value)
        if np.isinf(single):
            return _literal(math.copysign(math.inf, value), dtype)
        text = str(single)
        text = (text if "." in text or "e" in text else text + ".0") + "f"
    else:
        text = repr(float(value))
    return text, UNARY if text.startswith("-") else ATOM


def _whole(value: int, dtype: DType) -> Text:
    if dtype.kind == "uint" and dtype.bits >= 32:
        return (f"{value}u" if dtype.bits == 32 else f"UINT64_C({value})"), ATOM
    if value == int(dtype.lowest) and dtype.bits >= 32:
        text = f"(INT64_C({value + 1}) - 1)" if dtype.bits == 64 else f"({value + 1} - 1)"
        return text, ATOM
    return str(value), UNARY if value < 0 else ATOM


# ---- C functions for scalar operations that C's own operators do not mean: flooring division, NaN
# in
# minima, saturating casts. A printed kernel carries those that it uses, as ``static inline``.


C_TYPES = {
    "bool": "bool", "int2": "int8_t", "int4": "int8_t", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint2": "uint8_t", "uint4": "uint8_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip

# T: the type, U: its unsigned twin, S: its suffix, F: the suffix of functions of math.h
_SIGNED = {
    "floordiv": """static inline T floordiv_S(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return (T)(0 - (U)a);
  return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}""",
    "mod": """static inline T mod_S(T a, T b) {
  if (b == 0 || b == -1) return 0;
  return (T)(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
}""",
    "truncdiv": """static inline T truncdiv_S(T a, T b) {
  return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : (T)(a / b);
}""",
    "rem": "static inline T rem_S(T a, T b) { return b == 0 || b == -1 ? 0 : (T)(a % b); }",
    "abs": "static inline T abs_S(T a) { return a < 0 ? (T)(0 - (U)a) : a; }",
    "pow": """static inline T pow_S(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t power = 1, base = (uint64_t)a;
  for (; b > 0; b >>= 1, base *= base) power *= b & 1 ? base : 1;
  return (T)power;
}""",
    "shl": """static inline T shl_S(T a, T b) {
  return b < 0 || b >= BITS ? 0 : (T)((uint64_t)a << b);
}""",
    "shr": """static inline T shr_S(T a, T b) {
  return b < 0 || b >= BITS ? (a < 0 ? -1 : 0) : (T)(a >> b);
}""",
}
_UNSIGNED = {
    "floordiv": "static inline T floordiv_S(T a, T b) { return b == 0 ? 0 : (T)(a / b); }",
    "mod": "static inline T mod_S(T a, T b) { return b == 0 ? 0 : (T)(a % b); }",
    "truncdiv": "static inline T truncdiv_S(T a, T b) { return b == 0 ? 0 : (T)(a / b); }",
    "rem": "static inline T rem_S(T a, T b) { return b == 0 ? 0 : (T)(a % b); }",
    "abs": "static inline T abs_S(T a) { return a; }",
    "pow": """static inline T pow_S(T a, T b) {
  uint64_t power = 1, base = a;
  for (; b > 0; b >>= 1, base *= base) power *= b & 1 ? base : 1;
  return (T)power;
}""",
    "shl": "static inline T shl_S(T a, T b) { return b >= BITS ? 0 : (T)((uint64_t)a << b); }",
    "shr": "static inline T shr_S(T a, T b) { return b >= BITS ? 0 : (T)(a >> b); }",
}
_INTEGER = {
    "min": "static inline T min_S(T a, T b) { return a < b ? a : b; }",
    "max": "static inline T max_S(T a, T b) { return a > b ? a : b; }",
    "sign": "static inline T sign_S(T a) { return (T)((a > 0) - (a < 0)); }",
    "popcount": """static inline T popcount_S(T a) {
  T count = 0;
  for (uint64_t bits = (uint64_t)a & MASK; bits != 0; bits &= bits - 1) count++;
  return count;
}""",
}
_FLOAT = {
    "min": "static inline T min_S(T a, T b) { return a < b || a != a ? a : b; }",
    "max": "static inline T max_S(T a, T b) { return a > b || a != a ? a : b; }",
    "sign": """static inline T sign_S(T a) {
  return a != a ? a : (T)((a > 0) - (a < 0));
}""",
    "floordiv": "static inline T floordiv_S(T a, T b) { return floorF(a / b); }",
    "mod": """static inline T mod_S(T a, T b) {
  T r = fmodF(a, b);
  return r == 0 ? copysignF(0, b) : (r < 0) != (b < 0) ? r + b : r;
}""",
}


def c_type(dtype: DType) -> str:
    """The C type of an element. Raises ``UnsupportedError`` (WEFT-E0504): C has no such type."""
    if dtype.name not in C_TYPES:
        raise UnsupportedError(
            "WEFT-E0504",
            f"C99 has no arithmetic in {dtype}",
            hint="cast to float32 around what is computed in C",
        )
    return C_TYPES[dtype.name]


def suffix(dtype: DType) -> str:
    """``f64``, ``i32``, ``u8``: what tells the helpers of one dtype from those of another."""
    return {"bool": "bool", "int": "i", "uint": "u", "float": "f"}[dtype.kind] + (
        "" if dtype.kind == "bool" else str(dtype.bits)
    )


def helper(op: str, dtype: DType) -> str | None:
    """The definition of ``op_S`` on operands of ``dtype``; None where C has ``op`` itself."""
    if dtype.is_float:
        text = _FLOAT.get(op)
    else:
        by_sign = _UNSIGNED if dtype.kind in ("uint", "bool") else _SIGNED
        text = _INTEGER.get(op) or by_sign.get(op)
    return None if text is None else _filled(text, dtype)


def cast_helper(source: DType, target: DType) -> str:
    """``target_from_source(x)``: a float truncated and saturated to an integer, NaN to 0."""
    low, high = int(target.lowest), int(target.highest)
    least = f"(-{-low - 1}{'LL' if target.bits == 64 else ''} - 1)" if low else "0"
    most = f"{high}{'ULL' if target.kind == 'uint' else 'LL'}" if target.bits == 64 else f"{high}"
    return f"""static inline {c_type(target)} {cast_name(source, target)}({c_type(source)} x) {{
  if (x != x) return 0;
  if (x >= {float(high + 1)!r}) return {most};
  return x < {float(low)!r} ? {least} : ({c_type(target)})x;
}}"""


def cast_name(source: DType, target: DType) -> str:
    return f"{suffix(target)}_from_{suffix(source)}"


def bits_helper(source: DType, target: DType) -> str:
    """``target_bits_of_source(x)``: the same bits read as another type."""
    if source.bits < 8 or target.bits < 8:
        raise UnsupportedError("WEFT-E0504", f"C99 cannot read the bits of {source} as {target}")
    return f"""static inline {c_type(target)} {bits_name(source, target)}({c_type(source)} x) {{
  {c_type(target)} y;
  memcpy(&y, &x, sizeof y);
  return y;
}}"""


def bits_name(source: DType, target: DType) -> str:
    return f"{suffix(target)}_bits_of_{suffix(source)}"


def _filled(text: str, dtype: DType) -> str:
    """A template with its capitals put in."""
    unsigned = "" if dtype.is_float else C_TYPES[dtype.name].removeprefix("u")
    values = {
        "MASK": f"UINT64_C({(1 << dtype.bits) - 1})",
        "BITS": str(dtype.bits),
        "_S(": f"_{suffix(dtype)}(",
        "F(": "f(" if dtype.bits == 32 else "(",
        "(U)": f"(u{unsigned})",
        "T ": f"{c_type(dtype)} ",
        "(T)": f"({c_type(dtype)})",
    }
    for name, value in values.items():
        text = text.replace(name, value)
    return text
