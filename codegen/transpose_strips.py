"""Transpose strips: vectors across rows of memory go through blocks that are transposed on the way.

                                       for J in blocks of W:
    for j in lo … hi:                    for a < W unrolled: for b < W vector: T[b, a] = A[a, J + b]
      for i in 0 … W vector:       →     for b < W unrolled:
        B[i, j] = f(A[i, j])               for i in 0 … W vector: S[b, i] = f(T[b, i])
                                         for a < W unrolled: for b < W vector: B[a, J + b] = S[b, a]
                                       for j in what is left: as before

A lane of the vector loop is a row, so that each of its accesses would be ``W`` loads or stores of
elements; a block of ``W`` by ``W`` is ``W`` vectors and their transposition in registers instead.
More rows than ``W`` are several blocks side by side. A loop over ``j`` that is written out, as
where the results of a register tile are stored, is one block of as many columns as it has turns
(several, if these are more than ``W``). Done after ``forward_values``, when recurrences along the
rows no longer go through memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.cut_loop import fresh_name
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
from weft.codegen.serial_loops import Place, map_serial_loops, sure_loads
from weft.dtypes import DType
from weft.frontend.scalar_affine import FloorDiv, to_affine
from weft.frontend.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    substitute,
)
from weft.frontend.scalar_expr import walk as walk_expr

VECTOR_BYTES = 64  # a block is as wide as a vector of its elements; processors may halve it
WIDEST = 64  # turns of a vector loop over rows
_STATEMENTS = 64  # in the body of a loop, which is written out for each column of a block


def transpose_strips(kernel: Kernel) -> Kernel:
    """``kernel`` with blocks where vectors run across rows, simplified."""
    made: list[_Blocked] = []

    def strips(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
        if not isinstance(loop.body, For) or not _fits(loop.body) or not _long_enough(loop):
            return None
        lanes = replace(loop.body, body=_stored((loop.body.body,), {}, 0))
        blocked = _across_rows(loop, lanes, buffers, len(made))
        if not blocked:
            return None
        made.extend(blocked)
        if loop.kind == "unrolled":
            return _written_out(loop, lanes, blocked)
        rest = fresh_name(f"{loop.var}.rest", loop, names)
        return _in_blocks(loop, lanes, blocked, Var(rest))

    return map_serial_loops(kernel, strips, unrolled=True)


@dataclass(frozen=True, slots=True)
class _Blocked:
    """An access that goes through ``tile``, by column and row of the block."""

    access: Load | Store
    tile: str
    dtype: DType


def _across_rows(
    loop: For, lanes: For, buffers: Mapping[str, Buffer], number: int
) -> list[_Blocked]:
    """The accesses of ``loop`` across rows that may be moved to the ends of a block; their tiles
    are numbered from ``number`` on."""
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
    sure = {n for s in inside for e in expressions(s) for n in sure_loads(e)}
    blocked: list[_Blocked] = []
    for name, buffer in buffers.items():
        found: list[Load | Store] = []
        if name not in stores:
            found += [n for n in dict.fromkeys(loads.get(name, ())) if n in sure]
        elif len(stores[name]) == 1:  # of elements that other turns neither read nor write
            own = list(dict.fromkeys(loads.get(name, ())))
            if all(load.indices == stores[name][0].indices for load in own):
                found += (*own, *stores[name])
        for access in found:
            if _across(access.indices, loop.var, lanes.var, bound):
                blocked.append(_Blocked(access, f"block.{number + len(blocked)}", buffer.dtype))
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


def _long_enough(loop: For) -> bool:
    """Whether ``loop`` may have blocks; one that is written out has few turns, but at least 2."""
    if loop.kind == "serial":
        return True
    turns = _written(loop)
    return turns is not None and 2 <= len(turns) <= WIDEST


def _written(loop: For) -> range | None:
    lower, upper = loop.lower, loop.upper
    if not isinstance(lower, Literal) or not isinstance(upper, Literal):
        return None
    return range(int(lower.value), int(upper.value))


def _widest(blocked: Sequence[_Blocked]) -> int:
    """Elements of the widest type of ``blocked`` in a vector."""
    return VECTOR_BYTES // max(b.dtype.itemsize for b in blocked)


def _written_out(loop: For, lanes: For, blocked: Sequence[_Blocked]) -> Stmt:
    """One block for each ``_widest`` turns of ``loop``, and for those that are left."""
    turns, width = _written(loop), _widest(blocked)
    assert turns is not None
    starts = range(turns.start, turns.stop, width)
    return Block(
        tuple(
            _block(loop, lanes, blocked, literal(k), (min(width, turns.stop - k), width))
            for k in starts
        )
    )


def _in_blocks(loop: For, lanes: For, blocked: Sequence[_Blocked], rest: Var) -> Stmt:
    """``rest``: a name for where blocks end."""
    assert isinstance(lanes.upper, Literal)
    width = min(_widest(blocked), 1 << (int(lanes.upper.value).bit_length() - 1))
    block = Var(f"{loop.var}.block")
    whole = _block(loop, lanes, blocked, loop.lower + block * width, (width, width))
    many = Apply("max", ((loop.upper - loop.lower) // width, literal(0)))
    blocks = For(block.name, literal(0), many, "serial", whole)
    return Let(rest.name, loop.lower + many * width, Block((blocks, replace(loop, lower=rest))))


def _block(
    loop: For, lanes: For, blocked: Sequence[_Blocked], start: Expr, shape: tuple[int, int]
) -> Stmt:
    """The turns of ``loop`` from ``start`` on, as many as ``shape`` has columns, on tiles; these
    are copied in squares of as many rows as ``shape`` says."""
    columns, _ = shape
    column = Var(f"{loop.var}.column")
    here: dict[str, Expr] = {loop.var: start + column}
    body = map_all_expressions(_computed(lanes, blocked, column), lambda e: substitute(e, here))
    compute = For(column.name, literal(0), literal(columns), "unrolled", replace(lanes, body=body))
    copies = [(b, _copied(b, loop, lanes, start, shape)) for b in blocked]
    loads = [copy for b, copy in copies if isinstance(b.access, Load)]
    saves = [copy for b, copy in copies if isinstance(b.access, Store)]
    whole: Stmt = Block((*loads, compute, *saves))
    for b in blocked:
        sizes, strides = (literal(columns), lanes.upper), (lanes.upper, literal(1))
        whole = Allocate(Buffer(b.tile, b.dtype, sizes, strides, "register"), whole)
    return whole


def _copied(b: _Blocked, loop: For, lanes: For, start: Expr, shape: tuple[int, int]) -> Stmt:
    """What brings the elements of ``b`` into its tile, or out of it: squares side by side."""
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


def _computed(lanes: For, blocked: Sequence[_Blocked], column: Expr) -> Stmt:
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


def _stored(stmts: Sequence[Stmt], known: Mapping[Place, Expr], count: int) -> Stmt:
    """``stmts``, behind ``count`` stores, with loads of what was stored before taken from lets."""
    if not stmts:
        return Block(())
    first, rest = stmts[0], stmts[1:]
    match first:
        case Block(inside):
            return _stored((*inside, *rest), known, count)
        case Let(name, value, body):
            return Let(name, _taken(value, known), _stored((body, *rest), known, count))
        case Store(buffer, indices, value):
            value = _taken(value, known)
            held = Var(f"{buffer}.stored.{count}", value.dtype)
            others = {place: v for place, v in known.items() if place[0] != buffer}
            after = _stored(rest, {**others, (buffer, indices): held}, count + 1)
            if not any(held in walk_expr(e) for s in walk(after) for e in expressions(s)):
                return Block((replace(first, value=value), after))
            return Let(held.name, value, Block((replace(first, value=held), after)))
    first = map_expressions(first, lambda e: _taken(e, known))
    return Block((first, _stored(rest, known, count)))


def _taken(expr: Expr, known: Mapping[Place, Expr]) -> Expr:
    return rewrite(
        expr, lambda n: known.get((str(n.source), n.indices)) if isinstance(n, Load) else None
    )
