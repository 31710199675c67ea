"""Skip loops: where data that a loop does not change say that it does nothing, it does not run.

    for j: A[j] = f(j) if g[i] else A[j]    →    if g[i]: for j: A[j] = f(j)
    for j: x += f(j) if g[i] else 0         →    if g[i]: for j: x += f(j)

A condition on data around a loop in the program is asked by each statement inside; here it comes
back to where it stood. It is evaluated only where the loop has a turn, as it was before.
Part of what is known as loop unswitching.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from weft import dtypes
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
from weft.codegen.rebuild import map_all_expressions
from weft.frontend.scalar_expr import Expr, Literal, Load, Select, Var, literal, rewrite
from weft.frontend.scalar_expr import walk as walk_expr
from weft.frontend.tensor_expr import Monoid

_TRUE = literal(True, dtypes.bool_)


def skipped(loop: For, shared: Set[str] = frozenset()) -> Stmt | None:
    """``loop`` within the conditions on data without which it does nothing; None: there is none.

    ``shared``: buffers that overlap others.
    """
    if loop.kind == "parallel":
        return None
    found = _condition(loop, shared)
    if found is None:
        return None
    condition, body = found
    inner = replace(loop, body=body)
    made = If(condition, skipped(inner, shared) or inner)
    return If(loop.lower < loop.upper, made) if _loads(condition) else made


def _condition(loop: For, shared: Set[str]) -> tuple[Expr, Stmt] | None:
    """A condition without which ``loop`` does nothing, and its body where that holds."""
    body = loop.body
    if isinstance(body, If) and not _effects(body.otherwise) and _asks_data(body):
        return (body.condition, body.then) if _unchanged(body.condition, loop, shared) else None
    for condition in _asked_first(body):
        if _loads(condition) and _unchanged(condition, loop, shared) and _idle(body, condition, {}):
            return condition, _where(body, condition)
    return None


def _asks_data(stmt: If) -> bool:
    """Whether a condition of ``stmt``, or of all that is in it, is on data."""
    inside: Stmt = stmt
    while isinstance(inside, If) and not _effects(inside.otherwise):
        if _loads(inside.condition):
            return True
        inside = inside.then
    return False


def _asked_first(stmt: Stmt) -> Iterator[Expr]:
    """What the first effect of ``stmt`` is selected by, in every turn."""
    while isinstance(stmt, Block | Let):
        if isinstance(stmt, Let):
            stmt = stmt.body
        else:
            stmt = next((s for s in stmt.stmts if not isinstance(s, Comment)), Comment(""))
    values = stmt.values if isinstance(stmt, Update) else ()
    for value in (stmt.value,) if isinstance(stmt, Store) else values:
        if isinstance(value, Select):
            yield value.condition
            yield ~value.condition


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


def _idle(stmt: Stmt, condition: Expr, lets: Mapping[str, Expr]) -> bool:
    """Whether ``stmt`` has no effect where ``condition`` is false."""
    match stmt:
        case Block(stmts):
            return all(_idle(each, condition, lets) for each in stmts)
        case Let(name, value, body):
            return _idle(body, condition, {**lets, name: value})
        case Comment() | Prefetch():
            return True
        case Store(buffer, indices, value):
            kept = _otherwise(value, condition)
            if isinstance(kept, Var):
                kept = lets.get(kept.name)
            return isinstance(kept, Load) and (kept.source, kept.indices) == (buffer, indices)
        case Update(_, monoid, values):
            left = [_otherwise(value, condition) for value in values]
            return len(left) == 1 and left[0] is not None and _neutral(left[0], monoid)
        case Check(asked):
            return _otherwise(asked, condition) == _TRUE
    return False


def _otherwise(value: Expr, condition: Expr) -> Expr | None:
    """What ``value`` is where ``condition`` is false, if that is all it depends on."""
    if isinstance(value, Select):
        if value.condition == condition:
            return value.if_false
        if _opposite(value.condition, condition):
            return value.if_true
    return None


def _opposite(one: Expr, other: Expr) -> bool:
    return one == ~other or other == ~one


def _neutral(value: Expr, monoid: Monoid) -> bool:
    """Whether folding ``value`` in changes nothing: -0.0 of sums, to which 0.0 is an addend."""
    if not isinstance(value, Literal):
        return False
    number = value.value
    if monoid.name == "add" and value.dtype.is_float:
        return number == 0 and math.copysign(1.0, float(number)) < 0
    return bool(number == monoid.identity[0])


def _where(stmt: Stmt, condition: Expr) -> Stmt:
    """``stmt`` where ``condition`` holds."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Select) and node.condition == condition:
            return node.if_true
        if isinstance(node, Select) and _opposite(node.condition, condition):
            return node.if_false
        return None

    return map_all_expressions(stmt, lambda e: rewrite(e, change))


def _loads(expr: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk_expr(expr))


def _effects(stmt: Stmt) -> bool:
    return any(not isinstance(s, Block | Comment) for s in walk(stmt)) or any(expressions(stmt))
