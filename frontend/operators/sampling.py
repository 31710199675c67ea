"""Reading between the elements: grids, deformed windows, regions of interest.

Coordinates come from data, so every read is at an index clamped to its dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontend.operators.conv import TAPS, group_size, kernel_window, with_bias
from weft.frontend.operators.registry import operator
from weft.frontend.operators.resize import Kernel
from weft.frontend.operators.sizes import axes_over, require, require_rank, unify, wide
from weft.frontend.operators.window import Pads, Window
from weft.ir.build import (
    all_of,
    compute,
    maximum,
    minimum,
    round_even,
    sum,
)
from weft.ir.dtypes import bool_, float32, float64, uint8
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

PADDINGS = ("zeros", "border", "reflection")
FAR = float(1 << 30)  # coordinates beyond it are as good as infinite


@operator("grid_sample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """``x`` (n, c, spatial…) at ``grid`` (n, outputs…, dimensions), coordinates from -1 to 1.

    The last coordinate of the grid is that of the first spatial dimension. -1 and 1 are the
    centres of the corner elements (``align_corners``) or their outer edges. ``mode`` is 'nearest'
    (ties to even), 'linear' or 'cubic'; ``padding`` says what lies outside: 'zeros', the 'border',
    or a 'reflection' at -1 and 1. What is interpolated is so in the wider of the types of ``x`` and
    the grid, whole numbers in that of the grid.
    """
    rank = x.rank - 2
    require_rank(x, "the input of a grid sampling", 3)
    require_rank(grid, "the grid of a grid sampling", x.rank, x.rank)
    unify(x.shape[0], grid.shape[0], "the batches of input and grid")
    unify(grid.shape[-1], rank, "the coordinates of the grid and spatial dimensions")
    require(mode in ("nearest", "linear", "cubic"), f"unknown interpolation {mode!r}")
    require(padding in PADDINGS, f"unknown padding {padding!r}", ", ".join(PADDINGS))
    sizes, kernel = x.shape[2:], Kernel(mode, "floor")

    def coordinate(n: Expr, *rest: Expr) -> Expr:
        """Element (n, outputs…, d): in elements of dimension d, rounded if only one is read."""
        value: Expr = literal(0, grid.dtype.compute)
        for d in range(rank):
            at = _denormal(wide(grid[(n, *rest[:-1], rank - 1 - d)]), sizes[d], align_corners)
            if mode == "cubic" and padding == "border":
                at = _into_border(at, sizes[d], align_corners)
            value = at if rank == 1 else select(rest[-1].equal(d), at, value)
        return round_even(value) if mode == "nearest" else value

    points = compute(grid.shape, lambda *i: coordinate(*i), name="coordinates")
    taps = axes_over([kernel.count] * rank, TAPS[:rank])
    between = float64 if float64 in (x.dtype, grid.dtype) else float32
    number = uint8 if x.dtype == bool_ else x.dtype.compute
    kind = number if mode == "nearest" else between

    def body(n: Expr, c: Expr, *out: Expr) -> Expr:
        at = [cast(points[(n, *out, d)], between) for d in range(rank)]
        read = Reader(lambda i: cast(x[(n, c, *i)], kind), sizes, padding, align_corners)
        return cast(read.between(at, kernel, taps), x.dtype)

    return compute((*x.shape[:2], *grid.shape[1:-1]), lambda *i: body(*i), name="grid_sample")


@operator("affine_grid")
def affine_grid(theta: Tensor, *, sizes: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid (n, outputs…, d) for ``grid_sample`` that ``theta`` (n, d, d + 1) maps ``sizes`` to.

    ``sizes`` are those of the outputs' dimensions; each is cut into as many cells from -1 to 1, of
    which the grid has the centres, or the ends (``align_corners``; -1 if there is one).
    """
    rank = len(sizes)
    require(rank in (2, 3), f"a grid of {rank} dimensions, must be 2 or 3")
    require_rank(theta, "the maps of an affine grid", 3, 3)
    unify(theta.shape[1], rank, "the rows of a map and its coordinates")
    unify(theta.shape[2], rank + 1, "the columns of a map and its coordinates")

    def place(i: Expr, size: int) -> Expr:
        at = cast(i, theta.dtype.compute) * 2.0
        return at / float(max(size - 1, 1)) - 1.0 if align_corners else (at + 1.0) / size - 1.0

    def body(n: Expr, *rest: Expr) -> Expr:
        *out, row = rest
        value = wide(theta[n, row, rank])
        for column, (i, size) in enumerate(zip(reversed(out), reversed(sizes), strict=True)):
            value = value + wide(theta[n, row, column]) * place(i, size)
        return cast(value, theta.dtype)

    return compute((theta.shape[0], *sizes, rank), lambda *i: body(*i), name="affine_grid")


class Reader:
    """Reads elements of dimensions ``sizes`` at any integer indices, as ``padding`` says."""

    __slots__ = ("align_corners", "element", "padding", "sizes")

    def __init__(
        self,
        element: Callable[[Sequence[Expr]], Expr],
        sizes: Sequence[Size],
        padding: str,
        align_corners: bool = False,
    ) -> None:
        self.element = element
        self.sizes = sizes
        self.padding = padding
        self.align_corners = align_corners

    def between(self, at: Sequence[Expr], kernel: Kernel, taps: Sequence[Axis]) -> Expr:
        """The interpolated element at the real coordinates ``at``."""
        near = [minimum(maximum(v, -FAR), FAR) for v in at]
        indices = [kernel.base(v) + (tap + kernel.first) for v, tap in zip(near, taps, strict=True)]
        value = self.at(indices)
        if kernel.count == 1:
            return sum(value, taps)
        for v, tap in zip(near, taps, strict=True):
            value = value * kernel.weight(v, tap)
        return sum(value, taps)

    def at(self, indices: Sequence[Expr]) -> Expr:
        """The element at integer ``indices``, which may lie outside."""
        if self.padding == "reflection":
            return self.element([self._reflected(i, s) for i, s in self._pairs(indices)])
        value = self.element([_clamped(i, s) for i, s in self._pairs(indices)])
        if self.padding == "border":
            return value
        inside = all_of([(i >= 0) & (i < as_size(s)) for i, s in self._pairs(indices)])
        return select(inside, value, 0)

    def _pairs(self, indices: Sequence[Expr]) -> list[tuple[Expr, Size]]:
        return list(zip(indices, self.sizes, strict=True))

    def _reflected(self, index: Expr, size: Size) -> Expr:
        """Reflected at the edges, which repeats the edge, or at the centres of the corners."""
        whole = as_size(size) * 2
        if self.align_corners:
            period = whole - 2
            folded = index % period
            return minimum(folded, period - folded)
        folded = index % whole
        return minimum(folded, whole - 1 - folded)


def _denormal(value: Expr, size: Size, align_corners: bool) -> Expr:
    length = cast(as_size(size), value.dtype)
    if align_corners:
        return (value + 1.0) * 0.5 * (length - 1.0)
    return ((value + 1.0) * length - 1.0) * 0.5


def _into_border(at: Expr, size: Size, align_corners: bool) -> Expr:
    """A coordinate beyond the outer edge counts as the last element, before interpolation."""
    last = cast(as_size(size), at.dtype) - 1.0
    margin = 0.0 if align_corners else 0.5
    outside = (at < -margin) | (at > last + margin)
    return select(outside, minimum(maximum(at, 0.0), last), at)


def _clamped(index: Expr, size: Size) -> Expr:
    return maximum(minimum(index, as_size(size) - 1), 0)


@operator("deform_conv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    offset_group: int = 1,
) -> Tensor:
    """``conv`` whose taps are moved by ``offset`` and weighed by ``mask``, both per output.

    ``offset`` is (n, offset groups · taps · dimensions, outputs…), ``mask`` (n, offset groups ·
    taps, outputs…). Elements between are interpolated linearly, outside they are 0. Dai et al.,
    2017; Zhu et al., 2019 (mask).
    """
    window = kernel_window(x, w, strides, pads, dilations)
    per_group = group_size(x.shape[1], offset_group, "channels")
    count = 1
    for size in window.kernel:
        count *= size
    outputs = window.outputs(x.shape[2:])
    _check_offsets(x, offset, outputs, offset_group * count * window.rank)
    if mask is not None:
        _check_offsets(x, mask, outputs, offset_group * count)
    kernel = Kernel("linear")
    corners = axes_over([2] * window.rank, [f"corner{d}" for d in range(window.rank)])

    def sample(n: Expr, c: Expr, *rest: Expr) -> Expr:
        taps, out = rest[: window.rank], rest[window.rank :]
        tap = (c // per_group) * count + _row_major(taps, window.kernel)
        at = []
        for d, start in enumerate(window.read(out, taps)):
            moved = wide(offset[(n, tap * window.rank + d, *out)])
            at.append(cast(start - as_size(window.before[d]), moved.dtype) + moved)
        read = Reader(lambda i: wide(x[(n, c, *i)]), x.shape[2:], "zeros")
        value = read.between(at, kernel, corners)
        return value if mask is None else value * wide(mask[(n, tap, *out)])

    shape = (*x.shape[:2], *window.kernel, *outputs)
    samples = compute(shape, lambda *i: sample(*i), name="samples")
    return with_bias(_contract(samples, w, window, group), bias, x, name="deform_conv")


def _contract(samples: Tensor, w: Tensor, window: Window, group: int) -> Tensor:
    """Σ over channels and taps: a convolution whose windows are laid out side by side."""
    c_group = group_size(samples.shape[1], group, "channels")
    k_group = group_size(w.shape[0], group, "filters")
    unify(w.shape[1], c_group, "the channels of a group in input and weights")
    c, *taps = axes_over(w.shape[1:], ["c", *TAPS[: window.rank]])

    def body(n: Expr, k: Expr, *out: Expr) -> Expr:
        channel = c if group == 1 else (k // k_group) * c_group + c
        weight = cast(w[(k, c, *taps)], samples.dtype)
        return sum(samples[(n, channel, *taps, *out)] * weight, (c, *taps))

    outputs = samples.shape[2 + window.rank :]
    return compute((samples.shape[0], w.shape[0], *outputs), lambda *i: body(*i), name="sums")


def _check_offsets(x: Tensor, given: Tensor, outputs: Sequence[Size], channels: int) -> None:
    require_rank(given, "offsets or mask of a deformable convolution", x.rank, x.rank)
    for own, size in zip(given.shape, (x.shape[0], channels, *outputs), strict=True):
        unify(own, size, "the sizes of offsets or mask, found and expected,")


def _row_major(index: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    flat: Expr = literal(0)
    for i, size in zip(index, sizes, strict=True):
        flat = flat * as_size(size) + i
    return flat
