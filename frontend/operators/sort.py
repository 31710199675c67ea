"""Order: ranks by counting, and the k first elements. NaN is the greatest value, as in NumPy.

Neither needs a comparison network or a merge: a rank is a sum, selection is a scan of reductions.
"""

from __future__ import annotations

from collections.abc import Callable

from weft import dtypes
from weft.frontend import build
from weft.frontend.build import compute, isnan, reduce_axis, scan, scatter, select
from weft.frontend.limits import check_comparisons
from weft.frontend.operators.arguments import axis_index, expect, replaced, without
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, Var, literal
from weft.frontend.tensor_expr import Monoid, Size, Tensor, constant_size

Ordering = Callable[[Expr, Expr], Expr]


def greater(a: Expr, b: Expr) -> Expr:
    """Whether ``a`` is strictly greater in the total order that puts NaN last."""
    return (a > b) | (isnan(a) & ~isnan(b)) if a.dtype.is_float else a > b


def less(a: Expr, b: Expr) -> Expr:
    """Whether ``a`` is strictly less in the total order that puts NaN last."""
    return greater(b, a)


def ranks(x: Tensor, axis: int, before: Ordering) -> Tensor:
    """How many elements along ``axis`` come before each one; equal ones keep their order. int64."""
    size = x.shape[axis]
    check_comparisons("sorting", *x.shape, size)

    def body(*i: Expr) -> Expr:
        j = reduce_axis((0, size), name="j")
        here, there = x[i], x[replaced(i, axis, j)]
        first = select(j < i[axis], ~before(here, there), before(there, here))
        return build.sum(first.astype(dtypes.int64), axis=j)

    return compute(x.shape, body, name="rank")


@operator("top_k")
def top_k(x: Tensor, *, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The ``k`` greatest (or least) elements along ``axis``, best first, and their indices.

    Equal elements come in the order of their indices. Work: k passes over the axis where k is
    small against it, else a comparison of all pairs.
    """
    axis = axis_index(axis, x.rank, "top_k")
    expect(x.dtype.kind != "bool", f"no order on {x.dtype}", "top_k", "WEFT-E0192")
    extent = constant_size(x.shape[axis])
    fits = k >= 0 and (extent is None or k <= extent)
    expect(fits, f"k = {k} of {x.shape[axis]} elements", "top_k")
    before = greater if largest else less
    few = extent is None or 8 * k <= extent
    indices = _select_first(x, k, axis, before) if few else _sort_first(x, k, axis, before)
    values = compute(indices.shape, lambda *i: x[replaced(i, axis, indices[i])], name="top_values")
    return values, indices


def _sort_first(x: Tensor, k: int, axis: int, before: Ordering) -> Tensor:
    """Indices of the ``k`` first: each element goes where its rank says."""
    rank = ranks(x, axis, before)
    shape = replaced(x.shape, axis, k)
    base = compute(shape, lambda *i: literal(0), name="unsorted")
    return scatter(
        base,
        x.shape,
        lambda *i: (replaced(i, axis, rank[i]), i[axis]),
        condition=lambda *i: rank[i] < k,
        name="top_indices",
    )


def _select_first(x: Tensor, k: int, axis: int, before: Ordering) -> Tensor:
    """Indices of the ``k`` first: each is the first of those after the one found before it."""
    check_comparisons("top_k", k, *x.shape)
    others = without(x.shape, axis)
    first = _first_of(x, before)

    def body(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr, ...]:
        round_, rest = i[0], i[1:]
        j = reduce_axis((0, x.shape[axis]), name="j")
        value = x[(*rest[:axis], j, *rest[axis:])]
        last_value, last = itself(0, round_ - 1, *rest), itself(1, round_ - 1, *rest)
        after = before(last_value, value) | (~before(value, last_value) & (j > last))
        open_ = select(round_.equal(0), literal(True, dtypes.bool_), after)
        return build.reduce(first, (value, select(open_, j, _NOBODY)), axis=j)

    shape: tuple[Size, ...] = (k, *others)
    found = scan(shape, body, dtypes_=(x.dtype, dtypes.int64), along=1, name="selected")[1]
    return compute(
        (*others[:axis], k, *others[axis:]),
        lambda *i: found[(i[axis], *without(i, axis))],
        name="top_indices",
    )


_NOBODY = -1


def _first_of(x: Tensor, before: Ordering) -> Monoid:
    """(value, index) pairs under 'the first in order'; index -1 is nobody, who loses to all."""
    lv, rv = Var("left_value", x.dtype), Var("right_value", x.dtype)
    li, ri = Var("left_index"), Var("right_index")
    better = before(rv, lv) | (~before(lv, rv) & (ri < li))
    right = ri.not_equal(_NOBODY) & (li.equal(_NOBODY) | better)
    combined = (select(right, rv, lv), select(right, ri, li))
    return Monoid("first_in_order", (lv, li), (rv, ri), combined, (0, _NOBODY))
