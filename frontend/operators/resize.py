"""Resizing by interpolation, one axis at a time, as ONNX's Resize specifies it.

Where an axis is sampled and with which weights are small tables, operators of their own: with
sizes known they fold at compile time, with symbolic sizes they are computed once per call.
Coordinates are in float64, as in ONNX's reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import axes_over, normal_axis, require, unify, wide
from weft.ir import dtypes
from weft.ir.build import compute, floor, maximum, minimum, round_even, sum
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
RADIUS = {"nearest": 0, "linear": 1, "cubic": 2}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How ``outputs`` positions of an axis lie on its ``size`` inputs.

    ``scale`` is outputs per input, None for exactly outputs / size; ``roi`` is the part of the axis
    that tf_crop_and_resize takes, from 0 to 1.
    """

    size: Size
    outputs: Size
    scale: float | None
    coordinates: str
    roi: tuple[float, float] = (0.0, 1.0)

    def source(self, output: Expr) -> Expr:
        """The coordinate, in inputs, of position ``output``."""
        real = dtypes.float64
        size, outputs = cast(as_size(self.size), real), cast(as_size(self.outputs), real)
        o = cast(output, real)
        scale = outputs / size if self.scale is None else literal(self.scale, real)
        exact = outputs if self.scale is None else scale * size
        match self.coordinates:
            case "half_pixel":
                return (o + 0.5) / scale - 0.5
            case "half_pixel_symmetric":
                return size * 0.5 * (1.0 - outputs / exact) + (o + 0.5) / scale - 0.5
            case "pytorch_half_pixel":
                return select(exact.equal(1.0), -0.5, (o + 0.5) / scale - 0.5)
            case "align_corners":
                return select(exact.equal(1.0), 0.0, o * (size - 1.0) / (exact - 1.0))
            case "asymmetric":
                return o / scale
            case "tf_half_pixel_for_nn":
                return (o + 0.5) / scale
            case _:
                start, end = self.roi
                length = (size - 1.0) * (end - start)
                along = select(exact.equal(1.0), length * 0.5, o * length / (exact - 1.0))
                return along + (size - 1.0) * start


@dataclass(frozen=True, slots=True)
class Kernel:
    """The interpolation: taps ``first`` … ``first + count - 1`` around the coordinate's floor."""

    mode: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    shrink: float = 1.0  # below 1, the kernel is stretched over 1 / shrink inputs

    @property
    def first(self) -> int:
        return math.floor(-RADIUS[self.mode] / self.shrink) + 1 if RADIUS[self.mode] else 0

    @property
    def count(self) -> int:
        return 2 - 2 * self.first if RADIUS[self.mode] else 1

    def base(self, source: Expr) -> Expr:
        """The input that tap 0 is."""
        below = floor(source)
        ratio = source - below
        match self.nearest if self.mode == "nearest" else "floor":
            case "round_prefer_floor":
                up = ratio > 0.5
            case "round_prefer_ceil":
                up = ratio >= 0.5
            case "ceil":
                up = ratio > 0.0
            case _:
                return cast(below, dtypes.int64)
        return cast(below, dtypes.int64) + select(up, literal(1), 0)

    def weight(self, source: Expr, tap: Expr) -> Expr:
        """The weight of ``tap``, before any normalisation."""
        offset = cast(tap + self.first, source.dtype) - (source - floor(source))
        x = abs(offset * self.shrink)
        if self.mode == "linear":
            return maximum(1.0 - x, 0.0)
        a = self.cubic  # Keys, 1981
        inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        outer = ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
        return select(x <= 1.0, inner, select(x < 2.0, outer, 0.0))


@operator("resize_positions")
def resize_positions(*, sampling: Sampling, kernel: Kernel) -> Tensor:
    """(outputs, taps), int64: the input that each tap of each output reads, clamped to the axis."""
    _check(sampling, kernel)

    def body(output: Axis, tap: Axis) -> Expr:
        position = kernel.base(sampling.source(output)) + (tap + kernel.first)
        return maximum(minimum(position, as_size(sampling.size) - 1), 0)

    return compute((sampling.outputs, kernel.count), body, name="positions")


@operator("resize_weights")
def resize_weights(
    *, sampling: Sampling, kernel: Kernel, dtype: DType, exclude_outside: bool = False
) -> Tensor:
    """(outputs, taps): the weight of each tap; those outside the axis are 0 if excluded."""
    _check(sampling, kernel)

    def raw(output: Expr, tap: Expr) -> Expr:
        source = sampling.source(output)
        weight = kernel.weight(source, tap)
        if not exclude_outside:
            return weight
        position = kernel.base(source) + (tap + kernel.first)
        inside = (position >= 0) & (position < as_size(sampling.size))
        return select(inside, weight, 0.0)

    (tap,) = axes_over([kernel.count], ["tap"])
    totals = compute((sampling.outputs,), lambda output: sum(raw(output, tap), tap), name="totals")

    def body(output: Axis, tap: Axis) -> Expr:
        weight = raw(output, tap)
        if exclude_outside or kernel.shrink < 1.0:
            total = totals[output]
            weight = weight / select(total.equal(0.0), 1.0, total)
        return cast(weight, dtype)

    return compute((sampling.outputs, kernel.count), body, name="weights")


@operator("resize_outside")
def resize_outside(*, sampling: Sampling) -> Tensor:
    """(outputs,), bool: whether the coordinate lies outside the axis."""

    def body(output: Axis) -> Expr:
        source = sampling.source(output)
        last = cast(as_size(sampling.size), dtypes.float64) - 1.0
        return (source < 0.0) | (source > last)

    return compute((sampling.outputs,), body, name="outside")


@operator("interpolate")
def interpolate(
    x: Tensor, positions: Tensor, weights: Tensor | None, *, axis: int, dtype: DType | None = None
) -> Tensor:
    """y[…, o, …] = Σ_tap x[…, positions[o, tap], …] · weights[o, tap], in ``dtype`` (or x's).

    Without weights there is one tap, taken as it is. Integers are rounded to even and saturated.
    """
    axis = normal_axis(axis, x.rank)
    result = dtype or x.dtype
    shape = [*x.shape[:axis], positions.shape[0], *x.shape[axis + 1 :]]
    if weights is None:
        unify(positions.shape[1], 1, "the taps of a nearest interpolation")
    else:
        unify(positions.shape[1], weights.shape[1], "the taps of positions and weights")
    (tap,) = axes_over(positions.shape[1:], ["tap"])

    def body(*i: Axis) -> Expr:
        if weights is None:
            return cast(x[(*i[:axis], positions[i[axis], 0], *i[axis + 1 :])], result)
        element = x[(*i[:axis], positions[i[axis], tap], *i[axis + 1 :])]
        total = sum(cast(element, weights.dtype) * weights[i[axis], tap], tap)
        if result.is_integer:
            low, high = float(result.lowest), float(result.highest)
            total = maximum(minimum(round_even(total), high), low)
        return cast(total, result)

    return compute(shape, body, name="interpolate")


@operator("subsample")
def subsample(x: Tensor, *, maps: Sequence[tuple[int, int, int, int, int]]) -> Tensor:
    """``x`` read at quasi-affine positions: output o of an axis is input (o·multiply + add) div by.

    ``maps`` holds (axis, multiply, add, by, outputs) for the axes that change.
    """
    shape, where = list(x.shape), {axis: row for axis, *row in maps}
    for axis, (*_, outputs) in where.items():
        shape[axis] = outputs

    def position(d: int, i: Expr) -> Expr:
        if d not in where:
            return i
        multiply, add, by, _ = where[d]
        return (i * multiply + add) // by

    return compute(
        shape, lambda *i: x[tuple(position(d, e) for d, e in enumerate(i))], name="subsample"
    )


@operator("fill_outside")
def fill_outside(x: Tensor, *outside: Tensor, axes: Sequence[int], value: float) -> Tensor:
    """``value`` where any axis is outside, ``x`` elsewhere."""

    def body(*i: Axis) -> Expr:
        result = wide(x[i])
        for flags, axis in zip(outside, axes, strict=True):
            result = select(flags[i[axis]], value, result)
        return cast(result, x.dtype)

    return compute(x.shape, body, name="fill_outside")


def _check(sampling: Sampling, kernel: Kernel) -> None:
    known = sampling.coordinates in COORDINATES
    require(known, f"unknown coordinates {sampling.coordinates!r}", ", ".join(COORDINATES))
    require(kernel.mode in RADIUS, f"unknown interpolation {kernel.mode!r}", ", ".join(RADIUS))
    require(kernel.nearest in NEAREST, f"unknown rounding {kernel.nearest!r}", ", ".join(NEAREST))
    require(sampling.scale is None or sampling.scale > 0, "a scale must be positive")
    require(kernel.shrink > 0, "a kernel cannot be stretched infinitely")
