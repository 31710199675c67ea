"""Convolution, in any number of spatial dimensions.

The contraction keeps its natural dimensions (n, g, k, spatial…; c, taps…): which of them make a
matrix product is the scheduler's business. Padding is a tensor of its own, so that the
contraction's reads have no guards, and absent where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import (
    accumulator,
    axes_over,
    known,
    require,
    require_rank,
    unify,
)
from weft.frontend.operators.window import Pads, Window, make_window, padded
from weft.ir.build import compute, reshape, sum
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Axis, Size, Tensor

TAPS = "rstuvw"


@operator("conv")
def conv(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    """y[n, g·K+k, o…] = bias + Σ_{c, r…} x[n, g·C+c, o·stride + r·dilation - pad]·w[g·K+k, c, r…].

    ``x`` (n, channels, spatial…), ``w`` (filters, channels / group, kernel…), ``bias`` (filters,);
    ``pads`` are all befores, then all afters, or 'same_upper' or 'same_lower'. Sums of float16 and
    bfloat16 are kept in float32, of small integers in int32, and rounded to x's dtype once. Raises
    ``ExpressionError`` E0150 … E0155 on shapes and attributes that do not fit.
    """
    window = kernel_window(x, w, strides, pads, dilations)
    sums = convolve(x, w, window, group)
    return with_bias(sums, bias, x, name="conv")


def with_bias(sums: Tensor, bias: Tensor | None, x: Tensor, *, name: str) -> Tensor:
    """``sums`` (n, k, spatial…) plus ``bias`` (k,), rounded to the dtype of ``x``."""
    if bias is None and sums.dtype == x.dtype:
        return sums
    if bias is not None:
        require_rank(bias, "the bias of a convolution", 1, 1)
        unify(bias.shape[0], sums.shape[1], "the sizes of bias and filters")

    def body(*index: Axis) -> Expr:
        value = sums[index]
        if bias is not None:
            value = value + cast(bias[index[1]], value.dtype)
        return cast(value, x.dtype)

    return compute(sums.shape, body, name=name)


def kernel_window(
    x: Tensor,
    w: Tensor,
    strides: Sequence[int] | None,
    pads: Pads,
    dilations: Sequence[int] | None,
) -> Window:
    """The window that weights (filters, channels, kernel…) slide over ``x``, ranks checked."""
    require_rank(x, "the input of a convolution", 3)
    require_rank(w, "the weights of a convolution", x.rank, x.rank)
    kernel = [known(size, "a kernel size") for size in w.shape[2:]]
    return make_window(kernel, strides=strides, dilations=dilations, pads=pads, sizes=x.shape[2:])


def group_size(channels: Size, group: int, what: str) -> int:
    """How many of ``channels`` each group has."""
    require(group >= 1, f"group must be at least 1: {group}")
    total = known(channels, f"the number of {what}")
    require(total % group == 0, f"{total} {what} do not split into {group} groups")
    return total // group


def convolve(x: Tensor, w: Tensor, window: Window, group: int) -> Tensor:
    """The sums alone, (n, filters, spatial…) in the accumulator's dtype."""
    outputs = window.outputs(x.shape[2:])
    return slid(padded(x, window.before, window.after, 0), w, window, outputs, group)


def slid(x: Tensor, w: Tensor, window: Window, outputs: Sequence[Size], group: int) -> Tensor:
    """``convolve`` of an ``x`` that is padded already, ``outputs`` in each spatial dimension."""
    require(group >= 1, f"group must be at least 1: {group}")
    if group == 1:
        unify(x.shape[1], w.shape[1], "the channels of input and weights")
        return _sums(x, w, window, (x.shape[0], w.shape[0], *outputs))
    c_group = group_size(x.shape[1], group, "channels")
    k_group = group_size(w.shape[0], group, "filters")
    unify(w.shape[1], c_group, "the channels of a group in input and weights")
    if k_group == 1:
        return _sums(x, w, window, (x.shape[0], group, *outputs), c_group)
    split = _split_sums(x, w, window, (x.shape[0], group, k_group, *outputs), c_group)
    return reshape(split, (x.shape[0], group * k_group, *outputs), name="conv_filters")


def _sums(x: Tensor, w: Tensor, window: Window, shape: Sequence[Size], c_group: int = 0) -> Tensor:
    """(n, k, spatial…): over all channels, or where filter k is group k over its ``c_group``."""
    acc = accumulator(x.dtype)
    c, *taps = axes_over(w.shape[1:], ["c", *TAPS[: window.rank]])

    def body(n: Expr, k: Expr, *out: Expr) -> Expr:
        element = x[(n, k * c_group + c if c_group else c, *window.read(out, taps))]
        return sum(cast(element, acc) * cast(w[(k, c, *taps)], acc), (c, *taps))

    return compute(shape, lambda *i: body(*i), name="conv_sums")


def _split_sums(
    x: Tensor, w: Tensor, window: Window, shape: Sequence[Size], c_group: int
) -> Tensor:
    """(n, g, k, spatial…): over the ``c_group`` channels of group g."""
    acc = accumulator(x.dtype)
    k_group = known(shape[2], "filters of a group")
    c, *taps = axes_over(w.shape[1:], ["c", *TAPS[: window.rank]])

    def body(n: Expr, g: Expr, k: Expr, *out: Expr) -> Expr:
        element = x[(n, g * c_group + c, *window.read(out, taps))]
        weight = w[(g * k_group + k, c, *taps)]
        return sum(cast(element, acc) * cast(weight, acc), (c, *taps))

    return compute(shape, lambda *i: body(*i), name="conv_sums")
