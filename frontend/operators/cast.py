"""Conversion between element types."""

from __future__ import annotations

from weft.frontend.operators.broadcast import elementwise
from weft.frontend.operators.registry import operator
from weft.ir import dtypes
from weft.ir.build import minimum
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, apply, bitcast, literal, select
from weft.ir.tensor_expr import Tensor


@operator("cast")
def cast(x: Tensor, *, to: DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """``x`` in dtype ``to``; ``round_mode`` ('up', 'down', 'nearest') is that of float8_e8m0fnu."""

    def body(value: Expr) -> Expr:
        if to == dtypes.float8_e8m0fnu and value.dtype != to:
            return _power_of_two(value, saturate, round_mode)
        if value.dtype.is_float and to.is_integer and to.bits < 8:
            value = value.astype(dtypes.int32)  # out of range, ONNX wraps these as integers do
        return value.astype(to, saturate=saturate)

    return elementwise("cast", body, x)


@operator("bit_cast")
def bit_cast(x: Tensor, *, to: DType) -> Tensor:
    """The bits of ``x`` read as ``to``, which must be as wide; ``ExpressionError`` (E0105)."""
    return elementwise("bit_cast", lambda v: bitcast(v, to), x)


def _power_of_two(value: Expr, saturate: bool, round_mode: str) -> Expr:
    """``value`` rounded to a power of two: code e stands for 2**(e - 127), 255 for NaN.

    ``floor`` is the greatest such power that is not above |value|, or the least power of all.
    Not saturating, what is out of range becomes NaN.
    """
    if round_mode not in ("up", "down", "nearest"):
        raise ExpressionError(
            "WEFT-E0183",
            f"cast to float8_e8m0fnu with round_mode {round_mode!r}",
            hint="one of 'up', 'down', 'nearest'",
        )
    x = abs(value.astype(dtypes.float32))
    exponent = bitcast(x, dtypes.uint32) >> 23
    least = literal(0x400000, dtypes.uint32)  # 2**-127 is subnormal in float32
    floor = bitcast(select(exponent.equal(0), least, exponent << 23), dtypes.float32)
    rounds_up = {"up": x > floor, "nearest": x >= floor * 1.5, "down": literal(False, "bool")}
    code = exponent + rounds_up[round_mode].astype(dtypes.uint32)
    if saturate:
        code = select(apply("isnan", x), literal(255, dtypes.uint32), minimum(code, 254))
    else:
        code = select(x < floor, literal(255, dtypes.uint32), minimum(code, 255))
    return bitcast(code.astype(dtypes.uint8), dtypes.float8_e8m0fnu)
