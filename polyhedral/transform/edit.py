"""Small edits of a Scop that several transformations share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import networkx as nx

from weft.frontend.scalar_expr import Expr, Var, substitute
from weft.polyhedral.scop import Access, Constraint, Origin, Scop, Statement

Use = tuple[str, int]  # statement, number among its uses of a tensor: its reads, then its writes


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


def insert_nest(scop: Scop, statement: Statement, after: Statement | None) -> Scop:
    """``statement`` as a nest of its own behind that of ``after`` (None: before all others), in
    the order of the program as in that of its statements; the nests that follow move up by one."""
    place = 0 if after is None else int(after.position[0]) + 1
    moved = [
        replace(s, position=(int(s.position[0]) + 1, *s.position[1:]))
        if int(s.position[0]) >= place
        else s
        for s in scop.statements
    ]
    first = next((k for k, s in enumerate(moved) if int(s.position[0]) > place), len(moved))
    moved.insert(first, replace(statement, position=(place, *statement.position[1:])))
    return replace(scop, statements=tuple(moved))


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


def uses_of(statement: Statement, tensor: str) -> list[tuple[Access, bool]]:
    """The accesses of ``tensor``, as ``Use`` numbers them, with whether each writes it."""
    groups = ((statement.reads, False), (statement.writes, True))
    return [(a, is_write) for group, is_write in groups for a in group if a.tensor == tensor]


def parts_of(
    together: nx.Graph[Use], uses: Mapping[str, Sequence[tuple[Access, bool]]]
) -> list[set[Use]]:
    """The connected parts of ``together`` that write, in its order. A use in none of them is a read
    that no instance performs: no value would ever be in a tensor of its own."""
    writes = {
        (s, k) for s, found in uses.items() for k, (_, is_write) in enumerate(found) if is_write
    }
    return [part for part in nx.connected_components(together) if part & writes]


def renamed_uses(statement: Statement, tensor: str, name_of: Mapping[Use, str]) -> Statement:
    """``statement`` with the uses of ``tensor`` in ``name_of`` as accesses of other tensors."""
    number = 0

    def change(access: Access) -> Access:
        nonlocal number
        if access.tensor != tensor:
            return access
        name = name_of.get((statement.name, number), tensor)
        number += 1
        return access if name == tensor else replace(access, tensor=name)

    reads = tuple(map(change, statement.reads))
    return replace(statement, reads=reads, writes=tuple(map(change, statement.writes)))
