"""Reads at indices that are data.

Negative indices count from the back; those still out of range are an error at run time.
"""

from __future__ import annotations

from weft.frontend.operators.arguments import (
    axis_index,
    expect,
    expect_same,
    from_front,
    replaced,
    without,
)
from weft.frontend.operators.registry import operator
from weft.ir.build import compute, scatter, select
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, literal
from weft.ir.tensor_expr import Size, Tensor, constant_size


def index_at(indices: Tensor, position: tuple[Expr, ...], size: Size) -> Expr:
    """The index that ``indices`` holds at ``position``, into a dimension of ``size``."""
    return from_front(indices[position].astype("int64"), size)


def _expect_integers(indices: Tensor, where: str) -> None:
    expect(
        indices.dtype.is_integer, f"indices are {indices.dtype}, not integers", where, "WEFT-E0192"
    )


@operator("gather")
def gather(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """Slices of ``x`` along ``axis``; the shape of ``indices`` takes the axis's place."""
    _expect_integers(indices, "gather")
    axis = axis_index(axis, x.rank, "gather")
    stop = axis + indices.rank

    def body(*i: Expr) -> Expr:
        chosen = index_at(indices, i[axis:stop], x.shape[axis])
        return x[(*i[:axis], chosen, *i[stop:])]

    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return compute(shape, body, name="gathered")


@operator("gather_elements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """Element i of ``x`` with its index along ``axis`` taken from ``indices[i]``."""
    _expect_integers(indices, "gather_elements")
    axis = axis_index(axis, x.rank, "gather_elements")
    expect(
        x.rank == indices.rank,
        f"indices of rank {indices.rank} into a tensor of rank {x.rank}",
        "gather_elements",
        "WEFT-E0191",
    )
    for d, (size, extent) in enumerate(zip(indices.shape, x.shape, strict=True)):
        a, b = constant_size(size), constant_size(extent)
        fits = d == axis or a is None or b is None or a <= b
        expect(fits, f"indices {indices.shape} into {x.shape}", "gather_elements", "WEFT-E0191")

    def body(*i: Expr) -> Expr:
        return x[replaced(i, axis, index_at(indices, i, x.shape[axis]))]

    return compute(indices.shape, body, name="gathered")


@operator("gather_nd")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices of ``x`` at the index tuples along the last dimension of ``indices``.

    The first ``batch_dims`` dimensions are shared and stay in step.
    """
    _expect_integers(indices, "gather_nd")
    width = tuple_width(x, indices, batch_dims, "gather_nd")
    expect_same(x.shape[:batch_dims], indices.shape[:batch_dims], "gather_nd")
    outer = indices.rank - 1

    def body(*i: Expr) -> Expr:
        chosen = tuple(
            index_at(indices, (*i[:outer], literal(j)), x.shape[batch_dims + j])
            for j in range(width)
        )
        return x[(*i[:batch_dims], *chosen, *i[outer:])]

    shape = (*indices.shape[:-1], *x.shape[batch_dims + width :])
    return compute(shape, body, name="gathered")


def tuple_width(x: Tensor, indices: Tensor, batch_dims: int, where: str) -> int:
    """How many indices a tuple in ``indices`` holds; raises WEFT-E0191 where ``x`` has fewer."""
    rank = indices.rank
    expect(rank >= 1, "indices must have a dimension of tuples", where, "WEFT-E0191")
    expect(0 <= batch_dims < min(rank, x.rank + 1), f"batch_dims {batch_dims}", where)
    width = constant_size(indices.shape[-1])
    expect(
        width is not None and batch_dims + width <= x.rank,
        f"indices of shape {indices.shape} into {x.shape}",
        where,
        "WEFT-E0191",
    )
    assert width is not None
    return width


@operator("one_hot")
def one_hot(indices: Tensor, values: Tensor, *, depth: int, axis: int) -> Tensor:
    """``values[1]`` where the new ``axis`` of size ``depth`` meets the index, else ``values[0]``.

    Indices outside -depth … depth-1 meet nothing.
    """
    expect(depth >= 0, f"depth {depth} is negative", "one_hot")
    expect_same(values.shape, (2,), "one_hot")
    axis = axis_index(axis, indices.rank + 1, "one_hot")

    def body(*i: Expr) -> Expr:
        hot = index_at(indices, without(i, axis), depth)
        return select(i[axis].equal(hot), values[1], values[0])

    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return compute(shape, body, name="one_hot")


# ---- Writes at indices that are data, in order.
#
# Of several to one element the last wins, or all combine.


_REDUCTIONS = ("none", "add", "mul", "min", "max")
_ON_BOOLS = {"add": "or", "mul": "and"}


def _monoid_name(reduction: str, dtype: DType, where: str) -> str | None:
    """What ``build.scatter`` calls an ONNX reduction."""
    expect(reduction in _REDUCTIONS, f"unknown reduction {reduction!r}", where)
    if reduction == "none":
        return None
    return _ON_BOOLS.get(reduction, reduction) if dtype.kind == "bool" else reduction


def _check(x: Tensor, indices: Tensor, updates: Tensor, where: str) -> None:
    expect(
        indices.dtype.is_integer, f"indices are {indices.dtype}, not integers", where, "WEFT-E0192"
    )
    expect(x.dtype == updates.dtype, f"{updates.dtype} into {x.dtype}", where, "WEFT-E0192")


@operator("scatter_elements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none"
) -> Tensor:
    """``x`` with ``updates[i]`` at i, its index along ``axis`` taken from ``indices[i]``."""
    where = "scatter_elements"
    _check(x, indices, updates, where)
    axis = axis_index(axis, x.rank, where)
    expect_same(indices.shape, updates.shape, where)
    expect(indices.rank == x.rank, f"{indices.shape} into {x.shape}", where, "WEFT-E0191")
    for d, (size, extent) in enumerate(zip(indices.shape, x.shape, strict=True)):
        a, b = constant_size(size), constant_size(extent)
        fits = d == axis or a is None or b is None or a <= b
        expect(fits, f"{indices.shape} into {x.shape}", where, "WEFT-E0191")

    def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        return replaced(i, axis, index_at(indices, i, x.shape[axis])), updates[i]

    combine = _monoid_name(reduction, x.dtype, where)
    return scatter(x, indices.shape, body, combine=combine, name="scattered")


@operator("scatter_nd")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """``x`` with the slices ``updates`` at the index tuples in ``indices``' last dimension."""
    _check(x, indices, updates, "scatter_nd")
    width = tuple_width(x, indices, 0, "scatter_nd")
    outer = indices.rank - 1
    expect_same(updates.shape, (*indices.shape[:-1], *x.shape[width:]), "scatter_nd")

    def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        chosen = (index_at(indices, (*i[:outer], literal(j)), x.shape[j]) for j in range(width))
        return (*chosen, *i[outer:]), updates[i]

    combine = _monoid_name(reduction, x.dtype, "scatter_nd")
    return scatter(x, updates.shape, body, combine=combine, name="scattered")


@operator("tensor_scatter")
def tensor_scatter(
    cache: Tensor, update: Tensor, starts: Tensor | None, *, axis: int, mode: str
) -> Tensor:
    """A KV cache with ``update`` written from ``starts[b]`` on along ``axis``, batch by batch.

    ``mode`` 'circular' wraps around; 'linear' must fit, which is checked at run time.
    """
    where = "tensor_scatter"
    expect(mode in ("linear", "circular"), f"unknown mode {mode!r}", where)
    expect(cache.dtype == update.dtype, f"{update.dtype} into {cache.dtype}", where, "WEFT-E0192")
    axis = axis_index(axis, cache.rank, where)
    expect(axis > 0, "axis is the batch dimension", where)
    expect_same(without(cache.shape, axis), without(update.shape, axis), where)
    size, length = cache.shape[axis], update.shape[axis]
    a, b = constant_size(length), constant_size(size)
    expect(a is None or b is None or a <= b, f"{length} into {size}", where, "WEFT-E0191")
    if starts is not None:
        expect_same(starts.shape, cache.shape[:1], where)

    def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
        start = literal(0) if starts is None else starts[i[0]].astype("int64")
        at = start + i[axis]
        return replaced(i, axis, at % size if mode == "circular" else at), update[i]

    return scatter(cache, update.shape, body, name="cached")
