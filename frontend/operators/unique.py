"""Operators whose output sizes depend on data.

Their definitions return results of the greatest possible size and an int64 scalar that says how
much of it counts. Import asks for the scalar and slices the rest away.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, nan

from weft.frontend.operators.arguments import axis_index, expect, replaced, total, without
from weft.frontend.operators.registry import operator
from weft.ir import build, dtypes
from weft.ir.build import compute, computes, isnan, reduce_axis, scan, scatter, select
from weft.ir.dtypes import DType
from weft.ir.limits import check_comparisons
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.tensor_expr import Axis, Monoid, Size, Tensor, as_size, constant_size


def running_count(flags: Tensor) -> Tensor:
    """How many of the bools ``flags`` (one dimension) hold up to and including each. int64."""

    def body(itself: Callable[..., Expr], i: Expr) -> tuple[Expr, ...]:
        earlier = select(i > 0, itself(0, i - 1), 0)
        return (earlier + flags[i].astype(dtypes.int64),)

    return scan(flags.shape, body, dtypes_=(dtypes.int64,), name="running_count")[0]


def last_or_zero(x: Tensor) -> Tensor:
    """The last element of a one-dimensional int64 tensor as a scalar, 0 where it is empty."""
    size = x.shape[0]
    if constant_size(size) == 0:
        return compute((), lambda: literal(0), name="count")
    return compute((), lambda: select(as_size(size) > 0, x[as_size(size) - 1], 0), name="count")


def positions(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Where the bools ``flags`` (one dimension) hold, in order, and how many do. int64."""
    running = running_count(flags)
    size = flags.shape[0]
    found = scatter(
        compute((size,), lambda i: literal(0), name="nowhere"),
        (size,),
        lambda i: ((running[i] - 1,), i),
        condition=lambda i: flags[i],
        name="positions",
    )
    return found, last_or_zero(running)


@operator("nonzero")
def nonzero(x: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates (rank × elements) of what is not zero, in row-major order, and their number."""
    shape = x.shape if x.rank else (1,)
    count: Size = total(shape)
    flat = build.reshape(x, (count,), name="flat")
    flags = compute((count,), lambda i: flat[i].astype(dtypes.bool_), name="is_nonzero")
    found, number = positions(flags)
    strides = [as_size(total(shape[d + 1 :])) for d in range(len(shape))]

    def coordinate(d: Expr, i: Expr) -> Expr:
        value = found[i] % as_size(shape[-1])
        for axis in reversed(range(len(shape) - 1)):
            here = found[i] // strides[axis] % as_size(shape[axis])
            value = select(d.equal(axis), here, value)
        return value

    rows = x.rank
    return compute((rows, count), coordinate, name="coordinates"), number


@operator("unique")
def unique(x: Tensor, *, axis: int | None, sorted_: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The different slices of ``x`` along ``axis`` (None: its elements).

    Returns, of the axis's size n each and int64: where each different slice is met first, for every
    slice which different one it is, how often each occurs; and the scalar number of different ones.
    ``sorted_`` orders them ascending, lexicographically, NaN last, else as they are met. All NaNs
    are one value. Work: all pairs of slices.
    """
    compare = _comparison(x, axis)
    size = total(x.shape) if axis is None else x.shape[axis]
    check_comparisons("unique", size, size, *(() if axis is None else without(x.shape, axis)))

    def pairwise(i: Expr) -> tuple[Axis, Expr]:
        j = reduce_axis((0, size), name="j")
        return j, compare(j, i)

    def first_equal(i: Expr) -> Expr:
        j, order = pairwise(i)
        return build.min_over(select(order.equal(0), j, as_size(size)), axis=j)

    first = compute((size,), first_equal, name="first_equal")
    flags = compute((size,), lambda i: first[i].equal(i), name="is_first")

    def place(i: Expr) -> Expr:
        j, order = pairwise(i)
        ahead = order < 0 if sorted_ else j < first[i]
        return build.sum((flags[j] & ahead).astype(dtypes.int64), axis=j)

    inverse = compute((size,), place, name="inverse")
    zeros = compute((size,), lambda i: literal(0), name="none_yet")
    indices = scatter(
        zeros, (size,), lambda i: ((inverse[i],), i), condition=lambda i: flags[i], name="indices"
    )
    counts = scatter(
        zeros, (size,), lambda i: ((inverse[i],), literal(1)), combine="add", name="counts"
    )
    return indices, inverse, counts, last_or_zero(running_count(flags))


def _comparison(x: Tensor, axis: int | None) -> Callable[[Expr, Expr], Expr]:
    """(i, j) -> -1, 0 or 1 as slice i is below, like or above slice j."""
    if axis is None or x.rank == 1:
        flat = build.reshape(x, (total(x.shape),), name="flat")
        return lambda i, j: _order(flat[i], flat[j])
    others = [d for d in range(x.rank) if d != axis]

    def body(i: Expr, j: Expr) -> Expr:
        inner = [reduce_axis((0, x.shape[d]), name=f"e{d}") for d in others]
        left, right = (x[(*inner[:axis], e, *inner[axis:])] for e in (i, j))
        return build.reduce(_LEXICOGRAPHIC, (_order(left, right),), axis=inner)[0]

    table = compute((x.shape[axis], x.shape[axis]), body, name="order")
    return lambda i, j: table[i, j]


def _order(a: Expr, b: Expr) -> Expr:
    above, below = greater(a, b), greater(b, a)
    return above.astype(dtypes.int64) - below.astype(dtypes.int64)


_LEFT, _RIGHT = Var("left"), Var("right")
_LEXICOGRAPHIC = Monoid(
    "lexicographic",
    (_LEFT,),
    (_RIGHT,),
    (select(_LEFT.not_equal(0), _LEFT, _RIGHT),),
    (0,),
    frozenset({"associative"}),
)


# ---- Order: ranks by counting, and the k first elements. NaN is the greatest value, as in NumPy.
#
# Neither needs a comparison network or a merge: a rank is a sum, selection is a scan of
# reductions.


Ordering = Callable[[Expr, Expr], Expr]


def greater(a: Expr, b: Expr) -> Expr:
    """Whether ``a`` is strictly greater in the total order that puts NaN last."""
    return ~(a <= b) & ~isnan(b) if a.dtype.is_float else a > b


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

    Equal elements come in the order of their indices. Work: where k is small against the axis, one
    pass over it and k over few of its elements, or k over all; else a comparison of all pairs.
    """
    axis = axis_index(axis, x.rank, "top_k")
    expect(x.dtype.kind != "bool", f"no order on {x.dtype}", "top_k", "WEFT-E0192")
    extent = constant_size(x.shape[axis])
    fits = k >= 0 and (extent is None or k <= extent)
    expect(fits, f"k = {k} of {x.shape[axis]} elements", "top_k")
    before = greater if largest else less
    few = extent is None or 8 * k <= extent
    indices = _select_first(x, k, axis, before) if few else _sort_first(x, k, axis, before)
    indices = compute(indices.shape, lambda *i: indices[i].astype(dtypes.int64), name="top_indices")
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
    """Indices of the ``k`` first. They are in the ``k`` groups whose own first elements come first;
    the elements of a group are as far apart as there are groups."""
    size = constant_size(x.shape[axis])
    groups = None if size is None else _groups(size, k)
    if size is None or groups is None:
        return _one_by_one(x, None, k, axis, before)
    number = _numbers(size)
    first = _first_of(x.dtype, number, before)

    def best(*i: Expr) -> tuple[Expr, ...]:
        t = reduce_axis((0, size // groups), name="t")
        index = i[axis] + t * groups
        pair = (x[replaced(i, axis, index)], index.astype(number))
        return build.reduce(first, pair, axis=t)

    values, indices = computes(replaced(x.shape, axis, groups), best, name="group_firsts")
    chosen = _one_by_one(values, indices, k, axis, before)
    shape = replaced(x.shape, axis, k * (size // groups))

    def member(*i: Expr) -> Expr:
        group = chosen[replaced(i, axis, i[axis] % k)] % groups
        return group + (i[axis] // k * groups).astype(number)

    members = compute(shape, member, name="members")

    def value(*i: Expr) -> Expr:
        return x[replaced(i, axis, members[i].astype(dtypes.int64))]

    return _one_by_one(compute(shape, value, name="member_values"), members, k, axis, before)


def _groups(size: int, k: int) -> int | None:
    """How many groups an axis of ``size`` has, so that ``k`` rounds over the first ones of all
    groups and over ``k`` whole groups are short; None where that saves less than half of ``k``
    rounds over everything."""
    most = isqrt(size // k) if k else 0
    if most < 2:
        return None
    each = max(b for b in range(1, most + 1) if size % b == 0)
    rounds = k * (size // each + k * each)
    return size // each if 2 * (size + rounds) <= k * size else None


def _one_by_one(x: Tensor, at: Tensor | None, k: int, axis: int, before: Ordering) -> Tensor:
    """Indices of the ``k`` first, or what ``at`` has in their place: each is the first of those
    after the one found before it."""
    check_comparisons("top_k", k, *x.shape)
    others = without(x.shape, axis)
    number = _numbers(x.shape[axis]) if at is None else at.dtype
    first = _first_of(x.dtype, number, before)

    def body(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr, ...]:
        round_, rest = i[0], i[1:]
        j = reduce_axis((0, x.shape[axis]), name="j")
        place = (*rest[:axis], j, *rest[axis:])
        value, index = x[place], j.astype(number) if at is None else at[place]
        last_value, last = itself(0, round_ - 1, *rest), itself(1, round_ - 1, *rest)
        after = before(last_value, value) | (~before(value, last_value) & (index > last))
        open_ = select(round_.equal(0), literal(True, dtypes.bool_), after)
        return build.reduce(first, (value, index), axis=j, where=open_)

    shape: tuple[Size, ...] = (k, *others)
    found = scan(shape, body, dtypes_=(x.dtype, number), along=1, name="selected")[1]
    return compute(
        (*others[:axis], k, *others[axis:]),
        lambda *i: found[(i[axis], *without(i, axis))],
        name="top_indices",
    )


def _numbers(size: Size) -> DType:
    """The type of indices below ``size``: vectors of it have as many as of most elements."""
    extent = constant_size(size)
    return dtypes.int64 if extent is None or extent > 2**31 - 1 else dtypes.int32


def _nobody(x: DType, number: DType, before: Ordering) -> tuple[int | float, int]:
    """The pair of value and index that comes after all others."""
    if before is greater:
        return x.lowest, int(number.highest)
    return nan if x.is_float else x.highest, int(number.highest)


def _first_of(x: DType, number: DType, before: Ordering) -> Monoid:
    """(value, index) pairs under 'the first in order'."""
    lv, rv = Var("left_value", x), Var("right_value", x)
    li, ri = Var("left_index", number), Var("right_index", number)
    right = before(rv, lv) | (~before(lv, rv) & (ri < li))
    combined = (select(right, rv, lv), select(right, ri, li))
    return Monoid("first_in_order", (lv, li), (rv, ri), combined, _nobody(x, number, before))
