"""Sums of few terms run in scalars, where vectors wait for their elements.

    for j:                               for j:
      for k in lo … hi vector:             if hi - lo <= 24: for k in lo … hi: s += x[k] · y[k]
        s += x[k] · y[k]           →       else: for k in lo … hi vector: s += x[k] · y[k]
      x[j] = s / d                         x[j] = s / d

The vector that holds ``x[j - 1]`` overlaps a store of one element, which processors do not forward
to it: it waits until the store has reached the cache (Agner Fog, "The microarchitecture of Intel,
AMD and VIA CPUs", store forwarding stalls), and then its lanes are still to be folded. Scalars take
their elements from the stores, and all but the last term of their sum are there before these.

    for j: for k in 0 … n vector: s += a[j, k] · x[c[j, k]]

Elements out of no row are gathered one by one, which a few terms do not make up for either.

Both hold as long as branch predictors foresee the end of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.codegen.map_loops import Place
from weft.codegen.never_alias import never_alias
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import (
    Block,
    Check,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    children,
    walk,
)
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Load, Var, has_loads
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions


def short_sums(kernel: Kernel, machine: Machine) -> Kernel:
    """``kernel`` with loops in scalars beside vector loops that fold what the serial loop around
    them stores element by element, or what they gather, for trip counts at which these take no
    longer."""
    known = frozenset(kernel.parameters)

    def inside(stmt: Stmt, around: For | None) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "vector":
            return _both(stmt, machine) if _waits(stmt, around, known) else stmt
        if isinstance(stmt, For):
            around = stmt if stmt.kind == "serial" else None
        return map_children(stmt, lambda part: inside(part, around))

    body = inside(kernel.body, None)
    return kernel if body is kernel.body else simplified(kernel, body)


def _both(loop: For, machine: Machine) -> Stmt:
    short = loop.upper - loop.lower <= machine.loops.foreseen
    return If(short, replace(loop, kind="serial"), loop)


def _waits(loop: For, around: For | None, known: frozenset[str]) -> bool:
    """Whether ``loop`` folds elements that iterations of ``around`` store, or as many in each run
    that it gathers."""
    loads = list(_folded(loop))
    same = _names(loop.lower) | _names(loop.upper) <= known
    if same and any(has_loads(index) for load in loads for index in load.indices):
        return True
    if around is None or not loads:
        return False
    bound = {around.var}
    for stmt in walk(around.body):
        bound |= {stmt.var} if isinstance(stmt, For) else set()
        bound |= {stmt.name} if isinstance(stmt, Let) else set()
    return any(
        load.source == name and not never_alias(at, load.indices, loop, bound)
        for name, at in _stored(around)
        for load in loads
    )


def _folded(loop: For) -> Iterator[Load]:
    """The loads that move with ``loop`` and of which it makes one sum; none where it does anything
    else."""
    inside = list(walk(loop.body))
    updates = [s for s in inside if isinstance(s, Update)]
    others = [s for s in inside if not isinstance(s, Block | Check | Let | Update)]
    if others or len(updates) != 1 or loop.step != 1 or _moves(updates[0], loop.var):
        return
    for value in updates[0].values:
        for node in walk_expr(value):
            if isinstance(node, Load) and _mentioned(node.indices, loop.var):
                yield node


def _stored(stmt: Stmt) -> Iterator[Place]:
    """What ``stmt`` changes element by element."""
    match stmt:
        case For(kind="vector"):
            inside = (s for s in walk(stmt.body) if isinstance(s, Update))
            yield from (place for s in inside if not _moves(s, stmt.var) for place in s.targets)
            return
        case Store(buffer=name, indices=at):
            yield name, at
        case Update(targets=targets):
            yield from targets
    for part in children(stmt):
        yield from _stored(part)


def _moves(stmt: Stmt, var: str) -> bool:
    """Whether an update's target moves with ``var``."""
    return isinstance(stmt, Update) and any(_mentioned(at, var) for _, at in stmt.targets)


def _mentioned(indices: Sequence[Expr], var: str) -> bool:
    return any(mentions(index, (var,)) for index in indices)


def _names(expr: Expr) -> set[str]:
    return {n.name for n in walk_expr(expr) if isinstance(n, Var)}
