"""Unit dims: a loop of one turn is none.

    for n < 1: for c: Y[n, c] = X[n, c] * s[n]   →   for c: Y[0, c] = X[0, c] * s[0]

A normal form, as ``coalesce`` is one: what is chosen by loops (who shares them, which run in parallel)
does not depend on batches of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.frontend.scalar_affine import simplify
from weft.frontend.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.scop import Access, Body, Constraint, Origin, Scop, Statement


def without_unit_dims(scop: Scop) -> Scop:
    """``scop`` without dims of one value, but for those of loops that several statements share."""
    return replace(scop, statements=tuple(_smaller(scop, s) for s in scop.statements))


def _smaller(scop: Scop, s: Statement) -> Statement:
    values = {
        dim: low
        for dim, (low, high) in box(s).items()
        if isinstance(low, Literal) and high == literal(int(low.value) + 1)
        if _alone(scop, s, dim)
    }
    if not values:
        return s
    folded = s.update.dims if s.update else ()
    if set(folded) and set(folded) <= values.keys():  # a fold of one step is a fold
        values.pop(folded[-1])
    return _fixed(s, values)


def _alone(scop: Scop, s: Statement, dim: str) -> bool:
    """Whether no other statement runs in the loop along ``dim``."""
    if dim not in s.position:
        return False
    before = s.position[: s.position.index(dim) + 1]
    return not any(t.position[: len(before)] == before for t in scop.statements if t is not s)


def _fixed(s: Statement, values: Mapping[str, Expr]) -> Statement:
    def fixed(expr: Expr) -> Expr:
        return simplify(substitute(expr, values))

    def access(a: Access) -> Access:
        guard = tuple(Constraint(fixed(c.expr), c.equality) for c in a.guard)
        return replace(
            a,
            indices=tuple(map(fixed, a.indices)),
            guard=tuple(c for c in guard if not _holds(c)),
            body_indices=tuple(substitute(e, values) for e in a.body_indices),
        )

    domain = (Constraint(fixed(c.expr), c.equality) for c in s.domain)
    dims = tuple(d for d in s.dims if d not in values)
    return replace(
        s,
        dims=dims,
        domain=tuple(c for c in domain if not _holds(c)),
        position=_without(s.position, values),
        writes=tuple(map(access, s.writes)),
        reads=tuple(map(access, s.reads)),
        body=Body(
            tuple((name, substitute(e, values)) for name, e in s.body.lets),
            tuple(substitute(e, values) for e in s.body.results),
        ),
        update=s.update and replace(s.update, dims=tuple(d for d in s.update.dims if d in dims)),
        origin=s.origin and Origin(s.name, tuple(map(Var, dims)), s.origin.source),
    )


def _without(position: tuple[int | str, ...], values: Mapping[str, Expr]) -> tuple[int | str, ...]:
    """``position`` without the loops of ``values``, each with the place inside of it."""
    gone = {k for k, entry in enumerate(position) if entry in values}
    return tuple(p for k, p in enumerate(position) if k not in gone and k - 1 not in gone)


def _holds(constraint: Constraint) -> bool:
    if not isinstance(constraint.expr, Literal):
        return False
    return constraint.expr.value == 0 if constraint.equality else constraint.expr.value >= 0
