"""Transposed blocks: accesses across rows of memory become copies of square blocks, which
``llvm/transpose`` does in registers; the iterations in between work on register tiles.

    for j in J … J + W:                   for a < W: for b < W vector: T[b, a] = A[a, J + b]
      for i in 0 … W vector:        →     for b < W:
        B[i, j] = f(A[i, j])                for i in 0 … W vector: S[b, i] = f(T[b, i])
                                          for a < W: for b < W vector: B[a, J + b] = S[b, a]

What ``transpose_strips`` and ``block_transposes`` have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.map_loops import Place, unconditional_loads
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.ir.dtypes import DType
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    Let,
    Stmt,
    Store,
    expressions,
    walk,
)
from weft.ir.scalar_affine import FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal, rewrite, substitute
from weft.ir.scalar_expr import walk as walk_expr

VECTOR_BYTES = 64  # a block is one such vector wide; targets may split it


@dataclass(frozen=True, slots=True)
class Blocked:
    """An access through the register buffer ``tile``, indexed by column and row of the block."""

    access: Load | Store
    tile: str
    dtype: DType


def across_rows(loop: For, lanes: For, buffers: Mapping[str, Buffer], number: int) -> list[Blocked]:
    """The accesses of ``loop`` across rows that may move to the beginning or end of a block; their
    register buffers are numbered from ``number`` on."""
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
    sure = {n for s in inside for e in expressions(s) for n in unconditional_loads(e)}
    blocked: list[Blocked] = []
    for name, buffer in buffers.items():
        found: list[Load | Store] = []
        if name not in stores:
            found += [n for n in dict.fromkeys(loads.get(name, ())) if n in sure]
        elif len(stores[name]) == 1:  # of elements that other iterations neither read nor write
            (store,) = stores[name]
            moving = (loop.var, lanes.var)
            every = list(dict.fromkeys(loads.get(name, ())))
            own = [n for n in every if not _in_other_planes(n.indices, store.indices, moving)]
            found += [n for n in every if n not in own and n in sure]
            if all(load.indices == store.indices for load in own):
                found += (*own, store)
        for access in found:
            if crosses_rows(access.indices, loop.var, lanes.var, bound):
                blocked.append(Blocked(access, f"block.{number + len(blocked)}", buffer.dtype))
    return blocked


def _in_other_planes(one: Sequence[Expr], two: Sequence[Expr], moving: Sequence[str]) -> bool:
    """Whether two accesses are apart along a dim in which no loop over ``moving`` moves them."""
    for a, b in zip(map(to_affine, one), map(to_affine, two), strict=True):
        if a is not None and b is not None and not a.variables() & {*moving}:
            away = a - b
            if away.is_constant and away.constant:
                return True
    return False


def widest(blocked: Sequence[Blocked]) -> int:
    """Elements of the widest type of ``blocked`` in a vector."""
    return VECTOR_BYTES // max(b.dtype.itemsize for b in blocked)


def transposed_block(
    loop: For,
    lanes: For,
    blocked: Sequence[Blocked],
    start: Expr,
    shape: tuple[int, int],
    before: Sequence[Stmt] = (),
) -> Stmt:
    """The iterations of ``loop`` from ``start`` on; ``shape``: (rows, columns) of the blocks;
    ``before``: what comes before ``lanes`` in each iteration, and stays there."""
    columns, _ = shape
    column = Var(f"{loop.var}.column")
    here: dict[str, Expr] = {loop.var: start + column}
    body = map_all_expressions(_computed(lanes, blocked, column), lambda e: substitute(e, here))
    first = [map_all_expressions(stmt, lambda e: substitute(e, here)) for stmt in before]
    inside = replace(lanes, body=body)
    whole: Stmt = Block((*first, inside)) if first else inside
    compute = For(column.name, literal(0), literal(columns), "unrolled", whole)
    copies = [(b, _copied(b, loop, lanes, start, shape)) for b in blocked]
    loads = [copy for b, copy in copies if isinstance(b.access, Load)]
    saves = [copy for b, copy in copies if isinstance(b.access, Store)]
    whole = Block((*loads, compute, *saves))
    for b in blocked:
        sizes, strides = (literal(columns), lanes.upper), (lanes.upper, literal(1))
        whole = Allocate(Buffer(b.tile, b.dtype, sizes, strides, "register"), whole)
    return whole


def _copied(b: Blocked, loop: For, lanes: For, start: Expr, shape: tuple[int, int]) -> Stmt:
    """Copies between memory and the tile of ``b``, in squares side by side."""
    assert isinstance(lanes.upper, Literal)
    columns, rows = shape
    column, row, group = (Var(f"{loop.var}.{part}") for part in ("column", "row", "group"))

    def square(first: Expr, many: int) -> Stmt:
        lane = first + row
        here: dict[str, Expr] = {loop.var: start + column, lanes.var: lane}
        place = tuple(substitute(i, here) for i in b.access.indices)
        if isinstance(b.access, Load):
            made = Store(b.tile, (column, lane), Load(b.access.source, place, b.access.dtype))
        else:
            made = Store(b.access.buffer, place, Load(b.tile, (column, lane), b.dtype))
        inner = For(column.name, literal(0), literal(columns), "vector", made)
        return For(row.name, literal(0), literal(many), "unrolled", inner)

    groups, left = divmod(int(lanes.upper.value), rows)
    whole = For(group.name, literal(0), literal(groups), "unrolled", square(group * rows, rows))
    return Block((whole, square(literal(groups * rows), left))) if left else whole


def _computed(lanes: For, blocked: Sequence[Blocked], column: Expr) -> Stmt:
    """The body of ``lanes`` for one column, on tiles."""
    at = (column, Var(lanes.var))
    loads = {b.access: b.tile for b in blocked if isinstance(b.access, Load)}
    stores: dict[Place, str] = {
        (b.access.buffer, b.access.indices): b.tile for b in blocked if isinstance(b.access, Store)
    }

    def load(node: Expr) -> Expr | None:
        tile = loads.get(node) if isinstance(node, Load) else None
        return None if tile is None else Load(tile, at, node.dtype)

    def store(stmt: Stmt) -> Stmt:
        tile = stores.get((stmt.buffer, stmt.indices)) if isinstance(stmt, Store) else None
        if isinstance(stmt, Store) and tile is not None:
            return Store(tile, at, stmt.value)
        return map_children(stmt, store)

    return store(map_all_expressions(lanes.body, lambda e: rewrite(e, load)))


def crosses_rows(indices: Sequence[Expr], var: str, lane: str, bound: set[str]) -> bool:
    """Whether lanes move across rows, and iterations along a row by one element forwards or
    backwards. Rows may begin one behind the other."""
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
        and all(f.coefficient(var) == 0 for f in outer)
        and any(f.coefficient(lane) for f in outer)
    )
