"""Transpose strips: vectors across rows of memory go through blocks that are transposed on the way.

                                       for J in blocks of W:
    for j in lo … hi:                    for a < W unrolled: for b < W vector: T[b, a] = A[a, J + b]
      for i in 0 … W vector:       →     for b < W unrolled:
        B[i, j] = f(A[i, j])               for i in 0 … W vector: S[b, i] = f(T[b, i])
                                         for a < W unrolled: for b < W vector: B[a, J + b] = S[b, a]
                                       for j in what is left: as before

A lane of the vector loop is a row, so that each of its accesses would be ``W`` loads or stores of
elements; a block of ``W`` by ``W`` is ``W`` vectors and their transposition in registers instead.
More rows than ``W`` are several blocks side by side. Done after ``forward_values``, when
recurrences along the rows no longer go through memory.
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
from weft.dtypes import DType
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

VECTOR_BYTES = 64  # a block is as wide as a vector of its elements; processors may halve it
_Place = tuple[object, tuple[Expr, ...]]  # an element: buffer and indices

WIDEST = 64  # turns of a vector loop over rows
_STATEMENTS = 64  # in the body of a loop, which is written out for each column of a block


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
    tile: str
    dtype: DType


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
                lanes = replace(lanes, body=_stored((lanes.body,), {}))
                blocked = self._blocked(stmt, lanes)
                width = _width(lanes, blocked)
                if width:
                    self.made.extend(blocked)
                    return _in_blocks(stmt, lanes, blocked, width)
                return stmt
        return map_children(stmt, self.stmt)

    def _blocked(self, loop: For, lanes: For) -> list[_Blocked]:
        """The accesses of ``loop`` across rows that may be moved to the ends of a block."""
        inside = list(walk(lanes.body))
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
            elif len(stores[name]) == 1:  # of elements that other turns neither read nor write
                own = list(dict.fromkeys(loads.get(name, ())))
                if all(load.indices == stores[name][0].indices for load in own):
                    found += (*own, *stores[name])
        blocked: list[_Blocked] = []
        for access in found:
            if _across(access.indices, loop.var, lanes.var, bound):
                name = str(access.source) if isinstance(access, Load) else access.buffer
                tile = f"block.{len(self.made) + len(blocked)}"
                blocked.append(_Blocked(access, tile, self.buffers[name].dtype))
        return blocked


def _fits(lanes: For) -> bool:
    """Whether ``lanes`` is a vector loop of a block's width with a small body."""
    return (
        (lanes.kind, lanes.step, lanes.lower) == ("vector", 1, literal(0))
        and isinstance(lanes.upper, Literal)
        and 4 <= lanes.upper.value <= WIDEST
        and sum(1 for _ in walk(lanes.body)) <= _STATEMENTS
        and all(isinstance(s, Block | Let | Store | Prefetch | Comment) for s in walk(lanes.body))
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


def _width(lanes: For, blocked: Sequence[_Blocked]) -> int:
    """Columns of a block; 0 if there are none."""
    assert isinstance(lanes.upper, Literal)
    size = max((b.dtype.itemsize for b in blocked), default=VECTOR_BYTES)
    width = min(int(lanes.upper.value), VECTOR_BYTES // size)
    return 0 if width < 4 or width & (width - 1) or int(lanes.upper.value) % width else width


def _in_blocks(loop: For, lanes: For, blocked: Sequence[_Blocked], width: int) -> Stmt:
    assert isinstance(lanes.upper, Literal)
    names = ("block", "column", "row", "group")
    block, column, row, group = (Var(f"{loop.var}.{part}") for part in names)
    groups = int(lanes.upper.value) // width
    first = loop.lower + block * width
    here: dict[str, Expr] = {loop.var: first + column, lanes.var: group * width + row}
    values = {b.access: b for b in blocked if isinstance(b.access, Load)}
    stores = {
        (b.access.buffer, b.access.indices): b.tile for b in blocked if isinstance(b.access, Store)
    }

    def copy(made: Stmt) -> Stmt:
        inner = For(column.name, literal(0), literal(width), "vector", made)
        square = For(row.name, literal(0), literal(width), "unrolled", inner)
        return For(group.name, literal(0), literal(groups), "unrolled", square)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node in values:
            return Load(values[node].tile, (column, Var(lanes.var)), node.dtype)
        return None

    def stmt(given: Stmt) -> Stmt:
        if isinstance(given, Let):
            return Let(given.name, rewrite(given.value, change), stmt(given.body))
        made = map_expressions(map_children(given, stmt), lambda e: rewrite(e, change))
        if isinstance(given, Store) and isinstance(made, Store):
            tile = stores.get((given.buffer, given.indices))
            if tile is not None:
                return Store(tile, (column, Var(lanes.var)), made.value)
        return made

    body = map_all_expressions(
        stmt(lanes.body), lambda e: substitute(e, {loop.var: first + column})
    )
    loads, saves = [], []
    for b in blocked:
        place = tuple(substitute(i, here) for i in b.access.indices)
        if isinstance(b.access, Load):
            value = Load(b.access.source, place, b.access.dtype)
            loads.append(copy(Store(b.tile, (column, here[lanes.var]), value)))
        else:
            kept = Load(b.tile, (column, here[lanes.var]), b.dtype)
            saves.append(copy(Store(b.access.buffer, place, kept)))
    compute = For(column.name, literal(0), literal(width), "unrolled", replace(lanes, body=body))
    whole: Stmt = Block((*loads, compute, *saves))
    for b in blocked:
        shape, strides = (literal(width), lanes.upper), (lanes.upper, literal(1))
        whole = Allocate(Buffer(b.tile, b.dtype, shape, strides, "register"), whole)
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


def _stored(stmts: Sequence[Stmt], known: Mapping[_Place, Expr]) -> Stmt:
    """``stmts`` with the loads of what they have stored before taken from lets."""
    if not stmts:
        return Block(())
    first, rest = stmts[0], stmts[1:]
    match first:
        case Block(inside):
            return _stored((*inside, *rest), known)
        case Let(name, value, body):
            return Let(name, _taken(value, known), _stored((body, *rest), known))
        case Store(buffer, indices, value):
            value = _taken(value, known)
            held = Var(f"{buffer}.stored.{len(stmts)}", value.dtype)
            others = {place: v for place, v in known.items() if place[0] != buffer}
            after = _stored(rest, {**others, (buffer, indices): held})
            if not any(held in walk_expr(e) for s in walk(after) for e in expressions(s)):
                return Block((replace(first, value=value), after))
            return Let(held.name, value, Block((replace(first, value=held), after)))
    return Block((map_expressions(first, lambda e: _taken(e, known)), _stored(rest, known)))


def _taken(expr: Expr, known: Mapping[_Place, Expr]) -> Expr:
    return rewrite(
        expr, lambda n: known.get((n.source, n.indices)) if isinstance(n, Load) else None
    )


def _sure(expr: Expr) -> Iterator[Load]:
    """The loads that evaluating ``expr`` performs in any case."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.condition,) if isinstance(node, Select) else node.children)
