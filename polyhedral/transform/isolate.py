"""Isolate: a statement in parts, by where its instances lie.

    for i: for k < i: S(i, k)   →   for i: for k < i: if k < 64·(i//64): S(i, k)
                                                      else: S_edge(i, k)

The parts run where the whole did; once they are apart, each may get loops of its own (full tiles
without guards, say, and the triangles at their edges).
Also known as: index-set splitting (Griebl, Feautrier, Lengauer 2000); full-tile separation, isl
``isolate``; Exo ``cut_loop``.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import literal
from weft.ir.scop import Constraint, Scop, Statement
from weft.polyhedral.transform.edit import origin_of
from weft.polyhedral.transform.scheduled import fresh


def isolate(
    scop: Scop, statement: str, where: Seq[Constraint], rest: str = "edge"
) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with ``statement`` where all of ``where`` hold, the others of its instances in new
    statements, whose names end in ``rest``.

    The result names the new ones: the first is where ``where[0]`` fails, the second where only
    ``where[1]`` does, and so on. Raises ``IllegalScheduleError`` (WEFT-E0476) for an equality.
    """
    if any(c.equality for c in where):
        raise IllegalScheduleError(
            "WEFT-E0476", f"{statement} is cut by inequalities only", hint='"i < 8"'
        )
    whole = scop.statement(statement)
    new = not whole.position and whole.origin is None  # a copy, say: it stands for nothing
    origin = None if new else origin_of(whole)
    taken = {s.name for s in scop.statements}
    others = tuple(
        replace(
            whole,
            name=fresh(f"{statement}_{rest}", taken),
            domain=(*whole.domain, *where[:k], negated(failing)),
            origin=origin,
        )
        for k, failing in enumerate(where)
    )
    inside = replace(whole, domain=(*whole.domain, *where), origin=origin)
    statements: list[Statement] = []
    for s in scop.statements:
        statements += (inside, *others) if s.name == statement else (s,)
    return replace(scop, statements=tuple(statements)), tuple(s.name for s in others)


def negated(constraint: Constraint) -> Constraint:
    """Where the inequality ``constraint`` does not hold."""
    return Constraint(literal(-1) - constraint.expr)
