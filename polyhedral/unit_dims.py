"""Unit dims: a loop of one turn is none.

    for n < 1: for c: Y[n, c] = X[n, c] * s[n]   →   for c: Y[0, c] = X[0, c] * s[0]

A normal form, as ``coalesce`` is one: what is chosen by loops (who shares them, which run in
parallel) and by the last subscript does not depend on batches of one.
"""

from __future__ import annotations

from dataclasses import replace

from weft.frontend.scalar_expr import Expr, Literal, Var, literal, substitute
from weft.frontend.scalar_simplify import simplify
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.scop import Access, Body, Constraint, Origin, Scop, Statement, Tensor


def without_unit_dims(scop: Scop) -> Scop:
    """``scop`` without dims of one value: those of statements, but for loops that several of them
    share, and then those of tensors; the same bytes in every tensor."""
    smaller = tuple(_smaller(scop, s) for s in scop.statements)
    scop = replace(scop, statements=smaller)
    kept = {t.name: _kept(scop, t) for t in scop.tensors}

    def access(a: Access) -> Access:
        return replace(a, indices=tuple(a.indices[d] for d in kept[a.tensor])) if a.indices else a

    statements = (
        replace(s, writes=tuple(map(access, s.writes)), reads=tuple(map(access, s.reads)))
        for s in scop.statements
    )
    tensors = (replace(t, shape=tuple(t.shape[d] for d in kept[t.name])) for t in scop.tensors)
    return replace(scop, tensors=tuple(tensors), statements=tuple(statements))


def _kept(scop: Scop, tensor: Tensor) -> list[int]:
    """The dims of ``tensor`` that are more than one element, or that some access computes."""
    uses = [a for s in scop.statements for a in (*s.writes, *s.reads) if a.tensor == tensor.name]
    every = list(range(len(tensor.shape)))
    if tensor.contracted or any(a.may for a in uses):
        return every
    zero, one = literal(0), literal(1)
    return [d for d in every if tensor.shape[d] != one or any(a.indices[d] != zero for a in uses)]


def _smaller(scop: Scop, s: Statement) -> Statement:
    values: dict[str, Expr] = {
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


def _fixed(s: Statement, values: dict[str, Expr]) -> Statement:
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


def _without(position: tuple[int | str, ...], values: dict[str, Expr]) -> tuple[int | str, ...]:
    """``position`` without the loops of ``values``, each with the place inside of it."""
    gone = {k for k, entry in enumerate(position) if entry in values}
    return tuple(p for k, p in enumerate(position) if k not in gone and k - 1 not in gone)


def _holds(constraint: Constraint) -> bool:
    if not isinstance(constraint.expr, Literal):
        return False
    return constraint.expr.value == 0 if constraint.equality else constraint.expr.value >= 0
