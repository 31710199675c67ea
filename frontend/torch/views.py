"""Handlers of the same elements in another shape or order, parts of tensors, and tensors put
together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from weft.frontend.operators.arguments import total
from weft.frontend.operators.sizes import maximum_size
from weft.frontend.torch.context import NodeContext, Results, dimension, dimensions, handler
from weft.ir.build import all_of, compute, reshape, scatter
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast, select
from weft.ir.tensor_expr import Size, Tensor, as_size


@handler(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
    "prims.collapse_view.default", "prims.split_dim.default", "prims.squeeze.default",
    "aten.flatten.using_ints", "prims.collapse.default", "prims.reshape.default",
)  # fmt: skip
def reshaped(node: NodeContext, x: Value, *_: Any, **__: Any) -> Results:
    return node.call("reshape", x, shape=node.shape)


@handler(
    "aten.clone.default", "aten.detach.default", "aten.alias.default", "aten.contiguous.default",
    "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "prims.view_of.default",
    "prims.clone.default", "aten.positive.default",
)  # fmt: skip
def same(node: NodeContext, x: Value, *_: Any, **__: Any) -> Results:
    """Values of graphs never change, so that a copy is the value itself."""
    return x


@handler("aten.permute.default", "prims.transpose.default")
def permute(node: NodeContext, x: Value, dims: Sequence[int]) -> Results:
    return node.call("transpose", x, perm=dimensions(dims, len(x.shape)))


@handler("aten.transpose.int")
def transpose(node: NodeContext, x: Value, dim0: int, dim1: int) -> Results:
    rank = len(x.shape)
    perm = list(range(rank))
    if rank:
        a, b = dimension(dim0, rank), dimension(dim1, rank)
        perm[a], perm[b] = b, a
    return node.call("transpose", x, perm=perm)


@handler("aten.t.default")
def t(node: NodeContext, x: Value) -> Results:
    return node.call("transpose", x, perm=range(len(x.shape))[::-1])


@handler("aten.expand.default")
def expand(node: NodeContext, x: Value, *_: Any, **__: Any) -> Results:
    return node.call("expand", x, shape=node.shape)


@handler("prims.broadcast_in_dim.default")
def broadcast_in_dim(
    node: NodeContext, x: Value, shape: Sequence[int], where: Sequence[int]
) -> Results:
    """Dimension d of ``x`` is dimension ``where[d]`` of the result."""
    sizes: list[Size] = [1] * len(shape)
    for d, size in zip(where, node.sizes(x), strict=True):
        sizes[d] = size
    return node.call("expand", node.call("reshape", x, shape=sizes), shape=node.shape)


# ---- parts --------------------------------------------------------------------------------------


def part(node: NodeContext, x: Value, dim: int, start: Size, step: int, size: Size) -> Value:
    """``size`` elements of ``x`` along ``dim`` from ``start`` on."""
    sizes = list(node.sizes(x))
    starts: list[Size] = [0] * len(sizes)
    steps: list[int] = [1] * len(sizes)
    sizes[dim], starts[dim], steps[dim] = size, start, step
    return node.call("strided_slice", x, starts=starts, steps=steps, sizes=sizes)  # type: ignore[no-any-return]


def bounds(
    node: NodeContext, start: Size | None, end: Size | None, size: Size
) -> tuple[Size, Size]:
    """A slice's ``start`` and ``end`` as PyTorch clamps them, though beyond an open ``size`` they
    stay: there is nothing to read."""
    low = 0 if start is None else _from_front(node, start, size)
    high = size if end is None or end == sys.maxsize else _from_front(node, end, size)
    return low, high


def _from_front(node: NodeContext, at: Size, size: Size) -> Size:
    if isinstance(at, Expr) and not node.assume_at_least(at, 0):
        raise node.unsupported("a bound that may count from the end or not")
    if isinstance(at, int) and at < 0:
        at = node.normal(maximum_size(at + size, 0))
    return min(at, size) if isinstance(at, int) and isinstance(size, int) else at


@handler("aten.slice.Tensor")
def slice_(
    node: NodeContext,
    x: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Results:
    dim = dimension(dim, len(x.shape))
    low, _ = bounds(node, start, end, node.sizes(x)[dim])
    return part(node, x, dim, low, step, node.shape[dim])


def element(node: NodeContext, index: Size, size: Size) -> Size:
    """``index`` of one element, counted from the front."""
    if isinstance(index, Expr) and not node.assume_at_least(index, 0):
        raise node.unsupported("an index that may count from the end or not")
    return node.normal(index + size) if isinstance(index, int) and index < 0 else index


@handler("aten.select.int")
def select_int(node: NodeContext, x: Value, dim: int, index: Size) -> Results:
    dim = dimension(dim, len(x.shape))
    at = element(node, index, node.sizes(x)[dim])
    return node.call("reshape", part(node, x, dim, at, 1, 1), shape=node.shape)


@handler("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int")
def split(node: NodeContext, x: Value, *args: Any, **named: Any) -> Results:
    unbind = node.target == "aten.unbind.int"
    rest = args if unbind else args[1:]
    dim = dimension(named.get("dim", rest[0] if rest else 0), len(x.shape))
    start: Size = 0
    parts = []
    for result in node.results:
        assert result is not None
        size: Size = 1 if unbind else result.shape[dim]
        piece = part(node, x, dim, start, 1, size)
        parts.append(node.call("reshape", piece, shape=result.shape))
        start += size
    return parts


@handler("aten.diagonal.default")
def diagonal(node: NodeContext, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Results:
    a, b = dimension(dim1, len(x.shape)), dimension(dim2, len(x.shape))

    def definition(source: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            rest, k = iter(i[:-1]), i[-1]
            on = {a: k + max(-offset, 0), b: k + max(offset, 0)}
            return source[tuple(on[d] if d in on else next(rest) for d in range(source.rank))]

        return compute(node.shape, body, name="diagonal")

    return node.call(definition, x)


@handler("aten.unfold.default")
def unfold(node: NodeContext, x: Value, dimension_: int, size: int, step: int) -> Results:
    d = dimension(dimension_, len(x.shape))

    def definition(source: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            if not source.rank:
                return source[()]
            return source[(*i[:d], i[d] * step + i[-1], *i[d + 1 : -1])]

        return compute(node.shape, body, name="unfolded")

    return node.call(definition, x)


@handler("aten.flip.default", "prims.rev.default")
def flip(node: NodeContext, x: Value, dims: Sequence[int]) -> Results:
    if not x.shape or not dims:
        return x
    over = dimensions(dims, len(x.shape))
    sizes = node.sizes(x)
    last = [node.normal(maximum_size(n - 1, 0)) for n in sizes]
    return node.call(
        "strided_slice",
        x,
        starts=[last[d] if d in over else 0 for d in range(len(sizes))],
        steps=[-1 if d in over else 1 for d in range(len(sizes))],
        sizes=sizes,
    )


@handler("aten.as_strided.default")
def as_strided(
    node: NodeContext,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Results:
    """Of the elements of ``x`` in row-major order, which is how contiguous memory has them."""
    if not node.is_contiguous(0):
        raise node.unsupported("of a tensor that is not contiguous")

    def definition(source: Tensor) -> Tensor:
        flat = reshape(source, (total(source.shape),), name="memory")

        def body(*i: Expr) -> Expr:
            return flat[_place(i, stride, storage_offset)]

        return compute(node.shape, body, name="as_strided")

    return node.call(definition, x)


@handler("aten.as_strided_scatter.default")
def as_strided_scatter(
    node: NodeContext, x: Value, source: Value, size: Sequence[Size], stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Results:  # fmt: skip
    """``x`` with ``source`` in the place of what ``as_strided`` would give."""
    if not node.is_contiguous(0):
        raise node.unsupported("of a tensor that is not contiguous")

    def definition(base: Tensor, updates: Tensor) -> Tensor:
        flat = reshape(base, (total(base.shape),), name="memory")

        def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
            return (_place(i, stride, storage_offset),), updates[i]

        written = scatter(flat, updates.shape, body, name="as_strided_scatter")
        return reshape(written, base.shape, name="as_strided_scatter")

    return node.call(definition, x, source)


def _place(i: Sequence[Expr], stride: Sequence[Size], offset: Size | None) -> Expr:
    """Which element of memory has index ``i``."""
    at = as_size(offset or 0)
    for index, step in zip(i, stride, strict=True):
        at = at + index * step
    return at


# ---- together -----------------------------------------------------------------------------------


@handler("aten.cat.default", "prims.cat.default")
def cat(node: NodeContext, tensors: Sequence[Value], dim: int = 0) -> Results:
    """Tensors of shape (0,) are left out, whatever the rank of the others."""
    rank = len(node.shape)
    kept = [x for x in tensors if len(x.shape) == rank and not (rank > 1 and x.shape == (0,))]
    if not kept:
        kept = [tensors[0]]
    same_dtype = [node.cast(x, node.dtype) for x in kept]
    return node.call("concat", *same_dtype, axis=dim)


@handler("aten.repeat.default")
def repeat(node: NodeContext, x: Value, repeats: Sequence[int]) -> Results:
    lead = len(repeats) - len(x.shape)
    whole = node.call("reshape", x, shape=(*[1] * lead, *x.shape))
    return node.call("tile", whole, repeats=tuple(repeats))


@handler("aten.constant_pad_nd.default")
def constant_pad_nd(node: NodeContext, x: Value, pad: Sequence[int], value: float = 0) -> Results:
    """``pad``: before and after of the last dimension, then of the one before it."""
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for d in range(len(pad) // 2):
        before[rank - 1 - d], after[rank - 1 - d] = pad[2 * d], pad[2 * d + 1]
    filling = node.cast(value, x.dtype)
    return node.call("pad", x, filling, before=before, after=after)


@handler("aten.slice_scatter.default")
def slice_scatter(
    node: NodeContext,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Results:
    """``x`` with ``src`` in place of a slice of it."""
    dim = dimension(dim, len(x.shape))
    size = node.sizes(x)[dim]
    low, high = bounds(node, start, end, size)

    def definition(base: Tensor, source: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            at = i[dim] - low
            inside = [] if low == 0 else [at >= 0]
            inside += [] if high == size else [i[dim] < high]
            inside += [(at % step).equal(0)] if step > 1 else []
            taken = source[(*i[:dim], at // step, *i[dim + 1 :])]
            return select(all_of(inside), cast(taken, base.dtype), base[i])

        return compute(base.shape, body, name="slice_scatter")

    return node.call(definition, x, src)


@handler("aten.select_scatter.default")
def select_scatter(node: NodeContext, x: Value, src: Value, dim: int, index: Size) -> Results:
    dim = dimension(dim, len(x.shape))
    at = element(node, index, node.sizes(x)[dim])

    def definition(base: Tensor, source: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            taken = source[(*i[:dim], *i[dim + 1 :])]
            return select(i[dim].equal(at), cast(taken, base.dtype), base[i])

        return compute(base.shape, body, name="select_scatter")

    return node.call(definition, x, src)


@handler("aten.diagonal_scatter.default")
def diagonal_scatter(
    node: NodeContext, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Results:
    a, b = dimension(dim1, len(x.shape)), dimension(dim2, len(x.shape))

    def definition(base: Tensor, source: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            rest = [index for d, index in enumerate(i) if d not in (a, b)]
            on = (i[b] - i[a]).equal(offset)
            taken = source[(*rest, i[a] - max(-offset, 0))]
            return select(on, cast(taken, base.dtype), base[i])

        return compute(base.shape, body, name="diagonal_scatter")

    return node.call(definition, x, src)


@handler("aten.copy.default")
def copy(node: NodeContext, x: Value, src: Value, *_: Any) -> Results:
    """``src`` in the shape and dtype of ``x``."""
    return node.cast(node.call("expand", src, shape=x.shape), node.dtype)


@handler("aten.tril.default", "aten.triu.default")
def triangle(node: NodeContext, x: Value, diagonal: int = 0) -> Results:
    upper = node.target == "aten.triu.default"
    return node.call("trilu", x, k=diagonal, upper=upper)
