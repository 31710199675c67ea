"""The identity of a Scop: a text in which no name, only structure, appears. No isl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.frontend.scalar_affine import simplify
from weft.frontend.scalar_expr import Expr, Var, rewrite
from weft.frontend.scalar_polynomial import from_polynomial, polynomial
from weft.frontend.scalar_printer import scalar_text
from weft.frontend.tensor_expr import Monoid
from weft.polyhedral.scop import Access, Body, Constraint, Scop, Statement, Update
from weft.polyhedral.scop_printer import scop_text

Renaming = Mapping[str, Expr]


def canonical_text(scop: Scop) -> str:
    """Equal for Scops that differ in names and origins only, and for no others.

    Names are replaced by numbers in order of declaration. The order of tensors and statements
    counts: it is part of the interface of what is compiled from the Scop.
    """
    return scop_text(canonical(scop)) + _monoid_texts(scop)


def canonical(scop: Scop) -> Scop:
    """``scop`` under canonical names: parameters ``p0`` …, tensors ``T0`` …, statements ``S0`` …"""
    parameters: Renaming = {name: Var(f"p{n}") for n, name in enumerate(scop.parameters)}
    tensors = {tensor.name: f"T{n}" for n, tensor in enumerate(scop.tensors)}
    return Scop(
        "scop",
        tuple(f"p{n}" for n in range(len(scop.parameters))),
        _constraints(scop.context, parameters),
        tuple(
            replace(t, name=tensors[t.name], shape=_indices(t.shape, parameters))
            for t in scop.tensors
        ),
        tuple(_statement(s, f"S{n}", parameters, tensors) for n, s in enumerate(scop.statements)),
        tuple(
            (_name(parameters[name]), from_polynomial(polynomial(_renamed(value, parameters))))
            for name, value in scop.derived
        ),
    )


def _statement(
    statement: Statement, name: str, parameters: Renaming, tensors: Mapping[str, str]
) -> Statement:
    known: dict[str, Expr] = dict(parameters)
    known |= {dim: Var(f"d{n}") for n, dim in enumerate(statement.dims)}
    lets = []
    for number, (let, value) in enumerate(statement.body.lets):
        lets.append((f"v{number}", _normal(value, known)))
        known[let] = Var(f"v{number}", value.dtype)
    update = statement.update
    if update is not None:
        dims = tuple(_name(known[dim]) for dim in update.dims)
        update = Update(replace(update.monoid, name="fold"), dims)
    return Statement(
        name,
        tuple(f"d{n}" for n in range(len(statement.dims))),
        _constraints(statement.domain, known),
        tuple(p if isinstance(p, int) else _name(known[p]) for p in statement.position),
        tuple(_access(access, known, tensors) for access in statement.writes),
        tuple(_access(access, known, tensors) for access in statement.reads),
        Body(tuple(lets), tuple(_normal(r, known) for r in statement.body.results)),
        update,
    )


def _access(access: Access, known: Renaming, tensors: Mapping[str, str]) -> Access:
    return Access(
        tensors[access.tensor],
        _indices(access.indices, known),
        _constraints(access.guard, known),
        access.may,
        tuple(_normal(index, known) for index in access.body_indices),
    )


def _indices(exprs: tuple[Expr, ...], known: Renaming) -> tuple[Expr, ...]:
    return tuple(_normal(expr, known) for expr in exprs)


def _constraints(constraints: tuple[Constraint, ...], known: Renaming) -> tuple[Constraint, ...]:
    """In an order of their own, each once."""
    found = {Constraint(_normal(c.expr, known), c.equality) for c in constraints}
    return tuple(sorted(found, key=lambda c: (c.equality, scalar_text(c.expr))))


def _normal(expr: Expr, known: Renaming) -> Expr:
    """Renamed, with the terms of index arithmetic in an order that depends on new names only."""
    return simplify(_renamed(expr, known))


def _name(variable: Expr) -> str:
    assert isinstance(variable, Var)
    return variable.name


def _renamed(expr: Expr, known: Renaming) -> Expr:
    def change(node: Expr) -> Expr | None:
        return known.get(node.name) if isinstance(node, Var) else None

    return rewrite(expr, change)


def _monoid_texts(scop: Scop) -> str:
    """What the updates fold with, for names of monoids mean nothing."""
    updates = [s.update for s in scop.statements if s.update is not None]
    return "".join(f"fold {_monoid_text(update.monoid)}\n" for update in updates)


def _monoid_text(monoid: Monoid) -> str:
    sides = {v.name: Var(f"l{n}", v.dtype) for n, v in enumerate(monoid.left)}
    sides |= {v.name: Var(f"r{n}", v.dtype) for n, v in enumerate(monoid.right)}
    parts = [scalar_text(_renamed(part, sides)) for part in monoid.combined]
    types = [str(dtype) for dtype in monoid.dtypes]
    identity = [repr(value) for value in monoid.identity]
    laws = sorted(monoid.laws)
    return " | ".join(", ".join(column) for column in (types, parts, identity, laws))
