"""Unswitch: conditions that an innermost loop does not change are asked before it.

    for j:                          if c:
      if c: A[j] = …          →       for j: A[j] = …; B[j] = …
      B[j] = …                      else:
                                      for j: B[j] = …

A vector loop would otherwise mask every lane. So do the conditions by which the stream of a
register tile selects its operands: a branch between a product and its sum would keep these apart.
At most two conditions of one loop go outside. They go around other serial loops where these do
nothing but ask them: what is inside is as long as before. Those of data, without which a loop does
nothing at all, do so from every loop (``skip_loops``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.codegen.conditions import body_given, both, parts_of
from weft.codegen.loop_ir import (
    Block,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Update,
    children,
    walk,
)
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplified
from weft.codegen.skip_loops import skipped
from weft.frontend.scalar_expr import Expr, Load, Select, Var
from weft.frontend.scalar_expr import walk as walk_expr

CONDITIONS = 2


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
    """Whether each turn of ``loop`` is updates of registers, written out."""
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
    otherwise = _split(replace(loop, body=unmet), left - 1) if _does(unmet) else Block(())
    return If(found, _split(replace(loop, body=met), left - 1), otherwise)


def _conditions(loop: For) -> Iterator[Expr]:
    """Conditions in ``loop`` that are the same in all of its iterations."""
    innermost = _is_stream(loop) or not any(isinstance(s, For) for s in walk(loop.body))
    bound = {loop.var} | {s.var for s in walk(loop.body) if isinstance(s, For)}
    for stmt in walk(loop.body) if innermost else _whole(loop.body):
        if isinstance(stmt, Let):
            bound.add(stmt.name)
        for condition in _asked(stmt, stream=_is_stream(loop)):
            for part in parts_of(condition):
                if not any(
                    isinstance(n, Load) or (isinstance(n, Var) and n.name in bound)
                    for n in walk_expr(part)
                ):
                    yield part


def _whole(stmt: Stmt) -> Iterator[Stmt]:
    """The conditions that are all of ``stmt``, one inside the other."""
    if isinstance(stmt, If):
        yield stmt
        yield from _whole(stmt.then)
        yield from _whole(stmt.otherwise)


def _asked(stmt: Stmt, *, stream: bool) -> Iterator[Expr]:
    """What ``stmt`` asks, and, in a ``stream``, what its operands are selected by."""
    if isinstance(stmt, If):
        yield stmt.condition
    if isinstance(stmt, Update) and stream:
        selects = (n for v in stmt.values for n in walk_expr(v) if isinstance(n, Select))
        yield from (n.condition for n in selects)


def _where(stmt: Stmt, condition: Expr, holds: bool) -> Stmt:
    return body_given(decided(stmt, condition, holds=holds), condition, holds=holds)


def decided(stmt: Stmt, condition: Expr, *, holds: bool) -> Stmt:
    """``stmt`` where ``condition`` is known to hold, or not to."""
    if isinstance(stmt, If) and condition in parts_of(stmt.condition):
        if not holds:
            return decided(stmt.otherwise, condition, holds=False)
        rest = [part for part in parts_of(stmt.condition) if part != condition]
        then = decided(stmt.then, condition, holds=True)
        if not rest:
            return then
        return If(both(rest), then, decided(stmt.otherwise, condition, holds=True))
    return map_children(stmt, lambda part: decided(part, condition, holds=holds))


def _does(stmt: Stmt) -> bool:
    """Whether ``stmt`` does anything."""
    return not isinstance(stmt, Block) or any(_does(part) for part in children(stmt))
