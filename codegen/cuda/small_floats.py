"""Floats of 16 bits in CUDA C++ without NVIDIA's headers: 16 bits in memory, ``float`` in between.

Every operation is done in ``float`` and rounded to the type, ties to even, as ``scalar_expr`` has
it; a conversion rounds once, from ``double``.
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
from weft.ir.scalar_expr import Apply, Bitcast, Expr, Literal, Load, Var, literal
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
static inline float S_value(uint16_t bits) {
  const int e = (bits >> M) & (2 * E + 1), m = bits & ((1 << M) - 1);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (e == 2 * E + 1) return m ? NAN : sign * INFINITY;
  return sign * ldexpf((float)(e ? m + (1 << M) : m), (e ? e : 1) - E - M);
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
        return f"{self._helper(dtype)}_bits({text})" if is_small(dtype) else text

    def _helper(self, dtype: DType) -> str:
        fraction, exponent = _LAYOUTS[dtype.name]
        name = suffix(dtype) if dtype.name == "float16" else "bf16"
        text = _HELPERS.replace("S_", f"{name}_")
        text = re.sub(r"\bE\b", str(exponent), re.sub(r"\bM\b", str(fraction), text))
        self.helpers[f"{name}_small"] = text
        return name

    def _text(self, node: Expr, parts: list[Text], scope: Scope) -> Text:
        match node:
            case Load(source, _, dtype) if is_small(dtype):
                place = self.element(str(source), parts, scope)[0]
                return f"{self._helper(dtype)}_value({place})", ATOM
            case Literal(value, dtype) if is_small(dtype):
                rounded = float(dtype.numpy.type(value))
                return super()._text(literal(rounded, dtypes.float32), parts, scope)
            case Bitcast(arg, dtype) if is_small(dtype):
                same = parts[0][0] if is_small(arg.dtype) else ""
                return same or f"{self._helper(dtype)}_value((uint16_t)({parts[0][0]}))", ATOM
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
        return f"{self._helper(dtype)}_rounded({text[0]})", ATOM

    def _cast(self, part: Text, source: DType, target: DType) -> Text:
        if is_small(target):
            return f"{self._helper(target)}_rounded((double){inside(part, UNARY)})", ATOM
        return super()._cast(part, dtypes.float32 if is_small(source) else source, target)


def _wide(arg: Expr) -> Expr:
    """A stand-in for ``arg``, whose text is known, in float32."""
    return Var("", dtypes.float32) if is_small(arg.dtype) else arg
