"""C functions for scalar operations that C's own operators do not mean: flooring division, NaN in
minima, saturating casts. A printed kernel carries those that it uses, as ``static inline``.
"""

from __future__ import annotations

from weft.dtypes import DType
from weft.errors import UnsupportedError

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
