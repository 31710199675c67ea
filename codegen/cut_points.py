"""Cut at points: a serial loop around short point loops is cut where these are full.

    for w in lo … hi:                                       for w in lo … a:  as before
      for p in max(0, w - n) … min(4, w): unrolled    →     for w in a … b:   for p in 0 … 4: …
        …                                                   for w in b … hi:  as before

In the middle the point loop is constant, so it is written out, and its copies keep their values in
registers. So are short vector loops, anywhere inside, whose first turn depends on the loop (the
diagonal tiles of a triangle). A skewed band has such loops (``split_tails`` tells the tiles of one
that is not skewed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.codegen.loop_ir import Block, For, If, Kernel, Let, Stmt, walk
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.codegen.tile_bounds import TRUE, all_of, extreme
from weft.frontend.scalar_affine import Affine, FloorDiv, to_affine, to_expr
from weft.frontend.scalar_expr import Apply, Expr, Literal, Load, Var, literal
from weft.frontend.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions


def cut_points(kernel: Kernel) -> Kernel:
    """``kernel`` with serial loops cut where the point loops in them are full, simplified."""
    made: list[For] = []
    body = _cut(kernel.body, made)
    return simplify_kernel(replace(kernel, body=body)) if made else kernel


SHORT = 64  # turns of a vector loop whose values may stay in registers


@dataclass(frozen=True, slots=True)
class _Range:
    """Where a loop's point loops are full: from ``lower`` on, below ``upper``, if ``given``."""

    lower: tuple[Expr, ...]
    upper: tuple[Expr, ...]
    given: tuple[Expr, ...]


def _cut(stmt: Stmt, made: list[For]) -> Stmt:
    """``made`` takes the loops that are cut."""
    if not isinstance(stmt, For) or stmt.kind != "serial" or stmt.step != 1:
        return map_children(stmt, lambda part: _cut(part, made))
    points = [s for s in walk(stmt.body) if isinstance(s, For)]
    if any(p.kind != "unrolled" for p in points):
        stmt = replace(stmt, body=_cut(stmt.body, made))
        points = [p for p in points if _is_vector(p, stmt.var)]
    points = [p for p in points if mentions(p.lower, (stmt.var,)) or mentions(p.upper, (stmt.var,))]
    full = _full(stmt, points)
    if full is None:
        return stmt
    made.append(stmt)
    begin, end = Var(f"{stmt.var}.full"), Var(f"{stmt.var}.rest")
    lowest = extreme("min", [extreme("max", [stmt.lower, *full.lower]), stmt.upper])
    highest = extreme("max", [extreme("min", [stmt.upper, *full.upper]), begin])
    parts = (
        replace(stmt, upper=begin),
        replace(stmt, lower=begin, upper=end, body=_with_full_points(stmt.body, points)),
        replace(stmt, lower=end),
    )
    apart = Let(begin.name, lowest, Let(end.name, highest, Block(parts)))
    given = all_of(full.given)
    return apart if given == TRUE else If(given, apart, stmt)


def _is_vector(point: For, var: str) -> bool:
    """Whether ``point`` is a vector loop, short and constant but for the ends of the loop over
    ``var``."""
    if point.kind != "vector" or not mentions(point.lower, (var,)):
        return False
    lower, upper = _number(point.lower, "max"), _number(point.upper, "min")
    return lower is not None and upper is not None and int(upper.value) - int(lower.value) <= SHORT


def _full(loop: For, points: list[For]) -> _Range | None:
    """Where all ``points`` that depend on the loop are full; None if none does, or who knows."""
    lower: list[Expr] = []
    upper: list[Expr] = []
    given: list[Expr] = []
    inside = {s.var for s in walk(loop.body) if isinstance(s, For)}
    inside |= {s.name for s in walk(loop.body) if isinstance(s, Let)}
    for point in points:
        for need in _needs(point):
            if need is None or any(isinstance(n, Load) for n in walk_expr(to_expr(need))):
                return None
            if mentions(to_expr(need), inside):
                return None
            if loop.var not in need.variables():
                given.append(to_expr(need) >= 0)
                continue
            bound = _bound(need, loop.var)
            if bound is None:
                return None
            (lower if bound[0] else upper).append(bound[1])
    if not lower and not upper:
        return None
    return _Range(tuple(lower), tuple(upper), tuple(given))


def _needs(point: For) -> Iterator[Affine | None]:
    """What has to be at least 0 for ``point`` to run from its least to its greatest number."""
    for bound, op, sign in ((point.lower, "max", -1), (point.upper, "min", 1)):
        number = _number(bound, op)
        if number is None:
            yield None
            continue
        for part in _parts(bound, op):
            if part != number:
                form = to_affine(part - number)
                yield None if form is None else form.scaled(sign)


def _parts(bound: Expr, op: str) -> Iterator[Expr]:
    if isinstance(bound, Apply) and bound.op == op:
        for arg in bound.args:
            yield from _parts(arg, op)
    else:
        yield bound


def _number(bound: Expr, op: str) -> Literal | None:
    return next((part for part in _parts(bound, op) if isinstance(part, Literal)), None)


def _bound(need: Affine, var: str) -> tuple[bool, Expr] | None:
    """What ``need >= 0`` says of ``var``: (True, least) or (False, least that is too much)."""
    inside = [(t, c) for t, c in need.terms if isinstance(t, FloorDiv) and _has(t, var)]
    if inside:
        ((floor, c), *others) = inside
        assert isinstance(floor, FloorDiv)
        if others or need.coefficient(var) or c not in (1, -1):
            return None
        rest = need - Affine(((floor, c),))
        if c == 1:  # floor(x / d) >= -rest  <=>  x + d*rest >= 0
            need = floor.numerator + rest.scaled(floor.divisor)
        else:  # floor(x / d) <= rest  <=>  d*rest + d - 1 - x >= 0
            need = rest.scaled(floor.divisor).plus(floor.divisor - 1) - floor.numerator
        return _bound(need, var)
    c = need.coefficient(var)
    other = to_expr(need - Affine(((var, c),)))
    return (True, (literal(c - 1) - other) // c) if c > 0 else (False, other // -c + 1)


def _has(floor: FloorDiv, var: str) -> bool:
    return var in floor.numerator.variables()


def _with_full_points(stmt: Stmt, points: list[For]) -> Stmt:
    full = stmt in points
    stmt = map_children(stmt, lambda part: _with_full_points(part, points))
    if full and isinstance(stmt, For):
        lower, upper = _number(stmt.lower, "max"), _number(stmt.upper, "min")
        assert lower is not None and upper is not None
        return replace(stmt, lower=lower, upper=upper)
    return stmt
