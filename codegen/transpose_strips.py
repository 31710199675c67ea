"""Transpose strips: vectors across rows of memory go through blocks that are transposed on the way.

                                       for J in blocks of W:
    for j in lo … hi:                    for a < W unrolled: for b < W vector: T[b, a] = A[a, J + b]
      for i in 0 … W vector:       →     for b < W unrolled:
        B[i, j] = f(A[i, j])               for i in 0 … W vector: S[b, i] = f(T[b, i])
                                         for a < W unrolled: for b < W vector: B[a, J + b] = S[b, a]
                                       for j in what is left: as before

A lane of the vector loop is a row, so that each of its accesses would be ``W`` loads or stores of
elements; a block of ``W`` by ``W`` is ``W`` vectors and their transposition in registers instead.
Done after ``forward_values``, when recurrences along the rows no longer go through memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    expressions,
    walk,
)
from weft.codegen.rebuild import map_all_expressions, map_children, map_expressions
from weft.codegen.simplify import simplify_kernel
from weft.frontend.scalar_affine import FloorDiv, to_affine
from weft.frontend.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    literal,
    rewrite,
    substitute,
)
from weft.frontend.scalar_expr import walk as walk_expr

WIDTHS = (4, 8, 16)  # of blocks
_STATEMENTS = 24  # in the body of a loop, which is written out for each column of a block


def transpose_strips(kernel: Kernel) -> Kernel:
    """``kernel`` with blocks where vectors run across rows, simplified."""
    shared = {b.name for b in kernel.buffers if b.aliases}
    shared |= {name for b in kernel.buffers for name in b.aliases}
    strips = _Strips({b.name: b for b in kernel.buffers if b.name not in shared}, [])
    body = strips.stmt(kernel.body)
    return simplify_kernel(replace(kernel, body=body)) if strips.made else kernel


@dataclass(frozen=True, slots=True)
class _Blocked:
    """An access that goes through ``tile``, by column and row of the block."""

    access: Load | Store
    tile: Buffer


@dataclass(frozen=True, slots=True)
class _Strips:
    """``buffers``: those in scope that overlap no other. ``made``: the accesses changed so far."""

    buffers: Mapping[str, Buffer]
    made: list[_Blocked]

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Allocate) and stmt.buffer.scope != "register":
            inside = replace(self, buffers={**self.buffers, stmt.buffer.name: stmt.buffer})
            return replace(stmt, body=inside.stmt(stmt.body))
        if isinstance(stmt, For) and stmt.kind == "serial" and stmt.step == 1:
            lanes = stmt.body
            if isinstance(lanes, For) and _fits(lanes):
                blocked = self._blocked(stmt, lanes)
                return _in_blocks(stmt, lanes, blocked) if blocked else stmt
        return map_children(stmt, self.stmt)

    def _blocked(self, loop: For, lanes: For) -> list[_Blocked]:
        """The accesses of ``loop`` across rows that may be moved to the ends of a block."""
        inside = list(walk(lanes.body))
        if not all(isinstance(s, Block | Let | Store | Prefetch | Comment) for s in inside):
            return []
        bound = {s.name for s in inside if isinstance(s, Let)} | {loop.var, lanes.var}
        loads: dict[str, list[Load]] = {}
        stores: dict[str, list[Store]] = {}
        for stmt in inside:
            for node in (n for e in expressions(stmt) for n in walk_expr(e)):
                if isinstance(node, Load):
                    loads.setdefault(str(node.source), []).append(node)
            if isinstance(stmt, Store):
                stores.setdefault(stmt.buffer, []).append(stmt)
        sure = {n for s in inside for e in expressions(s) for n in _sure(e)}
        found: list[Load | Store] = []
        for name in self.buffers:
            if name not in stores:
                found += [n for n in dict.fromkeys(loads.get(name, ())) if n in sure]
            elif name not in loads and len(stores[name]) == 1:
                found += stores[name]
        blocked = []
        for access in found:
            if _across(access.indices, loop.var, lanes.var, bound):
                blocked.append(_Blocked(access, self._tile(access, lanes)))
                self.made.append(blocked[-1])
        return blocked

    def _tile(self, access: Load | Store, lanes: For) -> Buffer:
        name = str(access.source) if isinstance(access, Load) else access.buffer
        shape = (lanes.upper, lanes.upper)
        dtype = self.buffers[name].dtype
        tile = f"block.{len(self.made)}"
        return Buffer(tile, dtype, shape, (lanes.upper, literal(1)), "register")


def _fits(lanes: For) -> bool:
    """Whether ``lanes`` is a vector loop of a block's width with a small body."""
    return (
        (lanes.kind, lanes.step, lanes.lower) == ("vector", 1, literal(0))
        and isinstance(lanes.upper, Literal)
        and lanes.upper.value in WIDTHS
        and sum(1 for s in walk(lanes.body) if isinstance(s, Store)) <= _STATEMENTS
    )


def _across(indices: Sequence[Expr], var: str, lane: str, bound: set[str]) -> bool:
    """Whether lanes move along rows, and turns along a row by one element forth or back."""
    if len(indices) < 2:
        return False
    forms = [to_affine(index) for index in indices]
    if any(f is None for f in forms):
        return False
    known = [f for f in forms if f is not None]
    for form in known:
        if form.variables() & (bound - {var, lane}):
            return False
        floors = (t for t, _ in form.terms if isinstance(t, FloorDiv))
        if any(t.numerator.variables() & {var, lane} for t in floors):
            return False
    *outer, last = known
    return (
        last.coefficient(var) in (1, -1)
        and last.coefficient(lane) == 0
        and all(f.coefficient(var) == 0 for f in outer)
        and any(f.coefficient(lane) for f in outer)
    )


def _in_blocks(loop: For, lanes: For, blocked: Sequence[_Blocked]) -> Stmt:
    assert isinstance(lanes.upper, Literal)
    width = int(lanes.upper.value)
    block, column, row = (Var(f"{loop.var}.{part}") for part in ("block", "column", "row"))
    first = loop.lower + block * width
    here = {loop.var: first + column, lanes.var: row}
    values = {b.access: b.tile for b in blocked if isinstance(b.access, Load)}
    stores = {
        (b.access.buffer, b.access.indices): b.tile for b in blocked if isinstance(b.access, Store)
    }

    def copy(made: Stmt) -> Stmt:
        inner = For(column.name, literal(0), literal(width), "vector", made)
        return For(row.name, literal(0), literal(width), "unrolled", inner)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node in values:
            tile = values[node]
            return Load(tile.name, (column, Var(lanes.var)), tile.dtype)
        return None

    def stmt(given: Stmt) -> Stmt:
        if isinstance(given, Let):
            return Let(given.name, rewrite(given.value, change), stmt(given.body))
        made = map_expressions(map_children(given, stmt), lambda e: rewrite(e, change))
        if isinstance(given, Store) and isinstance(made, Store):
            tile = stores.get((given.buffer, given.indices))
            if tile is not None:
                return Store(tile.name, (column, Var(lanes.var)), made.value)
        return made

    body = map_all_expressions(
        stmt(lanes.body), lambda e: substitute(e, {loop.var: first + column})
    )
    loads, saves = [], []
    for b in blocked:
        place = tuple(substitute(i, here) for i in b.access.indices)
        if isinstance(b.access, Load):
            value = Load(b.access.source, place, b.access.dtype)
            loads.append(copy(Store(b.tile.name, (column, row), value)))
        else:
            kept = Load(b.tile.name, (column, row), b.tile.dtype)
            saves.append(copy(Store(b.access.buffer, place, kept)))
    compute = For(column.name, literal(0), literal(width), "unrolled", replace(lanes, body=body))
    whole: Stmt = Block((*loads, compute, *saves))
    for b in blocked:
        whole = Allocate(b.tile, whole)
    count = (loop.upper - loop.lower) // width
    rest = Var(f"{loop.var}.rest")
    many = Apply("max", (count, literal(0)))
    return Let(
        rest.name,
        loop.lower + many * width,
        Block(
            (
                For(block.name, literal(0), many, "serial", whole),
                replace(loop, lower=rest),
            )
        ),
    )


def _sure(expr: Expr) -> Iterator[Load]:
    """The loads that evaluating ``expr`` performs in any case."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.condition,) if isinstance(node, Select) else node.children)
