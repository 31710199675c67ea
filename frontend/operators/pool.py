"""Pooling over sliding windows and over whole images, and its partial inverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontend.operators.conv import TAPS
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import (
    axes_over,
    require,
    require_rank,
    total_size,
    unify,
    wide,
)
from weft.frontend.operators.window import Pads, Window, make_window, padded
from weft.ir import dtypes
from weft.ir.build import (
    all_of,
    compute,
    computes,
    max_over,
    max_with_index,
    maximum,
    minimum,
    reshape,
    scatter,
    select,
    sqrt,
    sum,
)
from weft.ir.scalar_expr import Expr, Number, binary, cast, literal
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size, constant_size


@operator("max_pool")
def max_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The greatest element under each window of ``x`` (n, c, spatial…); NaN wins, padding never."""
    window = pooling_window(x, kernel, strides, pads, dilations)
    source, outputs = windows(x, window, ceil_mode, x.dtype.lowest)
    taps = axes_over(window.kernel, TAPS[: window.rank])

    def body(n: Expr, c: Expr, *out: Expr) -> Expr:
        return max_over(source[(n, c, *window.read(out, taps))], taps)

    return compute((*x.shape[:2], *outputs), lambda *i: body(*i), name="max_pool")


@operator("max_pool_with_indices")
def max_pool_with_indices(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
    column_major: bool = False,
) -> tuple[Tensor, Tensor]:
    """``max_pool`` and where in ``x``, flattened, each greatest element lies (int64, the first).

    ``column_major`` flattens the spatial dimensions in the other order. -1 for empty windows.
    """
    window = pooling_window(x, kernel, strides, pads, dilations)
    outputs = window.outputs(x.shape[2:], ceil=ceil_mode)
    taps = axes_over(window.kernel, TAPS[: window.rank])

    def body(n: Expr, c: Expr, *out: Expr) -> tuple[Expr, ...]:
        at = [i - as_size(b) for i, b in zip(window.read(out, taps), window.before, strict=True)]
        inside = _inside(at, x.shape[2:], window, ceil_mode)
        flat = (n * as_size(x.shape[1]) + c) * total_size(x.shape[2:])
        flat = flat + _flatten(at, x.shape[2:])
        value, first = max_with_index(x[(n, c, *at)], flat, taps, where=inside)
        if column_major:  # of equal elements, row-major order says which is the first
            first = select(first < 0, first, _column_major(first, x.shape[2:]))
        return value, first

    return computes((*x.shape[:2], *outputs), lambda *i: body(*i), name="max_pool_with_indices")  # type: ignore[return-value]


@operator("average_pool")
def average_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    divisor: int | None = None,
) -> Tensor:
    """The mean of the elements under each window, padding left out unless ``count_include_pad``;
    their sum by ``divisor`` where there is one.

    What a window of ``ceil_mode`` has beyond the padding never counts. An empty window gives 0.
    """
    window = pooling_window(x, kernel, strides, pads, dilations)
    source, outputs = windows(x, window, ceil_mode, 0)
    taps = axes_over(window.kernel, TAPS[: window.rank])

    def body(n: Expr, c: Expr, *out: Expr) -> Expr:
        total = sum(wide(source[(n, c, *window.read(out, taps))]), taps)
        if divisor is not None:
            return cast(total / divisor, x.dtype)
        count = counted(out, x.shape[2:], window, ceil_mode, count_include_pad)
        return cast(total / cast(count, total.dtype), x.dtype)

    return compute((*x.shape[:2], *outputs), lambda *i: body(*i), name="average_pool")


@operator("lp_pool")
def lp_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    p: int = 2,
    strides: Sequence[int] | None = None,
    pads: Pads = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(Σ |x|^p)^(1/p) under each window."""
    window = pooling_window(x, kernel, strides, pads, dilations)
    source, outputs = windows(x, window, ceil_mode, 0)
    taps = axes_over(window.kernel, TAPS[: window.rank])

    def body(n: Expr, c: Expr, *out: Expr) -> Expr:
        return cast(lp_norm(source[(n, c, *window.read(out, taps))], p, taps), x.dtype)

    return compute((*x.shape[:2], *outputs), lambda *i: body(*i), name="lp_pool")


def lp_norm(element: Expr, p: int, axes: Sequence[Axis]) -> Expr:
    """(Σ |element|^p)^(1/p) over ``axes``, in the type in which the dtype is computed."""
    require(p >= 1, f"the order of a norm must be at least 1: {p}")
    size = abs(wide(element))
    match p:
        case 1:
            return sum(size, axes)
        case 2:
            return sqrt(sum(size * size, axes))
        case _:
            total = sum(binary("pow", size, float(p)), axes)
            return binary("pow", total, 1.0 / p)


@operator("global_average_pool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean over all spatial dimensions, kept with size 1."""
    count = total_size(x.shape[2:])

    def mean(element: Expr, taps: Sequence[Axis]) -> Expr:
        total = sum(wide(element), taps)
        return cast(total / cast(count, total.dtype), x.dtype)

    return over_space(x, mean, "global_average_pool")


@operator("global_max_pool")
def global_max_pool(x: Tensor) -> Tensor:
    """The greatest element over all spatial dimensions, kept with size 1."""
    return over_space(x, lambda element, taps: max_over(element, taps), "global_max_pool")


@operator("global_lp_pool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """(Σ |x|^p)^(1/p) over all spatial dimensions, kept with size 1."""
    return over_space(x, lambda e, taps: cast(lp_norm(e, p, taps), x.dtype), "global_lp_pool")


def over_space(x: Tensor, fold: Callable[[Expr, Sequence[Axis]], Expr], name: str) -> Tensor:
    """``fold`` of all spatial dimensions of ``x``, which keep size 1."""
    require_rank(x, "the input of a pooling", 3)
    taps = axes_over(x.shape[2:], TAPS[: x.rank - 2])
    shape = (*x.shape[:2], *(1,) * (x.rank - 2))
    return compute(shape, lambda *i: fold(x[(*i[:2], *taps)], taps), name=name)


@operator("max_unpool")
def max_unpool(x: Tensor, indices: Tensor, *, sizes: Sequence[Size]) -> Tensor:
    """Zeros of (n, c, sizes…) with each element of ``x`` at its index in the flat result.

    ``indices`` has x's shape. An index outside the result is an execution error.
    """
    require_rank(indices, "the indices of an unpooling", x.rank, x.rank)
    for d in range(x.rank):
        unify(x.shape[d], indices.shape[d], "the sizes of values and indices")
    shape = (*x.shape[:2], *sizes)
    require(len(shape) == x.rank, f"{len(sizes)} sizes for {x.rank - 2} spatial dimensions")
    zeros = compute((total_size(shape),), lambda i: literal(0, x.dtype), name="zeros")
    filled = scatter(
        zeros,
        x.shape,
        lambda *i: ((cast(indices[i], dtypes.int64),), x[i]),
        name="max_unpool",
    )
    return reshape(filled, shape, name="unpooled")


def pooling_window(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    pads: Pads,
    dilations: Sequence[int] | None,
) -> Window:
    """The checked window of a pooling over ``x``."""
    require_rank(x, "the input of a pooling", 3)
    window = make_window(kernel, strides=strides, dilations=dilations, pads=pads, sizes=x.shape[2:])
    require(
        window.rank == x.rank - 2,
        f"a kernel of {window.rank} dimensions for {x.rank - 2} spatial dimensions",
    )
    return window


def windows(
    x: Tensor, window: Window, ceil_mode: bool, padding: Number | Expr
) -> tuple[Tensor, tuple[Size, ...]]:
    """The padded input, large enough for every tap, and the spatial output sizes."""
    outputs = window.outputs(x.shape[2:], ceil=ceil_mode)
    after = window.overhang(x.shape[2:], outputs) if ceil_mode else window.after
    return padded(x, window.before, after, padding), outputs


def _inside(
    at: Sequence[Expr], sizes: Sequence[Size], window: Window, ceil_mode: bool
) -> Expr | None:
    """Whether the input element ``at`` is one; None where it always is."""
    conditions = []
    for d, (index, size) in enumerate(zip(at, sizes, strict=True)):
        if constant_size(window.before[d]) != 0:
            conditions.append(index >= 0)
        if ceil_mode or constant_size(window.after[d]) != 0:
            conditions.append(index < as_size(size))
    return all_of(conditions) if conditions else None


def _flatten(at: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    flat: Expr = literal(0)
    for index, size in zip(at, sizes, strict=True):
        flat = flat * as_size(size) + index
    return flat


def _column_major(flat: Expr, sizes: Sequence[Size]) -> Expr:
    """``flat``, an index into images of ``sizes`` in row-major order, in column-major order."""
    left, digits = flat, list[Expr]()
    inside: Expr = literal(0)
    step: Expr = literal(1)
    for size in reversed(sizes):
        digits.append(left % as_size(size))
        left = left // as_size(size)
    for digit, size in zip(reversed(digits), sizes, strict=True):
        inside = inside + digit * step
        step = step * as_size(size)
    return left * step + inside


def counted(
    out: Sequence[Expr], sizes: Sequence[Size], window: Window, ceil_mode: bool, include_pad: bool
) -> Expr:
    """How many taps of the window at ``out`` count, at least 1: a product of closed forms."""
    count: Expr = literal(1)
    for d, (o, size) in enumerate(zip(out, sizes, strict=True)):
        kernel, dilation = window.kernel[d], window.dilations[d]
        before, after = as_size(window.before[d]), as_size(window.after[d])
        start, limit = o * window.strides[d], as_size(size) + before + after
        if not include_pad:
            start, limit = start - before, as_size(size)
        full = constant_size(before) == 0 or include_pad
        reaches_end = ceil_mode or not (include_pad or constant_size(after) == 0)
        first = literal(0) if full else maximum(-(start // dilation), 0)
        last = (
            minimum((limit - start + (dilation - 1)) // dilation, kernel)
            if reaches_end
            else literal(kernel)
        )
        count = count * (last - first)
    return count if constant_size(count) is not None else maximum(count, 1)
