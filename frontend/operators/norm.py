"""Normalisations: statistics over some dimensions, then an affine map of every element.

Statistics are computed in the type that the dtype is computed in (float32 for float16), the
variance from the differences to the mean (two passes), which does not cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.operators.line import Line
from weft.frontend.operators.pool import lp_norm
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import (
    axes_over,
    known,
    normal_axis,
    require,
    require_rank,
    unify,
    wide,
)
from weft.frontend.operators.window import padded
from weft.ir import dtypes
from weft.ir.build import compute, power, reshape, sqrt, sum
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, cast, select
from weft.ir.tensor_expr import Axis, Tensor


def moments(x: Tensor, line: Line, dtype: DType) -> tuple[Tensor, Tensor]:
    """Mean and variance of ``x`` over the axes of ``line``, in ``dtype``."""
    count = cast(line.count, dtype)
    mean = line.fold("mean", lambda i: cast(x[i], dtype), sum, lambda s: s / count)

    def squared(index: tuple[Expr, ...]) -> Expr:
        difference = cast(x[index], dtype) - mean[line.outer(index)]
        return difference * difference

    return mean, line.fold("variance", squared, sum, lambda s: s / count)


def _inverse_deviation(variance: Tensor, epsilon: float) -> Tensor:
    return compute(
        variance.shape, lambda *i: 1.0 / sqrt(variance[i] + epsilon), name="inverse_deviation"
    )


@operator("batch_norm_coefficients")
def batch_norm_coefficients(
    scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """(a, b) such that a·x + b is (x - mean) / sqrt(variance + epsilon) · scale + bias.

    Apart from ``scale_shift`` because weights are constants: this part folds at compile time.
    """
    _same_shapes(scale, bias, mean, variance)
    factor = compute(
        scale.shape,
        lambda *i: wide(scale[i]) / sqrt(cast(variance[i], scale.dtype.compute) + epsilon),
        name="batch_norm_scale",
    )

    def shift(*i: Expr) -> Expr:
        return cast(bias[i], factor.dtype) - cast(mean[i], factor.dtype) * factor[i]

    return factor, compute(scale.shape, shift, name="batch_norm_shift")


@operator("scale_shift")
def scale_shift(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x · scale + shift; both lie along dimensions 1 … of ``x``."""
    _along_channels(x, scale)
    _same_shapes(scale, shift)
    dtype = _wider(x.dtype.compute, scale.dtype.compute)

    def body(*i: Axis) -> Expr:
        channel = i[1 : 1 + scale.rank]
        product = cast(x[i], dtype) * cast(scale[channel], dtype)
        return cast(product + cast(shift[channel], dtype), x.dtype)

    return compute(x.shape, body, name="scale_shift")


@operator("batch_norm_training")
def batch_norm_training(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(y, running mean, running variance, mean, variance), normalised with x's own statistics.

    Running statistics are old · momentum + current · (1 - momentum); variances are the
    population's. Parameters lie along dimensions 1 … of ``x``: (c,), or one per activation.
    """
    _along_channels(x, scale)
    _same_shapes(scale, bias, mean, variance)
    line = Line(x, [d for d in range(x.rank) if not 1 <= d <= scale.rank])
    own_mean, own_variance = moments(x, line, x.dtype.compute)
    factor, _ = batch_norm_coefficients(scale, bias, own_mean, own_variance, epsilon=epsilon)

    def normalised(*i: Expr) -> Expr:
        """The mean is taken off first: x may be far from 0, and its variance small."""
        channel = i[1 : 1 + scale.rank]
        apart = cast(x[i], factor.dtype) - cast(own_mean[channel], factor.dtype)
        return cast(apart * factor[channel] + cast(bias[channel], factor.dtype), x.dtype)

    def running(old: Tensor, new: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            kept = wide(old[i]) * momentum
            return cast(kept + cast(new[i], kept.dtype) * (1.0 - momentum), old.dtype)

        return compute(old.shape, body, name=f"running_{new.name}")

    y = compute(x.shape, normalised, name="batch_norm")
    own = [_rounded(t, mean.dtype) for t in (own_mean, own_variance)]
    return (y, running(mean, own_mean), running(variance, own_variance), *own)  # type: ignore[return-value]


@operator("layer_norm")
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash: DType = dtypes.float32,
    statistics: bool = False,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) · scale + bias over dimensions ``axis`` …

    Statistics are in ``stash`` (or x's dtype, where that is wider). With ``statistics``, also the
    mean and 1 / deviation with the folded dimensions kept at size 1. ``scale`` and ``bias``
    broadcast to x's shape.
    """
    first = normal_axis(axis, x.rank)
    line = Line(x, range(first, x.rank))
    dtype = _wider(x.dtype.compute, stash)
    mean, variance = moments(x, line, dtype)
    inverse = _inverse_deviation(variance, epsilon)

    def normal(i: tuple[Expr, ...]) -> Expr:
        outer = line.outer(i)
        return (cast(x[i], dtype) - mean[outer]) * inverse[outer]

    y = _affine(x, normal, scale, bias, "layer_norm")
    if not statistics:
        return y
    kept = (*line.outer_shape, *(1,) * (x.rank - first))
    return y, *(
        compute(kept, lambda *i, t=t: cast(t[i[:first]], stash), name=name)
        for t, name in ((mean, "mean_kept"), (inverse, "inverse_deviation_kept"))
    )  # type: ignore[return-value]


@operator("rms_norm")
def rms_norm(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash: DType = dtypes.float32,
) -> Tensor:
    """x / sqrt(mean of x² + epsilon) · scale over dimensions ``axis`` …, squares in ``stash``."""
    line = Line(x, range(normal_axis(axis, x.rank), x.rank))
    dtype = _wider(x.dtype.compute, stash)
    count = cast(line.count, dtype)
    inverse = line.fold(
        "inverse_rms",
        lambda i: cast(x[i], dtype) * cast(x[i], dtype),
        sum,
        lambda s: 1.0 / sqrt(s / count + epsilon),
    )
    return _affine(x, lambda i: cast(x[i], dtype) * inverse[line.outer(i)], scale, None, "rms_norm")


@operator("instance_norm")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalised over the spatial dimensions of each (n, c); ``scale`` and ``bias`` are (c,)."""
    require_rank(x, "the input of an instance normalisation", 3)
    _along_channels(x, scale)
    _same_shapes(scale, bias)
    line = Line(x, range(2, x.rank))
    mean, variance = moments(x, line, x.dtype.compute)
    inverse = _inverse_deviation(variance, epsilon)

    def body(*i: Axis) -> Expr:
        normal = (wide(x[i]) - mean[i[:2]]) * inverse[i[:2]]
        return cast(normal * wide(scale[i[1]]) + wide(bias[i[1]]), x.dtype)

    return compute(x.shape, body, name="instance_norm")


@operator("group_norm")
def group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    groups: int,
    epsilon: float = 1e-5,
    stash: DType = dtypes.float32,
) -> Tensor:
    """Normalised over each group of channels and the spatial dimensions.

    ``scale`` and ``bias`` are (c,), or (groups,) as ONNX had them before opset 21.
    """
    require_rank(x, "the input of a group normalisation", 2)
    channels = known(x.shape[1], "the number of channels")
    require(groups >= 1 and channels % groups == 0, f"{channels} channels in {groups} groups")
    _same_shapes(scale, bias)
    per_group = known(scale.shape[0], "the size of scale") != channels
    unify(scale.shape[0], groups if per_group else channels, "the sizes of scale and groups")
    size, dtype = channels // groups, _wider(x.dtype.compute, stash)
    split = reshape(x, (x.shape[0], groups, size, *x.shape[2:]), name="groups")
    mean, variance = moments(split, Line(split, range(2, split.rank)), dtype)
    inverse = _inverse_deviation(variance, epsilon)

    def body(*i: Axis) -> Expr:
        group = i[1] // size
        parameter = group if per_group else i[1]
        normal = (cast(x[i], dtype) - mean[i[0], group]) * inverse[i[0], group]
        return cast(normal * cast(scale[parameter], dtype) + cast(bias[parameter], dtype), x.dtype)

    return compute(x.shape, body, name="group_norm")


@operator("lp_normalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / (Σ |x|^p)^(1/p) along ``axis``, 0 where the norm is 0."""
    line = Line(x, [axis])
    norm = line.fold("norm", lambda i: x[i], lambda e, taps: lp_norm(e, p, taps))

    def body(*i: Axis) -> Expr:
        length = norm[line.outer(i)]
        return cast(select(length.equal(0), 0, wide(x[i]) / length), x.dtype)

    return compute(x.shape, body, name="lp_normalization")


@operator("lrn")
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """x / (bias + alpha/size · Σ x²)^beta, the sum over ``size`` neighbouring channels."""
    require_rank(x, "the input of a local response normalisation", 2)
    require(size >= 1, f"the size of the neighbourhood must be at least 1: {size}")
    before, none = (size - 1) // 2, [0] * (x.rank - 2)
    source = padded(x, [before, *none], [size - 1 - before, *none], 0)
    (c,) = axes_over([size], ["c"])

    def body(*i: Axis) -> Expr:
        neighbour = wide(source[(i[0], i[1] + c, *i[2:])])
        squares = sum(neighbour * neighbour, c)
        return cast(wide(x[i]) / power(squares * (alpha / size) + bias, beta), x.dtype)

    return compute(x.shape, body, name="lrn")


@operator("mean_variance_norm")
def mean_variance_norm(x: Tensor, *, axes: Sequence[int], epsilon: float = 1e-9) -> Tensor:
    """(x - mean) / (deviation + epsilon) over ``axes``."""
    line = Line(x, axes)
    mean, variance = moments(x, line, x.dtype.compute)

    def body(*i: Axis) -> Expr:
        outer = line.outer(i)
        return cast((wide(x[i]) - mean[outer]) / (sqrt(variance[outer]) + epsilon), x.dtype)

    return compute(x.shape, body, name="mean_variance_norm")


def _affine(
    x: Tensor,
    normal: Callable[[tuple[Expr, ...]], Expr],
    scale: Tensor,
    bias: Tensor | None,
    name: str,
) -> Tensor:
    """``normal`` · scale + bias, both broadcast to x's shape, rounded to its dtype once."""
    for parameter in (scale, bias):
        if parameter is not None:
            fits = broadcast_shape([x.shape, parameter.shape], name) == x.shape
            require(fits, f"a parameter of {name} has more elements than what it scales")

    def body(*i: Axis) -> Expr:
        value = normal(i)
        value = value * cast(at(scale, i, x.shape), value.dtype)
        if bias is not None:
            value = value + cast(at(bias, i, x.shape), value.dtype)
        return cast(value, x.dtype)

    return compute(x.shape, body, name=name)


def _wider(left: DType, right: DType) -> DType:
    return left if left.bits >= right.bits else right


def _same_shapes(first: Tensor, *others: Tensor) -> None:
    for other in others:
        require_rank(other, "a parameter of a normalisation", first.rank, first.rank)
        for a, b in zip(first.shape, other.shape, strict=True):
            unify(a, b, "the sizes of a normalisation's parameters")


def _along_channels(x: Tensor, parameter: Tensor) -> None:
    require_rank(x, "the input of a normalisation", 1 + max(parameter.rank, 1))
    for own, size in zip(parameter.shape, x.shape[1:], strict=False):
        unify(own, size, "the channels of input and parameters")


def _rounded(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else compute(x.shape, lambda *i: cast(x[i], dtype), name=x.name)
