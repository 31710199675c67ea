"""Writes at indices that are data, in order.

Of several to one element the last wins, or all combine.
"""

from __future__ import annotations

from weft.dtypes import DType
from weft.frontend.build import scatter
from weft.frontend.operators.arguments import axis_index, expect, expect_same, replaced, without
from weft.frontend.operators.gather import index_at, tuple_width
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, literal
from weft.frontend.tensor_expr import Tensor, constant_size

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
