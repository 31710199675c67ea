"""Small edits of a Scop that several transformations share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.frontend.scalar_expr import Expr, Var, substitute
from weft.polyhedral.scop import Access, Constraint, Origin, Scop, Statement


def origin_of(statement: Statement) -> Origin:
    """Where ``statement`` comes from; an original statement is its own origin."""
    if statement.origin is not None and statement.origin.statement:
        return statement.origin
    source = statement.origin.source if statement.origin else ""
    return Origin(statement.name, tuple(Var(d) for d in statement.dims), source)


def substitute_access(access: Access, values: Mapping[str, Expr]) -> Access:
    """``access`` with dims replaced by expressions."""
    names = dict(values)
    return replace(
        access,
        indices=tuple(substitute(i, names) for i in access.indices),
        guard=tuple(substitute_constraint(c, names) for c in access.guard),
        body_indices=tuple(substitute(i, names) for i in access.body_indices),
    )


def substitute_constraint(constraint: Constraint, values: Mapping[str, Expr]) -> Constraint:
    return replace(constraint, expr=substitute(constraint.expr, dict(values)))


def insert_nest(scop: Scop, statement: Statement, after: int) -> Scop:
    """``statement`` as a nest of its own behind the top-level nest number ``after`` (-1: first).

    ``statement.position`` begins with any number; the following nests move up by one.
    """
    moved = tuple(
        replace(s, position=(int(s.position[0]) + 1, *s.position[1:]))
        if int(s.position[0]) > after
        else s
        for s in scop.statements
    )
    placed = replace(statement, position=(after + 1, *statement.position[1:]))
    index = next((k for k, s in enumerate(moved) if int(s.position[0]) > after), len(moved))
    return replace(scop, statements=(*moved[:index], placed, *moved[index:]))


def nest_position(dims: tuple[str, ...]) -> tuple[int | str, ...]:
    """The 2d+1 position of a statement alone in its nest."""
    position: list[int | str] = [0]
    for dim in dims:
        position += [dim, 0]
    return tuple(position)


def accesses_of(scop: Scop, tensor: str) -> list[tuple[Statement, Access, bool]]:
    """(statement, access, is write) for every access of ``tensor``, in order."""
    return [
        (s, access, is_write)
        for s in scop.statements
        for is_write, group in ((False, s.reads), (True, s.writes))
        for access in group
        if access.tensor == tensor
    ]
