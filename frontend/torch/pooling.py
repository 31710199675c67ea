"""Handlers of pooling and its gradients, which gather from the windows that cover an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from weft.frontend.operators.arguments import total
from weft.frontend.operators.conv import TAPS
from weft.frontend.operators.sizes import axes_over
from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.factories import filled
from weft.ir import dtypes
from weft.ir.build import all_of, compute, computes, max_with_index, maximum, minimum, sum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Size, Tensor

Ints = Sequence[int] | int


def spread(values: Ints, rank: int, default: Sequence[int] = ()) -> tuple[int, ...]:
    """One number for each of ``rank`` dimensions; none stands for ``default``."""
    given = (values,) if isinstance(values, int) else tuple(values)
    return given * rank if len(given) == 1 else given or tuple(default)


def batched(node: NodeContext, x: Value, rank: int) -> Value:
    """``x`` with a dimension for the batch."""
    return x if len(x.shape) == rank + 2 else node.call("reshape", x, shape=(1, *x.shape))


def _no_places(node: NodeContext) -> Value:
    return node.call("fill", shape=node.shape, value=0, dtype=dtypes.int64)  # type: ignore[no-any-return]


@handler("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(
    node: NodeContext, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,
    dilation: Ints = 1, ceil_mode: bool = False,
) -> Results:  # fmt: skip
    """Indices count the elements of one channel."""
    if 0 in node.shape:
        return filled(node, 0), _no_places(node)
    rank = 3 if "3d" in node.target else 2
    sizes = spread(kernel, rank)
    pads = spread(padding, rank)
    whole = batched(node, x, rank)
    window = {
        "kernel": sizes, "strides": spread(stride, rank, sizes), "pads": (*pads, *pads),
        "dilations": spread(dilation, rank), "ceil_mode": ceil_mode,
    }  # fmt: skip
    if not node.is_used(1):
        greatest = node.call("max_pool", whole, **window)
        return node.call("reshape", greatest, shape=node.shape), None
    plane = total(node.sizes(whole)[2:])
    values, flat = node.call("max_pool_with_indices", whole, **window)
    indices = node.call(
        lambda t: compute(t.shape, lambda *i: t[i] % plane, name="pool_indices"), flat
    )
    return tuple(node.call("reshape", found, shape=node.shape) for found in (values, indices))


def _average_pool(rank: int) -> None:
    @handler(f"aten.avg_pool{rank}d.default")
    def import_(
        node: NodeContext, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Results:  # fmt: skip
        if 0 in node.shape:
            return filled(node, 0)
        sizes = spread(kernel, rank)
        if not x.dtype.is_float:
            raise node.unsupported(f"the mean of {x.dtype}")
        pads = spread(padding, rank)
        found = node.call(
            "average_pool", batched(node, x, rank), kernel=sizes,
            strides=spread(stride, rank, sizes), pads=(*pads, *pads), ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor=divisor_override,
        )  # fmt: skip
        return node.call("reshape", found, shape=node.shape)


for _rank in (1, 2, 3):
    _average_pool(_rank)


# ---- adaptive: output o averages the elements from floor(o·n/m) to ceil((o+1)·n/m) --------------


def _adaptive_average_pool(rank: int) -> None:
    @handler(f"aten._adaptive_avg_pool{rank}d.default")
    def import_(node: NodeContext, x: Value, output_size: Ints) -> Results:
        if 0 in node.shape:
            return filled(node, 0)
        return node.call(adaptive_average, x, outputs=_known_sides(node, x, rank))


for _rank in (2, 3):
    _adaptive_average_pool(_rank)


def _known_sides(node: NodeContext, x: Value, rank: int) -> list[int]:
    """The last ``rank`` sizes of the result, and those of ``x`` are known too."""
    for size in node.sizes(x)[-rank:]:
        node.known(size, "a size that is pooled to another")
    return [node.known(size, "a size that is pooled to another") for size in node.shape[-rank:]]


def _segment(o: Expr, size: int, count: int) -> tuple[Expr, Expr]:
    """First and past-the-last element that output ``o`` of ``count`` averages."""
    return o * size // count, ((o + 1) * size + (count - 1)) // count


def longest_segments(sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
    """The most elements that one output of each dimension covers."""
    return [
        max(-(-(o + 1) * n // m) - o * n // m for o in range(m))
        for n, m in zip(sizes, counts, strict=True)
    ]


def adaptive_average(x: Tensor, *, outputs: Sequence[int]) -> Tensor:
    rank = len(outputs)
    lead = x.shape[: x.rank - rank]
    sizes: list[int] = [int(size) for size in x.shape[x.rank - rank :]]  # type: ignore[arg-type]
    longest = longest_segments(sizes, outputs)
    taps = axes_over(longest, TAPS[:rank])
    even = all(n % m == 0 for n, m in zip(sizes, outputs, strict=True))

    def body(*i: Expr) -> Expr:
        outer, out = i[: len(lead)], i[len(lead) :]
        parts = [_segment(o, n, m) for o, n, m in zip(out, sizes, outputs, strict=True)]
        if even:
            at = [o * k + t for o, k, t in zip(out, longest, taps, strict=True)]
            inside = None
            count: Expr = literal(1)
            for k in longest:
                count = count * k
        else:
            at = [first + t for (first, _), t in zip(parts, taps, strict=True)]
            inside = all_of([a < last for a, (_, last) in zip(at, parts, strict=True)])
            count = literal(1)
            for first, last in parts:
                count = count * (last - first)
        wide = x.dtype.compute
        total = sum(cast(x[(*outer, *at)], wide), taps, where=inside)
        return cast(total / cast(count, wide), x.dtype)

    return compute((*lead, *outputs), body, name="adaptive_average")


# ---- gradients ----------------------------------------------------------------------------------

Term = Callable[[tuple[Expr, ...], tuple[Expr, ...]], Expr]


def gathered(
    shape: Sequence[Size], grad: Tensor, kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], term: Term,
) -> Tensor:  # fmt: skip
    """Element i of an input gets ``term(outer + windows, i)`` from each window that covers it:
    through tap r the one at (i + pad - r·dilation) / stride, where that is whole."""
    rank = len(kernel)
    taps = axes_over(kernel, TAPS[:rank])
    wide = grad.dtype.compute

    def body(*i: Expr) -> Expr:
        outer, at = i[: len(i) - rank], i[len(i) - rank :]
        windows, inside = [], []
        for d in range(rank):
            start = at[d] + pads[d] - taps[d] * dilations[d]
            window = start // strides[d] if strides[d] > 1 else start
            windows.append(window)
            if strides[d] > 1:
                inside.append((start % strides[d]).equal(0))
            inside += [window >= 0, window < grad.shape[grad.rank - rank + d]]
        value = select(all_of(inside), term((*outer, *windows), i), literal(0, wide))
        return cast(sum(value, taps), grad.dtype)

    return compute(shape, body, name="pool_gradient")


@handler(
    "aten.max_pool2d_with_indices_backward.default", "aten.max_pool3d_with_indices_backward.default"
)
def max_pool_backward(
    node: NodeContext, grad: Value, x: Value, kernel: Ints, stride: Ints, padding: Ints,
    dilation: Ints, ceil_mode: bool, indices: Value,
) -> Results:  # fmt: skip
    if 0 in node.shape or 0 in grad.shape:
        return filled(node, 0)
    rank = 3 if "3d" in node.target else 2
    sizes, sides = spread(kernel, rank), node.shape[-rank:]

    def definition(g: Tensor, where: Tensor) -> Tensor:
        def term(window: tuple[Expr, ...], i: tuple[Expr, ...]) -> Expr:
            here: Expr = literal(0)
            for k, side in zip(i[-rank:], sides, strict=True):
                here = here * side + k
            value = cast(g[window], g.dtype.compute)
            return select(where[window].equal(here), value, literal(0, value.dtype))

        return gathered(
            node.shape, g, sizes, spread(stride, rank, sizes), spread(padding, rank),
            spread(dilation, rank), term,
        )  # fmt: skip

    return node.call(definition, grad, indices)


@handler("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def average_pool_backward(
    node: NodeContext, grad: Value, x: Value, kernel: Ints, stride: Ints, padding: Ints,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Results:  # fmt: skip
    if 0 in node.shape or 0 in grad.shape:
        return filled(node, 0)
    rank = 3 if "3d" in node.target else 2
    sizes, pads = spread(kernel, rank), spread(padding, rank)
    strides = spread(stride, rank, sizes)

    def count(window: Sequence[Expr]) -> Expr:
        """How many elements the mean of this window is over."""
        if divisor_override is not None:
            return literal(divisor_override)
        found: Expr = literal(1)
        for o, k, s, p, n in zip(window, sizes, strides, pads, node.shape[-rank:], strict=True):
            start = o * s - p
            end = minimum(start + k, n + p)
            if not count_include_pad:
                start, end = maximum(start, 0), minimum(end, n)
            found = found * (end - start)
        return found

    def definition(g: Tensor) -> Tensor:
        def term(window: tuple[Expr, ...], _: tuple[Expr, ...]) -> Expr:
            value = cast(g[window], g.dtype.compute)
            return value / cast(count(window[-rank:]), value.dtype)

        return gathered(node.shape, g, sizes, strides, pads, (1,) * rank, term)

    return node.call(definition, grad)


@handler("aten._adaptive_avg_pool2d_backward.default")
def adaptive_average_pool_backward(node: NodeContext, grad: Value, x: Value) -> Results:
    """Element i is in the outputs from floor(i·m/n) on, at most so many as cover one element."""
    if 0 in node.shape or 0 in grad.shape:
        return filled(node, 0)
    sizes = _known_sides(node, grad, 2)
    outputs = [node.known(size, "a size that was pooled to") for size in node.sizes(grad)[-2:]]

    def definition(g: Tensor) -> Tensor:
        covering = [-(-m // n) + 1 for n, m in zip(sizes, outputs, strict=True)]

        def body(*i: Expr) -> Expr:
            outer, at = i[:-2], i[-2:]
            total: Expr = literal(0, g.dtype.compute)
            for steps in product(*map(range, covering)):
                windows = [
                    a * m // n + step
                    for a, n, m, step in zip(at, sizes, outputs, steps, strict=True)
                ]
                inside, count = [], literal(1)
                for w, a, n, m in zip(windows, at, sizes, outputs, strict=True):
                    first, last = _segment(w, n, m)
                    inside += [w < m, a >= first, a < last]
                    count = count * (last - first)  # type: ignore[assignment]
                value = cast(g[(*outer, *windows)], total.dtype) / cast(count, total.dtype)
                total = total + select(all_of(inside), value, literal(0, total.dtype))
            return cast(total, g.dtype)

        return compute(node.shape, body, name="adaptive_average_gradient")

    return node.call(definition, grad)


# ---- adaptive maxima ----------------------------------------------------------------------------


def _adaptive_max_pool(rank: int) -> None:
    @handler(f"aten.adaptive_max_pool{rank}d.default")
    def import_(node: NodeContext, x: Value, output_size: Ints) -> Results:
        if 0 in node.shape:
            return filled(node, 0), _no_places(node)
        return node.call(adaptive_maximum, x, outputs=_known_sides(node, x, rank))


for _rank in (2, 3):
    _adaptive_max_pool(_rank)


def adaptive_maximum(x: Tensor, *, outputs: Sequence[int]) -> tuple[Tensor, ...]:
    """The greatest element of each segment, and where it lies among those of one channel."""
    rank = len(outputs)
    lead = x.shape[: x.rank - rank]
    sizes: list[int] = [int(size) for size in x.shape[x.rank - rank :]]  # type: ignore[arg-type]
    taps = axes_over(longest_segments(sizes, outputs), TAPS[:rank])

    def body(*i: Expr) -> tuple[Expr, ...]:
        outer, out = i[: len(lead)], i[len(lead) :]
        parts = [_segment(o, n, m) for o, n, m in zip(out, sizes, outputs, strict=True)]
        at = [first + t for (first, _), t in zip(parts, taps, strict=True)]
        inside = all_of([a < last for a, (_, last) in zip(at, parts, strict=True)])
        flat: Expr = literal(0)
        for index, size in zip(at, sizes, strict=True):
            flat = flat * size + index
        return max_with_index(x[(*outer, *at)], flat, taps, where=inside)

    return computes((*lead, *outputs), lambda *i: body(*i), name="adaptive_maximum")
