"""Sums that are correlations with stride 1, found by their access relations.

    y[.., i, ..] = f(Σ_{.., k, ..} x(.., i + k, ..) * w(.., k, ..))

A *slide* is a loop i of the result and a loop k of the sum such that x depends on the two through i
+ k (or i - k) alone, and w does not depend on i. That is checked on expressions, by substituting i
= p - k: k has to vanish. Names, the order of dimensions, and pads, casts or gathers of x do not
matter. So rows and columns of a convolution with stride 1 are slides in any layout; those with
other strides or dilations are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from weft.ir import dtypes
from weft.ir.scalar_expr import Apply, Expr, Load, Var, select, substitute, variable_names, walk
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Itself,
    Operation,
    Reduce,
    constant_size,
)

MAX_NODES = 256  # of an expression that is searched
FEWEST_TAPS, MOST_TAPS = 2, 7


@dataclass(frozen=True, slots=True)
class Slide:
    """x depends on ``axis`` and ``tap`` through axis + sign * tap alone, w not on ``axis``.

    ``outputs`` and ``taps``: their trip counts. ``inner``: ``axis`` steps through x's contiguous
    dimension, or is the result's.
    """

    axis: Axis
    tap: Axis
    sign: int
    outputs: int
    taps: int
    inner: bool = field(default=False, compare=False)

    @property
    def base(self) -> int:
        """The least value of sign * tap, so that axis + sign * tap - base counts from 0."""
        first = constant_size(self.tap.lower) or 0
        return first if self.sign > 0 else -(first + self.taps - 1)

    def at(self, position: Expr) -> Expr:
        """``axis`` where x is at ``position``, counted from 0; ``tap`` cancels in x."""
        shift = self.tap if self.sign < 0 else -self.tap
        return position + self.base + shift

    def tap_at(self, k: int) -> int:
        """The value of ``tap`` at the kth position of a window."""
        first = constant_size(self.tap.lower) or 0
        return first + (k if self.sign > 0 else self.taps - 1 - k)


@dataclass(frozen=True, slots=True)
class Correlation:
    """The one sum of ``operation``: of ``x`` * ``w`` over ``fold.axes``.

    ``slides``: any of its correlations. ``windows``: all in which x slides, whatever w does.
    """

    operation: Compute
    fold: Reduce
    x: Expr
    w: Expr
    slides: tuple[Slide, ...]
    windows: tuple[Slide, ...]


def correlation_of(operation: Operation) -> Correlation | None:
    """``operation`` as a correlation along at least one loop; None if it is none."""
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return None
    nodes = at_most(operation.values[0], MAX_NODES)
    folds = [n for n in nodes if isinstance(n, Reduce)]
    if len(folds) != 1 or any(isinstance(n, Load) and isinstance(n.source, Itself) for n in nodes):
        return None
    (fold,) = folds
    if not fold.monoid.is_sum or fold.dtype not in (dtypes.float32, dtypes.float64):
        return None
    loops = {axis.name for axis in (*operation.axes, *fold.axes)}
    if any(variable_names(bound) & loops for a in fold.axes for bound in (a.lower, a.upper)):
        return None
    factors = _factors(fold.values[0])
    for axis in operation.axes:
        found = _along(operation, fold, factors, axis)
        if found is not None:
            return found
    return None


def at_most(expr: Expr, count: int) -> list[Expr]:
    """The nodes of ``expr``; none if there are more than ``count``."""
    found = []
    for node in walk(expr):
        found.append(node)
        if len(found) > count:
            return []
    return found


def _factors(value: Expr) -> list[Expr]:
    match value:
        case Apply("mul", (left, right)):
            return [*_factors(left), *_factors(right)]
    return [value]


def _along(
    operation: Compute, fold: Reduce, factors: Sequence[Expr], axis: Axis
) -> Correlation | None:
    """A correlation along ``axis``, x being all factors that depend on it; None if there is
    none."""
    moving = [f for f in factors if axis.name in variable_names(f)]
    others = [f for f in factors if axis.name not in variable_names(f)]
    if not moving or not others:
        return None
    x, w = _product(moving), _product(others)
    if fold.condition is not None:  # excluded points add 0
        if axis.name not in variable_names(fold.condition):
            return None
        x = select(fold.condition, x, 0)
    windows = tuple(s for a in operation.axes for t in fold.axes for s in _slides(x, a, t))
    if len({s.axis for s in windows}) < len(windows) or len({s.tap for s in windows}) < len(
        windows
    ):
        return None
    inner = {operation.axes[-1].name, *_contiguous(x)}
    windows = tuple(replace(s, inner=s.axis.name in inner) for s in windows)
    slides = tuple(s for s in windows if s.axis.name not in variable_names(w))
    if axis not in {s.axis for s in slides}:
        return None
    return Correlation(operation, fold, x, w, slides, windows)


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda left, right: left * right, factors)


def _slides(x: Expr, axis: Axis, tap: Axis) -> list[Slide]:
    """The slide of ``x`` along ``axis`` and ``tap``, if it is one."""
    outputs, taps = constant_size(axis.extent), constant_size(simplify(tap.extent))
    if outputs is None or taps is None or constant_size(tap.lower) is None:
        return []
    if not FEWEST_TAPS <= taps <= MOST_TAPS or not {axis.name, tap.name} <= variable_names(x):
        return []
    for sign in (1, -1):
        slide = Slide(axis, tap, sign, outputs, taps)
        if tap.name not in variable_names(positioned(x, {slide: axis})):
            return [slide]
    return []


def positioned(x: Expr, positions: Mapping[Slide, Expr]) -> Expr:
    """``x`` at ``positions`` of its windows, each counted from 0."""
    return simplify(substitute(x, {s.axis.name: s.at(p) for s, p in positions.items()}))


def _contiguous(x: Expr) -> set[str]:
    """The variables in last indices of what ``x`` loads."""
    last = [n.indices[-1] for n in walk(x) if isinstance(n, Load) and n.indices]
    return {name for index in last for name in variable_names(index)}


def variables(expr: Expr) -> tuple[str, ...]:
    """The variables of ``expr``: those that index what it loads in that order, then the others."""
    loads = [i for node in walk(expr) if isinstance(node, Load) for i in node.indices]
    names = (n.name for e in (*loads, expr) for n in walk(e) if isinstance(n, Var))
    return tuple(dict.fromkeys(names))
