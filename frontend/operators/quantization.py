"""Linear quantisation: integers (or small floats) with a scale and a zero point.

A quantised tensor is an integer tensor; these operators are the explicit arithmetic around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import axes_over, normal_axis, require, unify, wide
from weft.ir import dtypes
from weft.ir.build import compute, max_over, maximum, min_over, minimum, round_even
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Axis, Tensor, as_size, constant_size


@operator("quantize_linear")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    dtype: DType = dtypes.uint8,
    axis: int = 1,
    block_size: int = 0,
    saturate: bool = True,
    precision: DType | None = None,
) -> Tensor:
    """round(x / scale) + zero_point, saturated to ``dtype``; ties to even.

    ``scale`` and ``zero_point`` are scalars, lie along ``axis``, or, with ``block_size``, hold one
    value for that many elements along ``axis``. The division is in ``precision``, else in the
    scale's dtype. Floats of 8 bits are rounded to directly, with ``saturate`` as in a cast.
    """
    for parameter in (scale, zero_point):
        _check_parameter(x, parameter, axis, block_size)
    if precision is None:
        candidates = [t.dtype for t in (scale, x) if t.dtype.is_float and t.dtype.bits > 8]
        precision = candidates[0] if candidates else dtypes.float32

    def body(*i: Axis) -> Expr:
        factor = cast(parameter_at(scale, i, axis, block_size), precision)
        zero = None if zero_point is None else parameter_at(zero_point, i, axis, block_size)
        return quantized(cast(x[i], precision) / factor, zero, dtype, saturate)

    return compute(x.shape, body, name="quantize_linear")


def quantized(value: Expr, zero: Expr | None, dtype: DType, saturate: bool = True) -> Expr:
    """``value``, already divided by the scale, rounded to ``dtype`` around ``zero``."""
    value = wide(value)
    if dtype.is_float:
        if zero is not None:
            value = value + cast(zero, value.dtype)
        return cast(value, dtype, saturate=saturate)
    # The sum is exact where it is not beyond the range anyway: ranges have at most 16 bits.
    value = round_even(value)
    if zero is not None:
        value = value + cast(zero, value.dtype)
    return cast(minimum(maximum(value, float(dtype.lowest)), float(dtype.highest)), dtype)


@operator("dequantize_linear")
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    dtype: DType = dtypes.float32,
    axis: int = 1,
    block_size: int = 0,
) -> Tensor:
    """(x - zero_point) · scale in float32, rounded to ``dtype``; parameters as in quantising."""
    for parameter in (scale, zero_point):
        _check_parameter(x, parameter, axis, block_size)

    def body(*i: Axis) -> Expr:
        zero = None if zero_point is None else parameter_at(zero_point, i, axis, block_size)
        factor = cast(parameter_at(scale, i, axis, block_size), dtypes.float32)
        return cast(cast(shifted(x[i], zero), dtypes.float32) * factor, dtype)

    return compute(x.shape, body, name="dequantize_linear")


@operator("dynamic_quantize_linear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(y, scale, zero point): uint8 over the range of ``x``, which is widened to contain 0."""
    taps = axes_over(x.shape, [f"k{d}" for d in range(x.rank)])
    least = compute((), lambda: minimum(min_over(x[taps], taps), 0.0), name="least")
    greatest = compute((), lambda: maximum(max_over(x[taps], taps), 0.0), name="greatest")
    scale = compute((), lambda: (greatest[()] - least[()]) / 255.0, name="scale")
    zero_point = compute(
        (), lambda: quantized(-least[()] / scale[()], None, dtypes.uint8), name="zero_point"
    )
    return quantize_linear(x, scale, zero_point), scale, zero_point  # type: ignore[return-value]


def shifted(value: Expr, zero: Expr | None) -> Expr:
    """``value - zero`` without overflow: small integers in int32, small floats in float32."""
    acc = value.dtype.compute if value.dtype.is_float else dtypes.int32
    difference = cast(value, acc)
    return difference if zero is None else difference - cast(zero, acc)


def parameter_at(parameter: Tensor, index: Sequence[Expr], axis: int, block_size: int) -> Expr:
    """The scale or zero point that belongs to the element at ``index``."""
    if all(size == 1 for size in parameter.shape):
        return parameter[(0,) * parameter.rank]
    axis = normal_axis(axis, len(index))
    if block_size == 0:
        return parameter[index[axis]]
    return parameter[tuple(i // block_size if d == axis else i for d, i in enumerate(index))]


def _check_parameter(x: Tensor, parameter: Tensor | None, axis: int, block_size: int) -> None:
    require(block_size >= 0, f"block_size must not be negative: {block_size}")
    if parameter is None or all(size == 1 for size in parameter.shape):
        return
    axis = normal_axis(axis, x.rank)
    if block_size == 0:
        require(parameter.rank == 1, f"a scale or zero point has rank {parameter.rank}, not 0 or 1")
        unify(parameter.shape[0], x.shape[axis], "the sizes of scale and quantised axis")
        return
    require(parameter.rank == x.rank, "a blocked scale or zero point must have the rank of x")
    for d, (own, size) in enumerate(zip(parameter.shape, x.shape, strict=True)):
        blocks = (as_size(size) + (block_size - 1)) // block_size if d == axis else size
        known = constant_size(blocks)
        unify(own, blocks if known is None else known, "the blocks of scale and quantised tensor")
