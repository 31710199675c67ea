"""Scalar expressions of loop IR as C99."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from weft import dtypes
from weft.codegen.c_helpers import (
    bits_helper,
    bits_name,
    c_type,
    cast_helper,
    cast_name,
    helper,
    suffix,
)
from weft.codegen.loop_ir import Buffer
from weft.dtypes import DType
from weft.errors import UnsupportedError
from weft.frontend.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var, walk

Text = tuple[str, int]  # and how tightly its outermost operator binds

ATOM, UNARY, CHOICE = 15, 14, 3
_INFIX = {
    "mul": ("*", 13), "div": ("/", 13), "add": ("+", 12), "sub": ("-", 12), "lt": ("<", 10),
    "le": ("<=", 10), "gt": (">", 10), "ge": (">=", 10), "eq": ("==", 9), "ne": ("!=", 9),
    "and": ("&", 8), "xor": ("^", 7), "or": ("|", 6),
}  # fmt: skip
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
        return inside(texts[id(expr)], level)

    def place(self, load: Load, scope: Scope) -> str:
        """``load`` as something to assign to."""
        indices = [(self.text(index, scope), 0) for index in load.indices]
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
        defined = helper(op, dtype)
        if defined is not None:
            name = f"{op}_{suffix(dtype)}"
            self.helpers[name] = defined
            call = f"{name}({', '.join(text for text, _ in parts)})", ATOM
            return _narrowed(call, dtype) if dtype.bits < 8 else call
        if op in _INFIX:
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
    least = level + 1 if op in ("add", "sub", "mul", "div") or logical else UNARY
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
