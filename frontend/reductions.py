"""Reductions, as people write them: sums, extrema, folds over any monoid."""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.errors import ExpressionError
from weft.frontend.scalar_expr import Expr, Number, Var, apply, not_scalar, select
from weft.frontend.tensor_expr import Axis, Monoid, Reduce

Axes = Axis | Sequence[Axis]


def monoid(name: str, dtype: DType) -> Monoid:
    """A monoid on one scalar: 'add', 'mul', 'min', 'max', 'and', 'or' or 'xor'."""
    identities: dict[str, Number] = {
        "add": 0,
        "mul": 1,
        "min": dtype.highest,
        "max": dtype.lowest,
        "and": True if dtype.kind == "bool" else -1,
        "or": 0,
        "xor": 0,
    }
    if name not in identities:
        raise ExpressionError(
            "WEFT-E0119", f"there is no monoid {name!r}", hint=f"monoids: {', '.join(identities)}"
        )
    left, right = Var("left", dtype), Var("right", dtype)
    return Monoid(name, (left,), (right,), (apply(name, left, right),), (identities[name],))


def _fold(name: str, value: Expr, axis: Axes, where: Expr | None) -> Expr:
    if not isinstance(value, Expr):
        raise not_scalar(value)
    return Reduce(monoid(name, value.dtype), _reduced(axis), (value,), where)


def _reduced(axis: Axes) -> tuple[Axis, ...]:
    """The axes that ``axis=`` names."""
    axes = (axis,) if isinstance(axis, Axis) else axis
    if not isinstance(axes, Sequence) or not all(isinstance(a, Axis) for a in axes):
        raise ExpressionError(
            "WEFT-E0118",
            f"axis={axis!r} is no reduction axis",
            hint='k = weft.reduce_axis((0, n), name="k"), then axis=k',
        )
    return tuple(axes)


def sum(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """Sum of ``value`` over ``axis``."""
    return _fold("add", value, axis, where)


def prod(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    return _fold("mul", value, axis, where)


def min_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """Least value over ``axis``; NaN wins."""
    return _fold("min", value, axis, where)


def max_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    """Greatest value over ``axis``; NaN wins."""
    return _fold("max", value, axis, where)


def all_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    return _fold("and", value, axis, where)


def any_over(value: Expr, axis: Axes, *, where: Expr | None = None) -> Expr:
    return _fold("or", value, axis, where)


def reduce(
    monoid_: Monoid, values: Sequence[Expr], axis: Axes, *, where: Expr | None = None
) -> tuple[Expr, ...]:
    """The components of a fold over a tuple of scalars."""
    axes = _reduced(axis)
    return tuple(Reduce(monoid_, axes, tuple(values), where, c) for c in range(len(values)))


def argmax(value: Expr, index: Expr, axis: Axes, *, last: bool = False) -> Expr:
    """``index`` at the greatest ``value``, the first (or ``last``) such; NaN counts as greatest."""
    return _arg("gt", "argmax", value.dtype.lowest, value, index, axis, last)[1]


def max_with_index(
    value: Expr, index: Expr, axis: Axes, *, where: Expr | None = None
) -> tuple[Expr, Expr]:
    """The greatest ``value`` and ``argmax``, -1 where nothing is left to choose from."""
    found = _arg("gt", "argmax", value.dtype.lowest, value, index, axis, False, where)
    return found[0], found[1]


def argmin(value: Expr, index: Expr, axis: Axes, *, last: bool = False) -> Expr:
    """``index`` at the least ``value``, the first such (or ``last``); a NaN counts as least."""
    return _arg("lt", "argmin", value.dtype.highest, value, index, axis, last)[1]


def _arg(
    better: str,
    name: str,
    worst: Number,
    value: Expr,
    index: Expr,
    axis: Axes,
    last: bool,
    where: Expr | None = None,
) -> tuple[Expr, ...]:
    lv, rv = Var("left_value", value.dtype), Var("right_value", value.dtype)
    li, ri = Var("left_index", index.dtype), Var("right_index", index.dtype)
    none = -1  # index of the identity, which loses every tie
    wins = apply(better, rv, lv)
    tie = rv.equal(lv)
    if value.dtype.is_float:
        left_nan, right_nan = apply("isnan", lv), apply("isnan", rv)
        wins = wins | (right_nan & ~left_nan)
        tie = tie | (left_nan & right_nan)
    earlier = (ri > li) if last else (ri < li)
    wins = li.equal(none) | (wins | (tie & earlier)) & ri.not_equal(none)
    m = Monoid(
        f"{name}_last" if last else name,
        (lv, li),
        (rv, ri),
        (select(wins, rv, lv), select(wins, ri, li)),
        (worst, none),
    )
    return reduce(m, (value, index), axis, where=where)
