"""Tiled transposes: parallel loops and vector loops that cross rows are tiled, with transposed
blocks.

    for j in 0 … m parallel:             for I, J tiles parallel:
      for i in 0 … n vector:       →       for i, j blocks in them:
        B[j, i] = A[i, j]                    16 vectors of A transposed to 16 vectors of B

Whichever loop is the vector loop, one of the arrays is accessed across its rows: one element of
each cache line, which is evicted before the next one is needed. A tile reads a few hundred bytes of
a few hundred rows, a block whole lines of both arrays. Iterations are independent and do not load
what they store, so that the last block of a tile may overlap the one before, and compute some
elements twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import map_loops
from weft.codegen.rebuild import map_all_expressions
from weft.codegen.transposed_blocks import Blocked, across_rows, transposed_block, widest
from weft.ir.loop_ir import (
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Kind,
    Let,
    Prefetch,
    Stmt,
    Store,
    expressions,
    walk,
)
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Load,
    Var,
    apply,
    literal,
    select,
    substitute,
)
from weft.ir.scalar_expr import walk as walk_expr

ALONG = 64  # vectors of a tile along the rows that are loaded
ROWS = 64  # rows of a tile
_NARROW = 16  # most rows of a block
_SHORT = 4  # trip counts along rows up to which tiling does not pay
_NODES = 64  # expression nodes in a body, which is unrolled for each column of a block


def tile_transposes(kernel: Kernel) -> Kernel:
    """``kernel`` with tiles where parallel loops around a vector loop cross rows, simplified."""
    made: list[Blocked] = []

    def tiled(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
        outer, lanes = _nest(loop)
        if lanes is None or not _fits(lanes, buffers):
            return None
        for column in outer:
            others = [o for o in outer if o is not column]
            if any(column.var in _mentioned(o) for o in (*others, lanes)) or _short(column):
                continue
            blocked = across_rows(column, lanes, buffers, len(made))
            if blocked:
                taken = names | {s.var for s in walk(loop) if isinstance(s, For)}
                whole = _tiles(column, lanes, blocked, buffers, len(made), taken)
                made.extend(blocked)
                for around in reversed(others):
                    whole = replace(around, body=whole)
                return whole
        return None

    return map_loops(kernel, tiled, "parallel")


def _nest(loop: For) -> tuple[list[For], For | None]:
    """The perfectly nested parallel loops from ``loop`` on, and the vector loop in the innermost
    one."""
    outer = [loop]
    while isinstance(outer[-1].body, For) and outer[-1].body.kind == "parallel":
        outer.append(outer[-1].body)
    inner = outer[-1].body
    plain = all(o.step == 1 for o in outer)
    return outer, inner if isinstance(inner, For) and inner.kind == "vector" and plain else None


def _fits(lanes: For, buffers: Mapping[str, Buffer]) -> bool:
    """Whether the body is small and idempotent: it stores to memory and does not load from the
    buffers that it stores to."""
    inside = list(walk(lanes.body))
    if not all(isinstance(s, Block | Let | Store | Prefetch | Comment) for s in inside):
        return False
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    loaded = {str(n.source) for n in nodes if isinstance(n, Load)}
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    return lanes.step == 1 and len(nodes) <= _NODES and stored <= set(buffers) - loaded


def _mentioned(loop: For) -> set[str]:
    bounds = (loop.lower, loop.upper)
    return {n.name for e in bounds for n in walk_expr(e) if isinstance(n, Var)}


@dataclass(frozen=True, slots=True)
class _Cut:
    """A loop in tiles of ``tile`` iterations (the last one includes the remainder), and these in
    blocks of ``block``."""

    loop: For
    tile: int
    block: int
    names: frozenset[str]

    def _name(self, part: str) -> Var:
        return Var(fresh_name(f"{self.loop.var}.{part}", self.loop, self.names))

    @property
    def start(self) -> Var:
        """The first iteration of a block."""
        return self._name("start")

    @property
    def enough(self) -> Expr:
        """Whether the loop is long enough for a block."""
        return self._name("to") - self._name("from") >= self.block

    @property
    def _tiles(self) -> Expr:
        return apply("max", (self.loop.upper - self.loop.lower) // self.tile, literal(1))

    def tiles(self, body: Stmt) -> Stmt:
        return For(self._name("tile").name, literal(0), self._tiles, "parallel", body)

    def within(self, body: Stmt) -> Stmt:
        """``body`` with lets for the bounds of a tile."""
        tile, begin, end = self._name("tile"), self._name("from"), self._name("to")
        stop = select(tile < self._tiles - 1, begin + self.tile, self.loop.upper)
        return Let(begin.name, self.loop.lower + tile * self.tile, Let(end.name, stop, body))

    def blocks(self, body: Stmt) -> Stmt:
        number, begin, end = self._name("block"), self._name("from"), self._name("to")
        many = (end - begin + (self.block - 1)) // self.block
        at = apply("min", begin + number * self.block, end - self.block)
        return For(number.name, literal(0), many, "serial", Let(self.start.name, at, body))

    def plain(self, kind: Kind, body: Stmt) -> For:
        """The iterations of a tile without blocks."""
        return For(self.loop.var, self._name("from"), self._name("to"), kind, body)


def _tiles(
    column: For,
    lanes: For,
    blocked: Sequence[Blocked],
    buffers: Mapping[str, Buffer],
    number: int,
    taken: frozenset[str],
) -> Stmt:
    """``column`` and ``lanes`` tiled; new names avoid ``taken``, register tiles are numbered from
    ``number`` on."""
    wide = widest(blocked)
    narrow = min(wide, _NARROW)
    loads = any(isinstance(b.access, Load) for b in blocked)
    shape = (wide, narrow) if loads else (narrow, wide)
    sizes = (ALONG * wide, ROWS) if loads else (ROWS, ALONG * wide)
    columns, rows = (
        _Cut(each, size, min(block, _trip_count(each) or block), taken)
        for each, size, block in zip((column, lanes), sizes, shape, strict=True)
    )
    along, across = (columns, rows) if loads else (rows, columns)
    lane = Var(fresh_name(f"{lanes.var}.lane", lanes, taken))
    here: dict[str, Expr] = {lanes.var: rows.start + lane}
    moved = map_all_expressions(lanes.body, lambda e: substitute(e, here))
    square = For(lane.name, literal(0), literal(rows.block), "vector", moved)
    inside = across_rows(column, square, buffers, number)
    block = transposed_block(column, square, inside, columns.start, (columns.block, rows.block))
    plain = columns.plain("serial", rows.plain("vector", lanes.body))
    body = If(columns.enough & rows.enough, across.blocks(along.blocks(block)), plain)
    return across.tiles(along.tiles(across.within(along.within(body))))


def _short(loop: For) -> bool:
    """Whether the stride is so short that vector loads and shuffles serve."""
    trips = _trip_count(loop)
    return trips is not None and trips <= _SHORT


def _trip_count(loop: For) -> int | None:
    match loop.lower, loop.upper:
        case Literal(low), Literal(high):
            return int(high) - int(low)
    return None
