"""Operators whose output sizes depend on data.

Their definitions return results of the greatest possible size and an int64 scalar that says how
much of it counts. Import asks for the scalar and slices the rest away.
"""

from __future__ import annotations

from collections.abc import Callable

from weft import dtypes
from weft.frontend import build
from weft.frontend.build import compute, reduce_axis, scan, scatter, select
from weft.frontend.limits import check_comparisons
from weft.frontend.operators.arguments import total, without
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sort import greater
from weft.frontend.scalar_expr import Expr, Var, literal
from weft.frontend.tensor_expr import Axis, Monoid, Size, Tensor, as_size, constant_size


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
