"""Convolutions and matrix products of quantised tensors: sums in int32, then a new scale."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.conv import kernel_window, slid
from weft.frontend.operators.matmul import product_sums
from weft.frontend.operators.quantization import quantized, shifted
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import require, require_rank, unify
from weft.frontend.operators.window import Pads, padded
from weft.ir import dtypes
from weft.ir.build import compute
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Axis, Size, Tensor


@operator("conv_integer")
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    """``conv`` of (x - x_zero_point) and (w - w_zero_point) in int32, padded with zero points.

    ``w_zero_point`` is a scalar or has one value per filter.
    """
    window = kernel_window(x, w, strides, pads, dilations)
    zero = 0 if x_zero_point is None else _channel(x_zero_point, None)
    source = padded(x, window.before, window.after, zero)  # in the dtype of x: products of those
    return slid(
        _difference(source, x_zero_point, None),
        _difference(w, w_zero_point, 0),
        window,
        window.outputs(x.shape[2:]),
        group,
    )


@operator("qlinear_conv")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    """``conv_integer`` plus an int32 bias, scaled and quantised to y_zero_point's dtype."""
    sums = conv_integer(
        x, w, x_zero_point, w_zero_point,
        strides=strides, pads=pads, dilations=dilations, group=group,
    )  # fmt: skip
    assert isinstance(sums, Tensor)
    _check_channels(w_scale, w.shape[0])
    if bias is not None:
        require_rank(bias, "the bias of a convolution", 1, 1)
        unify(bias.shape[0], sums.shape[1], "the sizes of bias and filters")

    def body(*i: Axis) -> Expr:
        value = sums[i] if bias is None else sums[i] + cast(bias[i[1]], dtypes.int32)
        factor = _channel(x_scale, None) * _channel(w_scale, i[1]) / _channel(y_scale, None)
        scaled = cast(value, dtypes.float32) * cast(factor, dtypes.float32)
        return quantized(scaled, _channel(y_zero_point, None), y_zero_point.dtype)

    return compute(sums.shape, body, name="qlinear_conv")


@operator("matmul_integer")
def matmul_integer(
    a: Tensor,
    b: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
) -> Tensor:
    """``matmul`` of (a - a_zero_point) and (b - b_zero_point) in int32.

    Zero points are scalars, one per row of ``a`` or column of ``b``, or broadcast as matrices.
    """
    return product_sums(
        _difference(a, a_zero_point, a.rank - 2), _difference(b, b_zero_point, b.rank - 1)
    )


@operator("qlinear_matmul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """``matmul_integer``, scaled and quantised to y_zero_point's dtype."""
    sums = matmul_integer(a, b, a_zero_point, b_zero_point)
    assert isinstance(sums, Tensor)
    rows = sums.rank - (1 if b.rank == 1 else 2)

    def body(*i: Axis) -> Expr:
        factor = _at(a_scale, i, rows) * _at(b_scale, i, sums.rank - 1)
        factor = factor / _at(y_scale, i, rows)
        scaled = cast(sums[i], dtypes.float32) * cast(factor, dtypes.float32)
        return quantized(scaled, _at(y_zero_point, i, rows), y_zero_point.dtype)

    return compute(sums.shape, body, name="qlinear_matmul")


def _difference(x: Tensor, zero_point: Tensor | None, axis: int | None) -> Tensor:
    """x - zero_point in the type of sums; a vector of zero points lies along ``axis``."""

    def body(*i: Axis) -> Expr:
        zero = None if zero_point is None else _at(zero_point, i, axis)
        return shifted(x[i], zero)

    return compute(x.shape, body, name="shifted")


def _at(parameter: Tensor, index: Sequence[Axis], axis: int | None) -> Expr:
    """The element of a scalar, of a vector along ``axis``, or of a broadcast tensor."""
    what = "the sizes of a tensor and of its scale or zero point"
    if all(size == 1 for size in parameter.shape):
        return parameter[(0,) * parameter.rank]
    if parameter.rank == 1 and axis is not None and axis >= 0:
        unify(parameter.shape[0], index[axis].extent, what)
        return parameter[index[axis]]
    require(parameter.rank == len(index), f"a scale or zero point has rank {parameter.rank}")
    for size, i in zip(parameter.shape, index, strict=True):
        if size != 1:
            unify(size, i.extent, what)
    return parameter[
        tuple(0 if size == 1 else i for size, i in zip(parameter.shape, index, strict=True))
    ]


def _channel(parameter: Tensor, channel: Expr | None) -> Expr:
    if all(size == 1 for size in parameter.shape):
        return parameter[(0,) * parameter.rank]
    require(channel is not None and parameter.rank == 1, "a scale or zero point must be a scalar")
    assert channel is not None
    return parameter[channel]


def _check_channels(parameter: Tensor, channels: Size) -> None:
    if parameter.rank == 1 and parameter.shape[0] != 1:
        unify(parameter.shape[0], channels, "the sizes of scale and filters")
