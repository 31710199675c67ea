"""Floats of 16 bits in CUDA C++ without NVIDIA's headers: 16 bits in memory, ``float`` in between.

Every operation is done in ``float`` and rounded to the type, ties to even, as ``scalar_expr`` has
it. A conversion rounds once: of ``float`` the prelude's, which the device does itself, of others
from ``double``, written out here.
"""

from __future__ import annotations

import re

from weft.codegen.c_expressions import (
    ATOM,
    UNARY,
    Expressions,
    Scope,
    Text,
    c_type,
    inside,
    suffix,
)
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Var, literal
from weft.ir.scalar_ops import OPS

_LAYOUTS = {"float16": (10, 15), "bfloat16": (7, 127)}  # bits of the fraction, largest exponent
# M: bits of the fraction, E: the largest exponent, S: the type
_HELPERS = """static inline uint16_t S_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = (uint32_t)(bits >> 48) & 0x8000;
  bits &= UINT64_C(0x7fffffffffffffff);
  if (bits > UINT64_C(0x7ff0000000000000)) return sign | ((2 * E + 1) << M) | (1 << (M - 1));
  const int e = (int)(bits >> 52) - 1023;
  if (e > E) return sign | ((2 * E + 1) << M);
  if (e < -E - M) return sign;
  const int less = 52 - M + (e < 1 - E ? 1 - E - e : 0);
  const uint64_t whole = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x10000000000000);
  const uint64_t rest = whole & ((UINT64_C(1) << less) - 1), half = UINT64_C(1) << (less - 1);
  uint64_t kept = whole >> less;
  kept += rest > half || (rest == half && (kept & 1));
  return sign | (uint32_t)(e < 1 - E ? kept : ((uint64_t)(e - 1 + E) << M) + kept);
}
static inline float S_rounded(double x) { return S_value(S_bits(x)); }"""


def is_small(dtype: DType) -> bool:
    """Whether ``dtype`` is one of these."""
    return dtype.name in _LAYOUTS


def stored_type(dtype: DType) -> str:
    """The C type of an element in memory. Raises ``UnsupportedError`` (WEFT-E0504)."""
    return "uint16_t" if is_small(dtype) else c_type(dtype)


def value_type(dtype: DType) -> str:
    """The C type of a value. Raises ``UnsupportedError`` (WEFT-E0504)."""
    return "float" if is_small(dtype) else c_type(dtype)


class CudaExpressions(Expressions):
    """Expressions with floats of 16 bits among them."""

    def stored(self, dtype: DType, text: str) -> str:
        """``text``, a value, as it lies in memory."""
        return f"{_name(dtype)}_bits({text})" if is_small(dtype) else text

    def bits(self, value: Expr, scope: Scope) -> str:
        """``value``, of 16 bits, as it lies in memory; what rounds it anyway does so once."""
        text, rounded = self.text(value, scope), f"{_name(value.dtype)}_rounded("
        if isinstance(value, Apply | Cast) and text.startswith(rounded):
            text = text[len(rounded) : -1]
        return self.stored(value.dtype, text)

    def _from_double(self, dtype: DType) -> str:
        fraction, exponent = _LAYOUTS[dtype.name]
        text = _HELPERS.replace("S_", f"{_name(dtype)}_")
        text = re.sub(r"\bE\b", str(exponent), re.sub(r"\bM\b", str(fraction), text))
        self.helpers[f"{_name(dtype)}_small"] = text
        return _name(dtype)

    def _text(self, node: Expr, parts: list[Text], scope: Scope) -> Text:
        match node:
            case Load(source, _, dtype) if is_small(dtype):
                place = self.element(str(source), parts, scope)[0]
                return f"{_name(dtype)}_value({place})", ATOM
            case Literal(value, dtype) if is_small(dtype):
                rounded = float(dtype.numpy.type(value))
                return super()._text(literal(rounded, dtypes.float32), parts, scope)
            case Bitcast(arg, dtype) if is_small(dtype):
                same = parts[0][0] if is_small(arg.dtype) else ""
                return same or f"{_name(dtype)}_value((uint16_t)({parts[0][0]}))", ATOM
            case Bitcast(arg, dtype) if is_small(arg.dtype):
                bits = self.stored(arg.dtype, parts[0][0])
                return f"({c_type(dtype)}){bits}", UNARY
        return super()._text(node, parts, scope)

    def _apply(self, node: Apply, parts: list[Text]) -> Text:
        dtype = node.args[0].dtype
        if not is_small(dtype):
            return super()._apply(node, parts)
        text = super()._apply(Apply(node.op, tuple(_wide(arg) for arg in node.args)), parts)
        if OPS[node.op].gives_bool:
            return text
        return f"{_name(dtype)}_rounded({text[0]})", ATOM

    def _cast(self, part: Text, source: DType, target: DType) -> Text:
        if is_small(target) and (is_small(source) or source == dtypes.float32):
            return f"{_name(target)}_rounded({part[0]})", ATOM
        if is_small(target):
            return f"{self._from_double(target)}_rounded((double){inside(part, UNARY)})", ATOM
        return super()._cast(part, dtypes.float32 if is_small(source) else source, target)


def _name(dtype: DType) -> str:
    """What its functions begin with."""
    return "bf16" if dtype.name == "bfloat16" else suffix(dtype)


def _wide(arg: Expr) -> Expr:
    """A stand-in for ``arg``, whose text is known, in float32."""
    return Var("", dtypes.float32) if is_small(arg.dtype) else arg
