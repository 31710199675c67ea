"""Element types: one record per dtype, the single place that knows how NumPy spells them.

A dtype is a record of storage bits and a kind. Arithmetic on types that no CPU computes in
(``float16``, ``bfloat16``, the 8-bit floats) is done in ``compute`` and rounded to the storage
type after every operation, ties to even; integers wrap modulo 2**bits. Types of fewer than 8 bits
are stored one element a byte in buffers; packing is a matter of layout, not of the dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import ml_dtypes
import numpy as np

from weft.ir.errors import ExpressionError

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: ``weft.float32`` or ``weft.f32``, say.

    ``name`` as NumPy has it; ``kind``: "bool", "int", "uint" or "float"; ``bits``: the width of a
    value (``storage_bits``: of its element in a buffer). In a kernel's signature ``f32["N", 4]`` is
    the type of an array; ``f32(x)`` converts a number, an array or an expression. Integers wrap
    modulo 2**bits; floats narrower than 32 bits are computed in float32 and rounded after every
    operation, ties to even.
    """

    name: str
    kind: Kind
    bits: int

    @property
    def storage_bits(self) -> int:
        """Bits of one element in a buffer: whole bytes."""
        return max(8, self.bits)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in a buffer."""
        return self.storage_bits // 8

    @property
    def is_float(self) -> bool:
        """Whether it is one of the floats, however narrow."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is one of the integers, signed or not; bool is none."""
        return self.kind in ("int", "uint")

    @property
    def numpy(self) -> np.dtype:
        """The same as NumPy's dtype; of ``ml_dtypes`` where NumPy has none."""
        return _NUMPY[self.name]

    @property
    def compute(self) -> DType:
        """The type in which arithmetic happens before the result is rounded to this one."""
        return float32 if self.is_float and self.bits < 32 else self

    @property
    def lowest(self) -> int | float:
        """The least value, -inf for floats that have it: the identity of ``max``."""
        if self.kind == "bool":
            return 0
        if self.is_integer:
            return -(1 << (self.bits - 1)) if self.kind == "int" else 0
        return float("-inf") if _has_infinity(self) else float(ml_dtypes.finfo(self.numpy).min)

    @property
    def highest(self) -> int | float:
        """The greatest value, +inf for floats that have it: the identity of ``min``."""
        if self.kind == "bool":
            return 1
        if self.is_integer:
            return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1
        return float("inf") if _has_infinity(self) else float(ml_dtypes.finfo(self.numpy).max)

    def __str__(self) -> str:
        return self.name

    def __getitem__(self, shape: int | str | tuple[int | str, ...]) -> ArrayType:
        """``f64["N", "N"]``, ``f64[3, "N + 1"]``: the type of an array, in a kernel's signature."""
        return ArrayType(self, shape if isinstance(shape, tuple) else (shape,))

    def __iter__(self) -> NoReturn:  # Python would try 0, 1, 2 … for ever
        raise TypeError("a dtype cannot be iterated over")

    def __call__(self, value: Any) -> Any:
        """``value``, a number, an array or an expression, converted to this dtype."""
        if isinstance(value, int | float | np.generic | np.ndarray):
            return np.asarray(value).astype(self.numpy)[()]
        return value.astype(self)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Arrays of ``dtype``; a size is a number, or text that names or computes one."""

    dtype: DType
    shape: tuple[int | str, ...]


def _has_infinity(dtype: DType) -> bool:
    return bool(np.isinf(np.array(np.inf, dtype=np.float32).astype(dtype.numpy).astype(np.float32)))


bool_ = DType("bool", "bool", 8)
int2, int4, int8 = DType("int2", "int", 2), DType("int4", "int", 4), DType("int8", "int", 8)
int16, int32, int64 = (
    DType("int16", "int", 16),
    DType("int32", "int", 32),
    DType("int64", "int", 64),
)
uint2, uint4, uint8 = (
    DType("uint2", "uint", 2),
    DType("uint4", "uint", 4),
    DType("uint8", "uint", 8),
)
uint16, uint32 = DType("uint16", "uint", 16), DType("uint32", "uint", 32)
uint64 = DType("uint64", "uint", 64)
float16, bfloat16 = DType("float16", "float", 16), DType("bfloat16", "float", 16)
float32, float64 = DType("float32", "float", 32), DType("float64", "float", 64)
float8_e4m3fn, float8_e4m3fnuz = (
    DType("float8_e4m3fn", "float", 8),
    DType("float8_e4m3fnuz", "float", 8),
)
float8_e5m2, float8_e5m2fnuz = (
    DType("float8_e5m2", "float", 8),
    DType("float8_e5m2fnuz", "float", 8),
)
float8_e8m0fnu = DType("float8_e8m0fnu", "float", 8)
float4_e2m1fn = DType("float4_e2m1fn", "float", 4)
f16, bf16, f32, f64 = float16, bfloat16, float32, float64
i8, i16, i32, i64 = int8, int16, int32, int64
u8, u16, u32, u64 = uint8, uint16, uint32, uint64

ALL: tuple[DType, ...] = (
    bool_, int2, int4, int8, int16, int32, int64, uint2, uint4, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2,
    float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn,
)  # fmt: skip

_NUMPY: dict[str, np.dtype] = {d.name: np.dtype(getattr(ml_dtypes, d.name, d.name)) for d in ALL}
_BY_NUMPY: dict[np.dtype, DType] = {_NUMPY[d.name]: d for d in ALL}
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL} | {
    "f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64,
    "i8": int8, "i16": int16, "i32": int32, "i64": int64,
    "u8": uint8, "u16": uint16, "u32": uint32, "u64": uint64,
}  # fmt: skip


def as_dtype(spec: DType | str | type | np.dtype) -> DType:
    """The dtype that ``spec`` names: a ``DType``, its name, or a NumPy dtype.

    Raises ``ExpressionError`` (WEFT-E0110) where there is none.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    try:
        return _BY_NUMPY[np.dtype(spec)]
    except (KeyError, TypeError, ValueError):
        names = ", ".join(dtype.name for dtype in ALL)
        raise ExpressionError(
            "WEFT-E0110", f"there is no dtype {spec!r}", hint=f"dtypes: {names}"
        ) from None
