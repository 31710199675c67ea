"""Loop unswitching: invariant conditions are tested before an innermost loop.

    for j:                          if c:
      if c: A[j] = …          →       for j: A[j] = …; B[j] = …
      B[j] = …                      else:
                                      for j: B[j] = …

A vector loop would mask every lane otherwise. Selects of operands in the stream of a register tile
are unswitched, too: a branch between product and sum would prevent a fused multiply-add. At most
two conditions per loop. Other serial loops are unswitched only if the condition guards their whole
body, so that no code is duplicated. Conditions on data without which a loop is a no-op are tested
before any loop (``skipped``).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

from weft.codegen.conditions import body_given, both, parts_of
from weft.codegen.guarded import leading_conditions, no_op_unless
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import (
    Block,
    Check,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    children,
    expressions,
    walk,
)
from weft.ir.scalar_expr import Expr, Load, Select, Var, has_loads
from weft.ir.scalar_expr import walk as walk_expr

CONDITIONS = 2  # unswitched per loop


def unswitch(kernel: Kernel) -> Kernel:
    """``kernel`` with invariant conditions outside of its innermost loops, simplified."""
    shared = {name for b in kernel.buffers if b.aliases for name in (b.name, *b.aliases)}
    return simplified(kernel, _outside(kernel.body, shared))


def _outside(stmt: Stmt, shared: set[str]) -> Stmt:
    if isinstance(stmt, For) and _is_stream(stmt):
        split = _split(stmt, CONDITIONS)
        if split is not stmt:
            return split
    stmt = map_children(stmt, lambda part: _outside(part, shared))
    if isinstance(stmt, For) and (found := skipped(stmt, shared)) is not None:
        return found
    if isinstance(stmt, For) and not any(isinstance(s, For) for s in walk(stmt.body)):
        return _split(stmt, CONDITIONS)
    if isinstance(stmt, For) and stmt.kind == "serial" and isinstance(stmt.body, If):
        return _split(stmt, CONDITIONS)
    return stmt


def _is_stream(loop: For) -> bool:
    """Whether each iteration of ``loop`` consists of unrolled updates of registers."""
    inside = list(walk(loop.body))
    return (
        loop.kind == "serial"
        and any(isinstance(s, For) for s in inside)
        and any(isinstance(s, Update) for s in inside)
        and all(s.kind in ("unrolled", "vector") for s in inside if isinstance(s, For))
        and all(isinstance(s, Block | For | Let | Update | Prefetch | Comment) for s in inside)
    )


def _split(loop: For, left: int) -> Stmt:
    found = next(_conditions(loop), None) if left else None
    if found is None:
        return loop
    met, unmet = (_where(loop.body, found, holds) for holds in (True, False))
    otherwise = _split(replace(loop, body=unmet), left - 1) if _has_effects(unmet) else Block(())
    return If(found, _split(replace(loop, body=met), left - 1), otherwise)


def _conditions(loop: For) -> Iterator[Expr]:
    """Invariant conditions in ``loop``."""
    innermost = _is_stream(loop) or not any(isinstance(s, For) for s in walk(loop.body))
    bound = {loop.var} | {s.var for s in walk(loop.body) if isinstance(s, For)}
    for stmt in walk(loop.body) if innermost else _outer_guards(loop.body):
        if isinstance(stmt, Let):
            bound.add(stmt.name)
        for condition in _tested(stmt, stream=_is_stream(loop)):
            for part in parts_of(condition):
                if not any(
                    isinstance(n, Load) or (isinstance(n, Var) and n.name in bound)
                    for n in walk_expr(part)
                ):
                    yield part


def _outer_guards(stmt: Stmt) -> Iterator[Stmt]:
    """The conditions that guard all of ``stmt``, from the outside in."""
    if isinstance(stmt, If):
        yield stmt
        yield from _outer_guards(stmt.then)
        yield from _outer_guards(stmt.otherwise)


def _tested(stmt: Stmt, *, stream: bool) -> Iterator[Expr]:
    """The conditions of guards in ``stmt`` and, in a ``stream``, of selects of operands."""
    if isinstance(stmt, If):
        yield stmt.condition
    if isinstance(stmt, Update) and stream:
        selects = (n for v in stmt.values for n in walk_expr(v) if isinstance(n, Select))
        yield from (n.condition for n in selects)


def _where(stmt: Stmt, condition: Expr, holds: bool) -> Stmt:
    return body_given(decided(stmt, condition, holds=holds), condition, holds=holds)


def decided(stmt: Stmt, condition: Expr, *, holds: bool) -> Stmt:
    """``stmt`` simplified under the assumption that ``condition`` holds, or does not."""
    if isinstance(stmt, If) and condition in parts_of(stmt.condition):
        if not holds:
            return decided(stmt.otherwise, condition, holds=False)
        rest = [part for part in parts_of(stmt.condition) if part != condition]
        then = decided(stmt.then, condition, holds=True)
        if not rest:
            return then
        return If(both(rest), then, decided(stmt.otherwise, condition, holds=True))
    return map_children(stmt, lambda part: decided(part, condition, holds=holds))


def _has_effects(stmt: Stmt) -> bool:
    """Whether ``stmt`` has any effect."""
    return not isinstance(stmt, Block) or any(_has_effects(part) for part in children(stmt))


# ---- Skipped loops: a loop that is a no-op unless a condition on invariant data holds.
#
#     for j: A[j] = f(j) if g[i] else A[j]    →    if g[i]: for j: A[j] = f(j)
#     for j: x += f(j) if g[i] else 0         →    if g[i]: for j: x += f(j)
#
# The front end moves a condition on data around a loop into each statement; this moves it back. It
# is evaluated only if the loop has an iteration, as before.


def skipped(loop: For, shared: Set[str] = frozenset()) -> Stmt | None:
    """``loop`` guarded by the conditions on data without which it is a no-op; None if there are
    none. ``shared``: buffers that may alias others."""
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
    return If(loop.lower < loop.upper, made) if has_loads(condition) else made


def _checks_first(loop: For, shared: Set[str]) -> tuple[list[Stmt], Stmt]:
    """Invariant checks at the beginning of each iteration of ``loop``, and the rest of the body."""
    stmts = list(loop.body.stmts) if isinstance(loop.body, Block) else [loop.body]
    checks: list[Stmt] = []
    while stmts and isinstance(stmts[0], Check):
        first = stmts[0]
        if not all(_unchanged(e, loop, shared) for e in (first.condition, *first.detail)):
            break
        checks.append(stmts.pop(0))
    return checks, stmts[0] if len(stmts) == 1 else Block(tuple(stmts))


def _condition(loop: For, shared: Set[str]) -> tuple[Expr, Stmt] | None:
    """A condition without which ``loop`` is a no-op, and its body under that condition."""
    body = loop.body
    if isinstance(body, If) and not _effects(body.otherwise) and _depends_on_data(body):
        return (body.condition, body.then) if _unchanged(body.condition, loop, shared) else None
    for condition in leading_conditions(body):
        if (
            has_loads(condition)
            and _unchanged(condition, loop, shared)
            and no_op_unless(body, condition)
        ):
            return condition, body_given(body, condition, holds=True)
    return None


def _depends_on_data(stmt: If) -> bool:
    """Whether a condition of ``stmt``, or of all that is in it, depends on data."""
    inside: Stmt = stmt
    while isinstance(inside, If) and not _effects(inside.otherwise):
        if has_loads(inside.condition):
            return True
        inside = inside.then
    return False


def _unchanged(condition: Expr, loop: For, shared: Set[str]) -> bool:
    """Whether ``condition`` is invariant in ``loop`` and has the same value before it."""
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


def _effects(stmt: Stmt) -> bool:
    return any(not isinstance(s, Block | Comment) for s in walk(stmt)) or any(expressions(stmt))
