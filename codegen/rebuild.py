"""Rebuilding loop IR: children or expressions of statements changed, statements put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_

from weft.ir import dtypes
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    Block,
    Check,
    For,
    If,
    Issue,
    Let,
    LoadMatrices,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
)
from weft.ir.scalar_expr import Expr, literal


def map_children(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """``stmt`` with ``change`` applied to its children; ``stmt`` itself if nothing changes.

    A chain of lets counts as one statement, so that it takes no stack.
    """
    match stmt:
        case Block(stmts):
            changed = tuple(map(change, stmts))
            return stmt if all(map(is_, changed, stmts)) else Block(changed)
        case For() | While() | Allocate() | Single():
            body = change(stmt.body)
            return stmt if body is stmt.body else replace(stmt, body=body)
        case If():
            then, otherwise = change(stmt.then), change(stmt.otherwise)
            same = then is stmt.then and otherwise is stmt.otherwise
            return stmt if same else replace(stmt, then=then, otherwise=otherwise)
        case Let():
            chain = [stmt]
            while isinstance(chain[-1].body, Let):
                chain.append(chain[-1].body)
            body = change(chain[-1].body)
            if body is chain[-1].body:
                return stmt
            for let in reversed(chain):
                body = replace(let, body=body)
            return body
    return stmt


def map_scopes(
    stmt: Stmt, names: frozenset[str], change: Callable[[Stmt, frozenset[str]], Stmt]
) -> Stmt:
    """Like ``map_children``; ``change`` also gets the names bound at the child, ``names`` being
    bound around ``stmt``."""
    inner = stmt
    while isinstance(inner, Let):
        names = names | {inner.name}
        inner = inner.body
    if isinstance(stmt, For):
        names = names | {stmt.var}
    return map_children(stmt, lambda part: change(part, names))


def map_expressions(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """``stmt`` with ``change`` applied to the expressions that it evaluates itself."""
    match stmt:
        case For():
            return replace(stmt, lower=change(stmt.lower), upper=change(stmt.upper))
        case While() | If():
            return replace(stmt, condition=change(stmt.condition))
        case Let():
            return replace(stmt, value=change(stmt.value))
        case Store():
            streams = None if stmt.streams is None else change(stmt.streams)
            indices = tuple(map(change, stmt.indices))
            return Store(stmt.buffer, indices, change(stmt.value), streams)
        case Update():
            targets = tuple((name, tuple(map(change, at))) for name, at in stmt.targets)
            return replace(stmt, targets=targets, values=tuple(map(change, stmt.values)))
        case Check(condition, code, (first, second)):
            return Check(change(condition), code, (change(first), change(second)))
        case Prefetch():
            return replace(stmt, indices=tuple(map(change, stmt.indices)))
        case Issue():
            operands = tuple((name, tuple(map(change, at))) for name, at in stmt.operands)
            return replace(stmt, operands=operands)
        case LoadMatrices(tile=tile, indices=indices):
            moved = tuple(map(change, tile)), tuple(map(change, indices))
            return replace(stmt, tile=moved[0], indices=moved[1], lane=change(stmt.lane))
        case AsyncCopy((target, to), (source, start), count, valid):
            placed = (target, tuple(map(change, to))), (source, tuple(map(change, start)))
            return AsyncCopy(*placed, count, change(valid))
    return stmt


def map_all_expressions(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """``stmt`` with ``change`` applied to the expressions that it and all inside it evaluate."""
    if isinstance(stmt, Let):
        chain = [stmt]
        while isinstance(chain[-1].body, Let):
            chain.append(chain[-1].body)
        body = map_all_expressions(chain[-1].body, change)
        for let in reversed(chain):
            body = Let(let.name, change(let.value), body)
        return body
    return map_expressions(map_children(stmt, lambda s: map_all_expressions(s, change)), change)


def let(lets: Sequence[tuple[str, Expr]], stmt: Stmt) -> Stmt:
    """``stmt`` in the scope of ``lets``."""
    for name, value in reversed(lets):
        stmt = Let(name, value, stmt)
    return stmt


def under(condition: Expr, stmt: Stmt) -> Stmt:
    """``stmt`` guarded by ``condition``, unless that is true."""
    return stmt if condition == literal(True, dtypes.bool_) else If(condition, stmt)


def block(stmts: Sequence[Stmt]) -> Stmt:
    """``stmts`` in sequence."""
    return stmts[0] if len(stmts) == 1 else Block(tuple(stmts))
