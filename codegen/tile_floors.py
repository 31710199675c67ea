"""Floors that the loop over tiles decides.

    for t: for k in 384*t .. min(384*t + 384, K): … k // 384 …        k // 384  →  t

A point loop's variable is the first value of its tile plus an offset below a constant; a lower
bound that is a maximum bounds it by each operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir import dtypes
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, rewrite, substitute, walk
from weft.ir.scalar_simplify import simplify

Ranges = Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Start:
    """A loop variable v with ``first`` <= v < ``first`` + ``size``."""

    first: Expr
    size: int


Starts = Mapping[str, Start]


def start(lower: Expr, upper: Expr, ranges: Ranges, lets: Mapping[str, Expr]) -> Start | None:
    """``Start`` of a loop variable with these bounds, in terms of names around and of ``lets``;
    None if their distance has no constant bound."""
    first, end = substitute(lower, dict(lets)), substitute(upper, dict(lets))
    known: list[Start] = []
    for begin in _all_of("max", first):  # each operand is a lower bound
        if isinstance(begin, Literal):
            continue  # ranges cover this case
        sizes = [bounds(simplify(e - begin, ranges), ranges)[1] for e in _all_of("min", end)]
        known += (Start(begin, size) for size in sizes if size is not None and size > 0)
    return min(known, key=lambda found: found.size, default=None)


def _all_of(which: str, expr: Expr) -> list[Expr]:
    """The operands of ``expr`` if it is a minimum ("min") or maximum ("max")."""
    match expr:
        case Apply(op, (left, right)) if op == which:
            return _all_of(which, left) + _all_of(which, right)
    return [expr]


def without_floors(expr: Expr, ranges: Ranges, starts: Starts) -> Expr:
    """``expr``, in normal form, without the floors that ``starts`` decide."""
    if not starts or not any(_is_floor(n) for n in walk(expr)):
        return expr
    offsets = {name: f"{name} within its tile" for name in starts}  # no name has spaces
    moved = {name: s.first + Var(offsets[name], dtypes.int64) for name, s in starts.items()}
    hidden = set(offsets.values())
    inside = {**ranges, **{offsets[n]: (0, s.size - 1) for n, s in starts.items()}}

    def change(node: Expr) -> Expr | None:
        if not _is_floor(node):
            return None
        value = simplify(substitute(node, moved), inside)
        free = any(isinstance(n, Var) and n.name in hidden for n in walk(value))
        return None if free else value

    changed = rewrite(expr, change)
    return expr if changed is expr else simplify(changed, ranges)


def _is_floor(node: Expr) -> bool:
    match node:
        case Apply("floordiv", (_, Literal())):
            return node.dtype == dtypes.int64
    return False
