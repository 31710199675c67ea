"""Sums over what was stored just now run in scalars where they are short.

    for j:                               for j:
      for k in lo … hi vector:             if hi - lo <= 24: for k in lo … hi: s += x[k] · y[k]
        s += x[k] · y[k]           →       else: for k in lo … hi vector: s += x[k] · y[k]
      x[j] = s / d                         x[j] = s / d

The vector that holds ``x[j - 1]`` overlaps a store of one element, which processors do not forward
to it: it waits until the store has reached the cache (Agner Fog, "The microarchitecture of Intel,
AMD and VIA CPUs", store forwarding stalls), and then its lanes are still to be folded. Scalars take
their elements from the stores, and all but the last term of their sum are there before these, as
long as branch predictors foresee the end of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import For, If, Kernel, Stmt, Store, Update, children, walk
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Load
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions


def short_recurrences(kernel: Kernel, machine: Machine) -> Kernel:
    """``kernel`` with loops in scalars beside vector loops that fold what the serial loop around
    them stores element by element, for trip counts at which these take no longer."""

    def inside(stmt: Stmt, stored: frozenset[str]) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "vector":
            return _both(stmt, machine) if _folded(stmt) & stored else stmt
        if isinstance(stmt, For):
            stored = frozenset(_stored(stmt)) if stmt.kind == "serial" else frozenset()
        return map_children(stmt, lambda part: inside(part, stored))

    body = inside(kernel.body, frozenset())
    return kernel if body is kernel.body else simplified(kernel, body)


def _both(loop: For, machine: Machine) -> Stmt:
    short = loop.upper - loop.lower <= machine.loops.foreseen
    return If(short, replace(loop, kind="serial"), loop)


def _folded(loop: For) -> frozenset[str]:
    """The buffers of whose elements ``loop`` makes one sum; none where it does anything else."""
    update = loop.body
    if not isinstance(update, Update) or loop.step != 1 or _moves(update, loop.var):
        return frozenset()
    loads = (n for value in update.values for n in walk_expr(value) if isinstance(n, Load))
    return frozenset(str(n.source) for n in loads if _mentioned(n.indices, loop.var))


def _stored(stmt: Stmt) -> Iterator[str]:
    """The buffers that ``stmt`` changes element by element."""
    match stmt:
        case For(kind="vector"):
            yield from (b for s in walk(stmt.body) for b in _sums(s) if not _moves(s, stmt.var))
            return
        case Store(buffer=name):
            yield name
    yield from _sums(stmt)
    for part in children(stmt):
        yield from _stored(part)


def _sums(stmt: Stmt) -> list[str]:
    return [name for name, _ in stmt.targets] if isinstance(stmt, Update) else []


def _moves(stmt: Stmt, var: str) -> bool:
    """Whether an update's target moves with ``var``."""
    return isinstance(stmt, Update) and any(_mentioned(at, var) for _, at in stmt.targets)


def _mentioned(indices: Sequence[Expr], var: str) -> bool:
    return any(mentions(index, (var,)) for index in indices)
