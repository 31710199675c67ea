"""Rows shorter than a vector are shown to prefetchers that do not follow loads under a mask.

    for k:                              for k:
      for v in 0 … n vector:       →      if n < 8: prefetch x[k, 0]
        s[k] += x[k, v]                   for v in 0 … n vector: …

Nothing else loads such rows, and each comes from memory when it is asked for. A prefetch of the
same address is seen (decision 042). Longer rows are seen by their whole vectors, and what does not
move with all loops around is in a cache the second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.codegen.cut_loop import bound_inside
from weft.codegen.rebuild import map_children
from weft.ir.loop_ir import (
    Block,
    Buffer,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Update,
    expressions,
    walk,
)
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

_Moves = Mapping[str, frozenset[str]]  # of a name: the loops around that it moves with


def show_short_rows(kernel: Kernel, vector_bytes: int) -> Kernel:
    """``kernel`` with prefetches of rows shorter than ``vector_bytes``."""
    buffers = {buffer.name: buffer for buffer in kernel.buffers}

    def inside(stmt: Stmt, moves: _Moves, loops: frozenset[str]) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "vector":
            return _shown(stmt, moves, loops, buffers, vector_bytes)
        if isinstance(stmt, For) and stmt.kind == "unrolled":
            return stmt  # a block in registers
        if isinstance(stmt, For):
            moves, loops = {**moves, stmt.var: frozenset((stmt.var,))}, loops | {stmt.var}
        let = stmt
        while isinstance(let, Let):
            moves, let = {**moves, let.name: _moves((let.value,), moves)}, let.body
        return map_children(stmt, lambda part: inside(part, moves, loops))

    return replace(kernel, body=inside(kernel.body, {}, frozenset()))


def _shown(
    loop: For,
    moves: _Moves,
    loops: frozenset[str],
    buffers: Mapping[str, Buffer],
    vector_bytes: int,
) -> Stmt:
    """``loop`` behind prefetches of its rows, where these are short."""
    start: dict[str, Expr] = {loop.var: loop.lower}
    inner = bound_inside(loop)
    values = [e for s in walk(loop.body) for e in expressions(s)]
    folded = [v for s in walk(loop.body) if isinstance(s, Update) for v in s.values]
    loads = [n for value in values for n in walk_expr(value) if isinstance(n, Load)]
    lanes = vector_bytes // max((e.dtype.itemsize for e in (*loads, *folded)), default=1)
    rows: dict[Prefetch, None] = {}
    for load in (load for load in loads if load.source in buffers):
        first = tuple(substitute(index, start) for index in load.indices)
        moving = loops and loops <= _moves(first, moves)
        if moving and _is_row(load, loop.var) and not _names(first) & inner:
            rows[Prefetch(str(load.source), first)] = None
    length = simplify(loop.upper - loop.lower)
    if not rows or (isinstance(length, Literal) and length.value >= lanes):
        return loop
    return Block((If(length < lanes, Block(tuple(rows))), loop))


def _is_row(load: Load, lane: str) -> bool:
    """Whether ``load`` runs along the elements of a row."""
    *outer, last = load.indices or (Var(""),)
    form = to_affine(last)
    plain = not any(isinstance(n, Load) for index in load.indices for n in walk_expr(index))
    along = form is not None and form.coefficient(lane) == 1
    return plain and along and lane not in _names(tuple(outer))


def _moves(values: tuple[Expr, ...], moves: _Moves) -> frozenset[str]:
    return frozenset[str]().union(*(moves.get(name, ()) for name in _names(values)))


def _names(values: tuple[Expr, ...]) -> set[str]:
    return {n.name for value in values for n in walk_expr(value) if isinstance(n, Var)}
