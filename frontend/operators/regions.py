"""Pooling of regions of interest, and the sum of overlapping blocks."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.conv import TAPS
from weft.frontend.operators.registry import operator
from weft.frontend.operators.resize import Kernel
from weft.frontend.operators.sampling import Reader
from weft.frontend.operators.sizes import (
    axes_over,
    known,
    require,
    require_rank,
    unify,
    wide,
)
from weft.frontend.operators.window import make_window
from weft.ir import dtypes
from weft.ir.build import all_of, ceil, compute, floor, max_over, maximum, minimum, sum
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size


@operator("roi_align")
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    outputs: tuple[int, int],
    samples: tuple[int, int],
    adaptive: bool = False,
    scale: float = 1.0,
    half_pixel: bool = True,
    mode: str = "avg",
) -> Tensor:
    """Mean (or max) of interpolated samples in each of ``outputs`` bins of each region.

    ``x`` (n, c, h, w), ``rois`` (regions, 4) as x1, y1, x2, y2, times ``scale``. Each bin has
    ``samples`` points; if ``adaptive``, ceil(region / outputs) points, at most ``samples``.
    He et al., 2017.
    """
    require_rank(x, "the input of a region pooling", 4, 4)
    _check_rois(rois, 4)
    require(min(*outputs, *samples) >= 1, f"{outputs} outputs with {samples} samples each")
    require(mode in ("avg", "max"), f"unknown mode {mode!r}")
    taps = axes_over(samples, ["iy", "ix"])
    corners = axes_over([2, 2], ["cy", "cx"])
    kernel, dtype = Kernel("linear"), x.dtype.compute

    def body(roi: Axis, c: Axis, *bins: Axis) -> Expr:
        batch = maximum(minimum(cast(batch_indices[roi], dtypes.int64), as_size(x.shape[0]) - 1), 0)
        read = Reader(lambda i: wide(x[(batch, c, *i)]), x.shape[2:], "border")
        points, outside, counts = [], [], []
        for d in range(2):
            start, size = _span(rois, roi, d, scale, half_pixel, dtype)
            count = ceil(size / float(outputs[d])) if adaptive else literal(samples[d], dtype)
            step = (cast(taps[d], dtype) + 0.5) / maximum(count, 1.0) + cast(bins[d], dtype)
            at = start + step * (size / float(outputs[d]))
            length = cast(as_size(x.shape[2 + d]), dtype)
            outside.append((at < -1.0) | (at > length))
            points.append(maximum(minimum(at, length - 1.0), 0.0))
            counts.append(count)
        gone = outside[0] | outside[1]
        where = all_of([cast(t, dtype) < n for t, n in zip(taps, counts, strict=True)])
        total = maximum(counts[0], 1.0) * maximum(counts[1], 1.0)
        if mode == "avg":
            value = select(gone, 0.0, read.between(points, kernel, corners))
            return cast(sum(value, taps, where=where if adaptive else None) / total, x.dtype)
        # The greatest of the weighted corners, not of their sum, as ONNX has it.
        value = select(gone, 0.0, _weighted(read, points, kernel, corners))
        greatest = max_over(value, (*taps, *corners), where=where if adaptive else None)
        some = (counts[0] > 0.0) & (counts[1] > 0.0)
        return cast(select(some, greatest, 0.0), x.dtype)

    shape = (rois.shape[0], x.shape[1], *outputs)
    return compute(shape, lambda *i: body(*i), name="roi_align")


def _span(
    rois: Tensor, roi: Expr, d: int, scale: float, half_pixel: bool, dtype: dtypes.DType
) -> tuple[Expr, Expr]:
    """Start and size of a region along dimension ``d`` (0: y), in elements."""
    shift = 0.5 if half_pixel else 0.0
    start = cast(rois[roi, 1 - d], dtype) * scale - shift
    end = cast(rois[roi, 3 - d], dtype) * scale - shift
    return start, end - start if half_pixel else maximum(end - start, 1.0)


def _weighted(read: Reader, at: Sequence[Expr], kernel: Kernel, corners: Sequence[Axis]) -> Expr:
    value = read.at([kernel.base(v) + c for v, c in zip(at, corners, strict=True)])
    for v, c in zip(at, corners, strict=True):
        value = value * kernel.weight(v, c)
    return value


@operator("max_roi_pool")
def max_roi_pool(
    x: Tensor, rois: Tensor, *, outputs: tuple[int, int], scale: float = 1.0
) -> Tensor:
    """The greatest element in each of ``outputs`` bins of each region, 0 in empty ones.

    ``rois`` (regions, 5): batch, x1, y1, x2, y2, times ``scale`` and rounded. Girshick, 2015.
    """
    require_rank(x, "the input of a region pooling", 4, 4)
    _check_rois(rois, 5)
    require(min(outputs) >= 1, f"{outputs} outputs")
    taps = axes_over(x.shape[2:], ["h", "w"])

    def body(roi: Axis, c: Axis, *bins: Axis) -> Expr:
        batch = maximum(minimum(cast(rois[roi, 0], dtypes.int64), as_size(x.shape[0]) - 1), 0)
        inside, some = [], []
        for d in range(2):
            low, high = (floor(wide(rois[roi, column]) * scale + 0.5) for column in (2 - d, 4 - d))
            bin_size = maximum(high - low + 1.0, 1.0) / float(outputs[d])
            number = cast(bins[d], bin_size.dtype)
            first = _within(floor(number * bin_size) + low, x.shape[2 + d])
            past = _within(ceil((number + 1.0) * bin_size) + low, x.shape[2 + d])
            inside.append((taps[d] >= first) & (taps[d] < past))
            some.append(first < past)
        greatest = max_over(x[(batch, c, *taps)], taps, where=all_of(inside))
        return select(all_of(some), greatest, 0)

    shape = (rois.shape[0], x.shape[1], *outputs)
    return compute(shape, lambda *i: body(*i), name="max_roi_pool")


def _within(value: Expr, size: Size) -> Expr:
    return maximum(minimum(cast(value, dtypes.int64), as_size(size)), 0)


def _check_rois(rois: Tensor, columns: int) -> None:
    require_rank(rois, "the regions of a region pooling", 2, 2)
    unify(rois.shape[1], columns, "the columns of regions")


@operator("col2im")
def col2im(
    x: Tensor,
    *,
    image: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Tensor:
    """The image whose overlapping blocks, summed, are the columns of ``x``: (n, c, image…).

    ``x`` is (n, c · block elements, blocks); block b lies where a window of that kernel, stride,
    dilation and padding would.
    """
    require_rank(x, "the input of col2im", 3, 3)
    window = make_window(block, strides=strides, dilations=dilations, pads=pads)
    require(
        len(image) == window.rank, f"an image of {len(image)} dimensions, {window.rank} in blocks"
    )
    blocks = [known(b, "the number of blocks") for b in window.outputs(image)]
    area, count = 1, 1
    for size, number in zip(block, blocks, strict=True):
        area, count = area * size, count * number
    rows = known(x.shape[1], "the rows of blocks")
    require(rows % area == 0, f"{rows} rows do not split into blocks of {area} elements")
    unify(x.shape[2], count, "the number of blocks, found and expected,")
    taps = axes_over(block, TAPS[: window.rank])

    def body(n: Axis, c: Axis, *i: Axis) -> Expr:
        inside: list[Expr] = []
        at: Expr = literal(0)
        element: Expr = literal(0)
        for d, tap in enumerate(taps):
            along = i[d] + as_size(window.before[d]) - tap * window.dilations[d]
            number = along // window.strides[d]
            inside += [number >= 0, number < blocks[d]]
            if window.strides[d] > 1:
                inside.append((along % window.strides[d]).equal(0))
            at = at * blocks[d] + number
            element = element * block[d] + tap
        value = wide(x[n, c * area + element, at])
        return cast(sum(value, taps, where=all_of(inside)), x.dtype)

    return compute((x.shape[0], rows // area, *image), lambda *i: body(*i), name="col2im")
