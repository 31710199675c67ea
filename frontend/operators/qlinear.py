"""Arithmetic on quantised tensors as onnxruntime rounds it: sums, products, means and softmax.

Where onnxruntime adds to a product with one rounding, so do these, on every machine; where it
rounds twice, a product in float64, which is exact, keeps the two roundings apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.frontend.operators.activations import sigmoid
from weft.frontend.operators.broadcast import Shape, at, broadcast_shape
from weft.frontend.operators.conv import TAPS
from weft.frontend.operators.line import Line
from weft.frontend.operators.pool import counted, over_space, pooling_window, windows
from weft.frontend.operators.quantization import quantized, shifted
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import axes_over, require, total_size
from weft.frontend.operators.window import Pads
from weft.ir import dtypes
from weft.ir.build import compute, exp, floor, log, max_over, maximum, reduce, sum
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, Var, cast, literal
from weft.ir.tensor_expr import Axis, Monoid, Tensor

F32, F64 = dtypes.float32, dtypes.float64
LARGEST = 2.0**128 - 2.0**104  # finite float32

_LEFT, _RIGHT = Var("left", F32), Var("right", F32)
IN_ORDER = Monoid("add_in_order", (_LEFT,), (_RIGHT,), (_LEFT + _RIGHT,), (0.0,), frozenset())


@operator("qlinear_add")
def qlinear_add(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """a + b, broadcast and quantised: round(a·ra + (b·rb + fixed)), where ra and rb are the scales
    over y's, and ``fixed`` is what the zero points come to.

    An operand with one element along the innermost dimension of the other is added first.
    """
    shape = broadcast_shape([a.shape, b.shape], "qlinear_add")
    first, second = (a, a_scale, a_zero_point), (b, b_scale, b_zero_point)
    if _repeats(a, shape):
        first, second = second, first
    factors = [_scalar(s, F32) / _scalar(y_scale, F32) for _, s, _ in (first, second)]
    zeros = [_scalar(z, F32) for *_, z in (first, second)]
    offset = _fused(zeros[0], factors[0], zeros[1] * factors[1])
    fixed = compute((), lambda: _scalar(y_zero_point, F32) - offset, name="fixed")

    def body(*i: Axis) -> Expr:
        partial = _fused(at(second[0], i, shape), factors[1], fixed[()])
        return quantized(_fused(at(first[0], i, shape), factors[0], partial), None, a.dtype)

    return compute(shape, body, name="qlinear_add")


@operator("qlinear_mul")
def qlinear_mul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """a · b, broadcast and quantised; the zero point is added before rounding."""
    shape = broadcast_shape([a.shape, b.shape], "qlinear_mul")
    factor = _scalar(a_scale, F32) * _scalar(b_scale, F32) / _scalar(y_scale, F32)

    def body(*i: Axis) -> Expr:
        left = shifted(at(a, i, shape), _zero(a_zero_point))
        right = shifted(at(b, i, shape), _zero(b_zero_point))
        value = _product(left * right, factor) + _scalar(y_zero_point, F32)
        return quantized(value, None, a.dtype)

    return compute(shape, body, name="qlinear_mul")


@operator("qlinear_sigmoid")
def qlinear_sigmoid(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """1 / (1 + exp(-x)), rounded to float32 before it is quantised: a table of 256 values."""
    least = int(x.dtype.lowest)

    def entry(i: Expr) -> Expr:
        whole = cast(i, dtypes.int32) + least - _scalar(x_zero_point, dtypes.int32)
        value = cast(sigmoid(cast(_product(whole, _scalar(x_scale, F32)), F64)), F32)
        return quantized(value / _scalar(y_scale, F32), _zero(y_zero_point), x.dtype)

    table = compute((256,), entry, name="table")

    def body(*i: Axis) -> Expr:
        return _looked_up(table, shifted(x[i], None) - least)

    return compute(x.shape, body, name="qlinear_sigmoid")


@operator("qlinear_average_pool")
def qlinear_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Tensor:
    """The mean under each window in float32, summed in order; the zero point is added before
    rounding. With ``count_include_pad`` every window counts as full."""
    window = pooling_window(x, kernel, strides, pads, dilations)
    padding = literal(0, x.dtype) if x_zero_point is None else _element(x_zero_point)
    source, outputs = windows(x, window, ceil_mode, padding)
    taps = axes_over(window.kernel, TAPS[: window.rank])
    full = literal(math.prod(window.kernel))

    def body(n: Expr, c: Expr, *out: Expr) -> Expr:
        difference = shifted(source[(n, c, *window.read(out, taps))], _zero(x_zero_point))
        (total,) = reduce(IN_ORDER, (_product(difference, _scalar(x_scale, F32)),), taps)
        count = full if count_include_pad else counted(out, x.shape[2:], window, ceil_mode, False)
        value = total / cast(count, F32) / _scalar(y_scale, F32) + _scalar(y_zero_point, F32)
        return quantized(value, None, x.dtype)

    return compute((*x.shape[:2], *outputs), lambda *i: body(*i), name="qlinear_average_pool")


@operator("qlinear_global_average_pool")
def qlinear_global_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    """The mean over all spatial dimensions: a sum in int32, then one scale."""

    def mean(element: Expr, taps: Sequence[Axis]) -> Expr:
        total = sum(shifted(element, _zero(x_zero_point)), taps)
        count = cast(total_size([tap.extent for tap in taps]), F32)
        factor = _scalar(x_scale, F32) / (_scalar(y_scale, F32) * count)
        return quantized(cast(total, F32) * factor, _zero(y_zero_point), x.dtype)

    return over_space(x, mean, "qlinear_global_average_pool")


@operator("qlinear_softmax")
def qlinear_softmax(
    x: Tensor,
    x_scale: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axes: Sequence[int] = (-1,),
) -> Tensor:
    """Softmax over ``axes`` together, by a table of exponentials for the distance from the maximum.

    They are as large as their sum in float32 allows, and floor(1 / y_scale) is what 1 becomes.
    """
    line = Line(x, axes)
    scale = cast(_scalar(x_scale, F32), F64)
    most = literal(LARGEST, F32) / cast(line.count, F32)
    room = compute((), lambda: maximum(log(cast(most, F64)) - 5.0, 0.0) / scale, name="room")
    table = compute(
        (256,), lambda i: cast(exp((cast(i, F64) - 255.0 + room[()]) * scale), F32), name="table"
    )
    greatest = line.fold("softmax_max", lambda index: x[index], max_over)

    def exponential(index: Sequence[Expr]) -> Expr:
        return _looked_up(table, shifted(x[tuple(index)], greatest[line.outer(index)]) + 255)

    total = line.fold(
        "softmax_sum", exponential, lambda value, taps: reduce(IN_ORDER, (value,), taps)[0]
    )

    def body(*i: Axis) -> Expr:
        one = floor(1.0 / _scalar(y_scale, F32))
        value = exponential(i) * one / total[line.outer(i)]
        return quantized(value, _zero(y_zero_point), x.dtype)

    return compute(x.shape, body, name="qlinear_softmax")


def _fused(a: Expr, b: Expr, c: Expr) -> Expr:
    """a·b + c in float32, rounded once."""
    return cast(cast(a, F64) * cast(b, F64) + cast(c, F64), F32)


def _product(a: Expr, b: Expr) -> Expr:
    """The integer ``a`` times ``b``, rounded to float32, whatever is added to it."""
    return cast(cast(a, F64) * cast(b, F64), F32)


def _looked_up(table: Tensor, index: Expr) -> Expr:
    """The entry of 256 at ``index``, which is in range."""
    return table[cast(cast(index, dtypes.uint8), dtypes.int64)]


def _repeats(x: Tensor, shape: Shape) -> bool:
    """Whether ``x`` has one element along the innermost dimension of ``shape`` that has more."""
    own = (*(1,) * (len(shape) - x.rank), *x.shape)
    inner = [mine for mine, size in zip(own, shape, strict=True) if size != 1]
    return bool(inner) and inner[-1] == 1


def _element(parameter: Tensor) -> Expr:
    require(all(size == 1 for size in parameter.shape), "a scale or zero point must be a scalar")
    return parameter[(0,) * parameter.rank]


def _zero(parameter: Tensor | None) -> Expr | None:
    return None if parameter is None else _element(parameter)


def _scalar(parameter: Tensor | None, dtype: DType) -> Expr:
    """A scale or zero point in ``dtype``, 0 where absent."""
    return literal(0, dtype) if parameter is None else cast(_element(parameter), dtype)
