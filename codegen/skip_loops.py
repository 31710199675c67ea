"""Skip loops: where data that a loop does not change say that it does nothing, it does not run.

    for j: A[j] = f(j) if g[i] else A[j]    →    if g[i]: for j: A[j] = f(j)
    for j: x += f(j) if g[i] else 0         →    if g[i]: for j: x += f(j)

A condition on data around a loop in the program is asked by each statement inside; here it comes
back to where it stood. It is evaluated only where the loop has a turn, as it was before.
Part of what is known as loop unswitching.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from weft.codegen.conditions import body_given
from weft.codegen.idle import asked_first, idle
from weft.codegen.loop_ir import (
    Block,
    Check,
    Comment,
    For,
    If,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.frontend.scalar_expr import Expr, Load, Var
from weft.frontend.scalar_expr import walk as walk_expr


def skipped(loop: For, shared: Set[str] = frozenset()) -> Stmt | None:
    """``loop`` within the conditions on data without which it does nothing; None: there is none.

    ``shared``: buffers that overlap others.
    """
    if loop.kind == "parallel":
        return None
    checks, rest = _checks_first(loop, shared)
    if checks:
        inner = replace(loop, body=rest)
        return If(loop.lower < loop.upper, Block((*checks, skipped(inner, shared) or inner)))
    found = _condition(loop, shared)
    if found is None:
        return None
    condition, body = found
    inner = replace(loop, body=body)
    made = If(condition, skipped(inner, shared) or inner)
    return If(loop.lower < loop.upper, made) if _loads(condition) else made


def _checks_first(loop: For, shared: Set[str]) -> tuple[list[Stmt], Stmt]:
    """Checks that every turn of ``loop`` begins with, of what it does not change, and the rest."""
    stmts = list(loop.body.stmts) if isinstance(loop.body, Block) else [loop.body]
    checks: list[Stmt] = []
    while stmts and isinstance(stmts[0], Check):
        first = stmts[0]
        if not all(_unchanged(e, loop, shared) for e in (first.condition, *first.detail)):
            break
        checks.append(stmts.pop(0))
    return checks, stmts[0] if len(stmts) == 1 else Block(tuple(stmts))


def _condition(loop: For, shared: Set[str]) -> tuple[Expr, Stmt] | None:
    """A condition without which ``loop`` does nothing, and its body where that holds."""
    body = loop.body
    if isinstance(body, If) and not _effects(body.otherwise) and _asks_data(body):
        return (body.condition, body.then) if _unchanged(body.condition, loop, shared) else None
    for condition in asked_first(body):
        if _loads(condition) and _unchanged(condition, loop, shared) and idle(body, condition):
            return condition, body_given(body, condition, holds=True)
    return None


def _asks_data(stmt: If) -> bool:
    """Whether a condition of ``stmt``, or of all that is in it, is on data."""
    inside: Stmt = stmt
    while isinstance(inside, If) and not _effects(inside.otherwise):
        if _loads(inside.condition):
            return True
        inside = inside.then
    return False


def _unchanged(condition: Expr, loop: For, shared: Set[str]) -> bool:
    """Whether ``condition`` is the same in, and before, all turns of ``loop``."""
    bound, written = {loop.var}, set(shared)
    for stmt in walk(loop.body):
        match stmt:
            case Let(name=name) | For(var=name):
                bound.add(name)
            case Store(buffer=name):
                written.add(name)
            case Update(targets):
                written |= {name for name, _ in targets}
            case Block() | If() | Check() | Comment() | Prefetch():
                pass
            case _:
                return False
    return not any(
        (isinstance(n, Var) and n.name in bound) or (isinstance(n, Load) and n.source in written)
        for n in walk_expr(condition)
    )


def _loads(expr: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk_expr(expr))


def _effects(stmt: Stmt) -> bool:
    return any(not isinstance(s, Block | Comment) for s in walk(stmt)) or any(expressions(stmt))
