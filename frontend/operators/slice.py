"""Parts of tensors and tensors put together: slices, concatenation, padding, triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add

from weft.frontend.operators.arguments import (
    axis_index,
    expect,
    expect_same,
    replaced,
    without,
)
from weft.frontend.operators.registry import operator
from weft.ir.build import all_of, compute, select
from weft.ir.scalar_expr import Expr, literal
from weft.ir.tensor_expr import Size, Tensor, as_size, constant_size


@operator("strided_slice")
def strided_slice(
    x: Tensor, *, starts: Sequence[Size], steps: Sequence[int], sizes: Sequence[Size]
) -> Tensor:
    """Element i of dimension d is element ``starts[d] + i * steps[d]`` of ``x``."""
    expect(
        len(starts) == len(steps) == len(sizes) == x.rank,
        f"{len(starts)} starts, {len(steps)} steps, {len(sizes)} sizes for {x.rank} dimensions",
        "slice",
    )
    return _sliced(x, starts, steps, sizes)


def _sliced(
    x: Tensor, starts: Sequence[Size], steps: Sequence[int], sizes: Sequence[Size]
) -> Tensor:
    for d in range(x.rank):
        _check_range(x, d, starts[d], steps[d], sizes[d])

    def body(*i: Expr) -> Expr:
        parts = zip(i, starts, steps, strict=True)
        return x[tuple(as_size(start) + e * step for e, start, step in parts)]

    return compute(sizes, body, name="sliced")


def _check_range(x: Tensor, d: int, start: Size, step: int, size: Size) -> None:
    extent, first, count = map(constant_size, (x.shape[d], start, size))
    if extent is None or first is None or count is None or count == 0:
        return
    last = first + step * (count - 1)
    expect(
        min(first, last) >= 0 and max(first, last) < extent,
        f"slice {first} … {last} leaves dimension {d} of size {extent}",
        "slice",
        "WEFT-E0191",
    )


@operator("concat")
def concat(*xs: Tensor, axis: int) -> Tensor:
    """``xs`` one after the other along ``axis``.

    A balanced tree of selects: its depth, and the work per element, grow with log(len(xs)).
    """
    expect(len(xs) > 0, "nothing to concatenate", "concat", "WEFT-E0191")
    axis = axis_index(axis, xs[0].rank, "concat")
    for x in xs[1:]:
        expect_same(without(xs[0].shape, axis), without(x.shape, axis), "concat")
        expect(x.dtype == xs[0].dtype, f"{xs[0].dtype} beside {x.dtype}", "concat", "WEFT-E0192")
    parts = [x for x in xs if constant_size(x.shape[axis]) != 0] or [xs[0]]
    offsets: list[Size] = [0]
    for x in parts:
        offsets.append(add(offsets[-1], x.shape[axis]))

    def element(low: int, high: int, i: tuple[Expr, ...]) -> Expr:
        if high - low == 1:
            return parts[low][replaced(i, axis, i[axis] - offsets[low])]
        middle = (low + high) // 2
        return select(i[axis] < offsets[middle], element(low, middle, i), element(middle, high, i))

    shape = replaced(xs[0].shape, axis, offsets[-1])
    return compute(shape, lambda *i: element(0, len(parts), i), name="joined")


# ---- padding ------------------------------------------------------------------------------------

Pads = Sequence[int]


@operator("pad")
def pad(
    x: Tensor, value: Tensor | None, *, before: Pads, after: Pads, mode: str = "constant"
) -> Tensor:
    """``x`` with ``before[d]`` and ``after[d]`` more elements around dimension d.

    Negative pads remove elements. ``mode`` is 'constant' (``value``, a scalar, or 0), 'edge',
    'reflect' (the edge is not repeated) or 'wrap'; the last three see ``x`` after the removal.
    """
    expect(len(before) == len(after) == x.rank, f"pads for {x.rank} dimensions expected", "pad")
    expect(mode in ("constant", *_SOURCES), f"unknown mode {mode!r}", "pad")
    x = _cropped(x, before, after)
    padded = [d for d in range(x.rank) if before[d] > 0 or after[d] > 0]
    before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    if mode == "constant":
        return _pad_constant(x, value, before, after)
    # Two dimensions at a time: the reads of one element multiply with the dimensions.
    for group in (padded[at : at + 2] for at in range(0, len(padded), 2)):
        x = _pad_from_inside(x, group, before, after, mode)
    return x


def _cropped(x: Tensor, before: Pads, after: Pads) -> Tensor:
    """``x`` without what negative pads take away."""
    if all(p >= 0 for p in (*before, *after)):
        return x
    starts = [max(-b, 0) for b in before]
    cut = [s + max(-a, 0) for s, a in zip(starts, after, strict=True)]
    sizes = [size - c for size, c in zip(x.shape, cut, strict=True)]
    return _sliced(x, starts, [1] * x.rank, sizes)


def _pad_constant(x: Tensor, value: Tensor | None, before: Pads, after: Pads) -> Tensor:
    def body(*i: Expr) -> Expr:
        inside = []
        for d in range(x.rank):
            if before[d]:
                inside.append(i[d] >= before[d])
            if after[d]:
                inside.append(i[d] < as_size(x.shape[d]) + before[d])
        other = literal(0, x.dtype) if value is None else value[(literal(0),) * value.rank]
        return select(
            all_of(inside), x[tuple(e - b for e, b in zip(i, before, strict=True))], other
        )

    return compute(_padded_shape(x, range(x.rank), before, after), body, name="padded")


def _padded_shape(x: Tensor, axes: Sequence[int], before: Pads, after: Pads) -> list[Size]:
    return [size + (before[d] + after[d]) if d in axes else size for d, size in enumerate(x.shape)]


def _pad_from_inside(
    x: Tensor, axes: Sequence[int], before: Pads, after: Pads, mode: str
) -> Tensor:
    source = _SOURCES[mode]
    for d in axes:
        empty = constant_size(x.shape[d]) == 0
        expect(not empty, f"{mode} padding of an empty dimension {d}", "pad", "WEFT-E0191")

    def element(left: Sequence[int], i: tuple[Expr, ...]) -> Expr:
        if not left:
            return x[i]
        d, *rest = left
        cases = source(i[d] - before[d], x.shape[d], before[d], after[d])
        *guarded, (_, otherwise) = cases
        result = element(rest, replaced(i, d, otherwise))
        for condition, index in reversed(guarded):
            result = select(condition, element(rest, replaced(i, d, index)), result)
        return result

    shape = _padded_shape(x, axes, before, after)
    return compute(shape, lambda *i: element(list(axes), i), name="padded")


Cases = list[tuple[Expr, Expr]]  # (condition, index into x), the first that holds; the last always
_ALWAYS = literal(True, "bool")


def _edge(t: Expr, size: Size, before: int, after: int) -> Cases:
    last = as_size(size) - 1
    cases: Cases = [(t < 0, literal(0))] if before else []
    return [*cases, *([(t > last, last)] if after else []), (_ALWAYS, t)]


def _reflect(t: Expr, size: Size, before: int, after: int) -> Cases:
    extent = constant_size(size)
    if extent == 1:
        return [(_ALWAYS, literal(0))]
    if extent is not None and max(before, after) >= extent:
        period = 2 * (extent - 1)
        folded = t % period
        return [(folded < extent, folded), (_ALWAYS, literal(period) - folded)]
    last = as_size(size) - 1
    cases: Cases = [(t < 0, literal(0) - t)] if before else []
    return [*cases, *([(t > last, last * 2 - t)] if after else []), (_ALWAYS, t)]


def _wrap(t: Expr, size: Size, before: int, after: int) -> Cases:
    return [(_ALWAYS, t % as_size(size))]


_SOURCES: dict[str, Callable[[Expr, Size, int, int], Cases]] = {
    "edge": _edge,
    "reflect": _reflect,
    "wrap": _wrap,
}


# ---- triangles and sequences --------------------------------------------------------------------


@operator("trilu")
def trilu(x: Tensor, *, k: int, upper: bool) -> Tensor:
    """The last two dimensions' upper (or lower) triangle from diagonal ``k`` on, else 0."""
    expect(x.rank >= 2, f"a tensor of {x.rank} dimensions has no triangle", "trilu", "WEFT-E0191")

    def body(*i: Expr) -> Expr:
        diagonal = i[-1] - i[-2]
        return select(diagonal >= k if upper else diagonal <= k, x[i], 0)

    return compute(x.shape, body, name="triangle")


@operator("reverse_sequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, time_axis: int, batch_axis: int) -> Tensor:
    """The first ``lengths[b]`` elements along ``time_axis`` of each batch b backwards."""
    time_axis = axis_index(time_axis, x.rank, "reverse_sequence")
    batch_axis = axis_index(batch_axis, x.rank, "reverse_sequence")
    expect(time_axis != batch_axis, "time_axis is batch_axis", "reverse_sequence")
    expect_same(lengths.shape, (x.shape[batch_axis],), "reverse_sequence")

    def body(*i: Expr) -> Expr:
        length = lengths[i[batch_axis]].astype("int64")
        time = i[time_axis]
        return select(time < length, x[replaced(i, time_axis, length - 1 - time)], x[i])

    return compute(x.shape, body, name="reversed")
