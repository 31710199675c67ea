"""Full point loops: a serial loop around short point loops is split where these are full.

    for w in lo … hi:                                       for w in lo … a:  as before
      for p in max(0, w - n) … min(4, w): unrolled    →     for w in a … b:   for p in 0 … 4: …
        …                                                   for w in b … hi:  as before

In the middle the point loop has constant bounds, so that it is unrolled and its copies keep their
values in registers. So do short vector loops, at any depth, whose lower bound depends on the loop
(the diagonal tiles of a triangle). Skewed bands have such loops, and so does skewed unroll-and-jam.
``split_tails`` separates the full tiles of bands that are not skewed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard

from weft.codegen.cut_loop import cut_loop
from weft.codegen.rebuild import map_children, map_scopes
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import For, Kernel, Stmt, walk
from weft.ir.scalar_expr import Apply, Expr, Literal
from weft.polyhedral.analysis.linear import mentions

_Bounds = Mapping[tuple[Expr, Expr], tuple[Literal, Literal] | None]
SHORT = 64  # iterations of a vector loop whose values may stay in registers


def cut_points(kernel: Kernel) -> Kernel:
    """``kernel`` with serial loops split where the point loops in them are full, simplified."""
    return simplified(kernel, _cut(kernel.body, frozenset(kernel.parameters)))


def _cut(stmt: Stmt, names: frozenset[str]) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind != "serial" or stmt.step != 1:
        return map_scopes(stmt, names, _cut)
    points = [s for s in walk(stmt.body) if isinstance(s, For)]
    if any(p.kind != "unrolled" for p in points):
        body = _cut(stmt.body, names | {stmt.var})
        stmt = stmt if body is stmt.body else replace(stmt, body=body)
        points = [s for s in walk(stmt.body) if _is_vector(s, stmt.var)]
    moving = (p for p in points if mentions(p.lower, (stmt.var,)) or mentions(p.upper, (stmt.var,)))
    full = {(p.lower, p.upper): _full(p) for p in moving}
    if None in full.values():
        return stmt
    needs = [need for bounds in full for need in _needs(*bounds)]
    return cut_loop(stmt, needs, _with_bounds(stmt.body, full), names) or stmt


def _is_vector(stmt: Stmt, var: str) -> TypeGuard[For]:
    """Whether ``stmt`` is a short vector loop whose bounds are constant except at the ends of the
    loop over ``var``."""
    if not isinstance(stmt, For) or stmt.kind != "vector" or not mentions(stmt.lower, (var,)):
        return False
    full = _full(stmt)
    return full is not None and int(full[1].value) - int(full[0].value) <= SHORT


def _full(point: For) -> tuple[Literal, Literal] | None:
    """The bounds of ``point`` when it is full; None if these are not constant."""
    lower, upper = _number(point.lower, "max"), _number(point.upper, "min")
    return None if lower is None or upper is None else (lower, upper)


def _needs(lower: Expr, upper: Expr) -> Iterator[Expr]:
    """The conditions under which a point loop runs from its least to its greatest value."""
    for bound, op, relation in ((lower, "max", "le"), (upper, "min", "ge")):
        number = _number(bound, op)
        assert number is not None
        yield from (Apply(relation, (p, number)) for p in _parts(bound, op) if p != number)


def _parts(bound: Expr, op: str) -> Iterator[Expr]:
    """The operands of a maximum or minimum."""
    if isinstance(bound, Apply) and bound.op == op:
        for arg in bound.args:
            yield from _parts(arg, op)
    else:
        yield bound


def _number(bound: Expr, op: str) -> Literal | None:
    return next((part for part in _parts(bound, op) if isinstance(part, Literal)), None)


def _with_bounds(stmt: Stmt, full: _Bounds) -> Stmt:
    """``stmt`` with the point loops in it full."""
    stmt = map_children(stmt, lambda part: _with_bounds(part, full))
    found = full.get((stmt.lower, stmt.upper)) if isinstance(stmt, For) else None
    if isinstance(stmt, For) and found is not None:
        return replace(stmt, lower=found[0], upper=found[1])
    return stmt
