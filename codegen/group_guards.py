"""Group guards: statements next to each other with the same condition on data share one branch.

    A[i] = x if g else A[i]             if g:
    B[i] = y if g else B[i]      →        A[i] = x
                                          B[i] = y

A condition around several statements of a program becomes a select in each of them, which suits
vector loops; in scalar code one branch is cheaper. Bounds checks of data-dependent indices that
were already made are removed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_

from weft.codegen.conditions import body_given
from weft.codegen.guarded import leading_conditions, no_op_unless
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import (
    Block,
    Check,
    For,
    If,
    Kernel,
    Stmt,
    Store,
    Update,
    walk,
)
from weft.ir.scalar_expr import Expr, Load
from weft.ir.scalar_expr import walk as walk_expr


def group_guards(kernel: Kernel) -> Kernel:
    """``kernel`` with one branch around neighbours that are no-ops without its condition,
    simplified."""
    if any(b.aliases for b in kernel.buffers):
        return kernel
    return simplified(kernel, _scalars(kernel.body))


def _scalars(stmt: Stmt) -> Stmt:
    """``stmt`` with guards grouped in innermost serial loops."""
    if isinstance(stmt, For):
        if stmt.kind == "vector":
            return stmt
        if not any(isinstance(s, For) for s in walk(stmt.body)):
            return map_children(stmt, _grouped)
    return map_children(stmt, _scalars)


def _grouped(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Block):
        return map_children(stmt, _grouped)
    items = list(_once(list(_flat(stmt))))
    done: list[Stmt] = []
    while items:
        condition, run = _longest(items)
        if condition is None:
            done.append(map_children(items.pop(0), _grouped))
            continue
        inside = body_given(Block(tuple(items[:run])), condition, holds=True)
        done.append(If(condition, _grouped(inside)))
        del items[:run]
    same = len(done) == len(stmt.stmts) and all(map(is_, done, stmt.stmts))
    return stmt if same else Block(tuple(done))


def _flat(stmt: Stmt) -> Iterator[Stmt]:
    if isinstance(stmt, Block):
        for each in stmt.stmts:
            yield from _flat(each)
    else:
        yield stmt


def _once(items: Sequence[Stmt]) -> Iterator[Stmt]:
    """``items`` without repeated checks of data that have not changed in between."""
    checked: list[Expr] = []
    for item in items:
        if isinstance(item, Check):
            if item.condition in checked:
                continue
            checked.append(item.condition)
        written = _written(item)
        checked = [c for c in checked if not written & _loaded(c)]
        yield item


def _longest(items: Sequence[Stmt]) -> tuple[Expr | None, int]:
    """The condition without which the longest prefix of ``items`` is a no-op, and the length of the
    prefix; None if a branch does not pay."""
    best: tuple[Expr | None, int] = None, 0
    for condition in leading_conditions(items[0]):
        run = 0
        for item in items:
            if not no_op_unless(item, condition):
                break
            run += 1
            if _written(item) & _loaded(condition):
                break
        asked = sum(isinstance(i, Check) or bool(_written(i)) for i in items[:run])
        if run > best[1] and asked > 1:
            best = condition, run
    return best


def _written(stmt: Stmt) -> set[str]:
    found: set[str] = set()
    for each in walk(stmt):
        match each:
            case Store(buffer=name):
                found.add(name)
            case Update(targets):
                found |= {name for name, _ in targets}
    return found


def _loaded(condition: Expr) -> set[str]:
    return {str(n.source) for n in walk_expr(condition) if isinstance(n, Load)}
