"""Transposed strips: vector loops across rows of memory load and store blocks, transposed in
registers.

                                       for J in blocks of W:
    for j in lo … hi:                    for a < W unrolled: for b < W vector: T[b, a] = A[a, J + b]
      for i in 0 … W vector:       →     for b < W unrolled:
        B[i, j] = f(A[i, j])               for i in 0 … W vector: S[b, i] = f(T[b, i])
                                         for a < W unrolled: for b < W vector: B[a, J + b] = S[b, a]
                                       for j in the remainder: as before

A lane of the vector loop is a row, so that each access would be ``W`` scalar loads or stores; a
block of ``W`` × ``W`` is ``W`` vector accesses and a transposition in registers. More than ``W``
rows are several blocks; the last one overlaps if rows are no multiple, and computes some elements
twice. If rows depend on each other, or on old values of what is stored, all rows run in one block.
Vector loops before the one that stores, which move values between lanes, stay in the columns.
An unrolled loop over ``j``, as around the stores of a register tile, is one block of as many
columns as it has iterations (several beyond ``W``). After ``scalar_replacement``, when recurrences
along the rows are in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import Place, known_range, map_loops
from weft.codegen.rebuild import map_all_expressions, map_expressions
from weft.codegen.transposed_blocks import Blocked, across_rows, transposed_block, widest
from weft.ir.loop_ir import (
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
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    apply,
    literal,
    rewrite,
    substitute,
)
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions

WIDEST = 64  # iterations of a vector loop over rows
_STATEMENTS = 64  # statements in the body, which is unrolled for each column of a block


def transpose_strips(kernel: Kernel) -> Kernel:
    """``kernel`` with blocks where vectors cross rows, simplified."""
    made: list[Blocked] = []

    def strips(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
        *before, last = loop.body.stmts if isinstance(loop.body, Block) else (loop.body,)
        if not before and isinstance(last, For) and _is_ragged(last, loop.var):
            return replace(loop, body=replace(last, kind="serial"))
        if not isinstance(last, For) or not _fits(last) or not _long_enough(loop):
            return None
        lanes = replace(last, body=_stored((last.body,), {}, 0))
        blocked = across_rows(loop, lanes, buffers, len(made))
        if not blocked or (before and not _may_precede(before, loop, lanes, blocked)):
            return None
        made.extend(blocked)
        if loop.kind == "unrolled":
            return _written_out(loop, lanes, blocked)
        rest = Var(fresh_name(f"{loop.var}.rest", loop, names))
        width = min(widest(blocked), _power_below(lanes))
        if before:
            square = partial(transposed_block, loop, lanes, blocked, shape=(width, width))
            return _in_blocks(loop, width, rest, partial(square, before=before))
        return _in_blocks(loop, width, rest, _rows(loop, lanes, buffers, blocked, width, names))

    return map_loops(kernel, strips, "serial", "unrolled")


def _fits(lanes: For) -> bool:
    """Whether ``lanes`` is a vector loop of a block's width with a small body."""
    return (
        (lanes.kind, lanes.step, lanes.lower) == ("vector", 1, literal(0))
        and isinstance(lanes.upper, Literal)
        and 4 <= lanes.upper.value <= WIDEST
        and sum(1 for _ in walk(lanes.body)) <= _STATEMENTS
        and all(isinstance(s, Block | Let | Store | Prefetch | Comment) for s in walk(lanes.body))
    )


def _is_ragged(lanes: For, var: str) -> bool:
    """Whether ``lanes``, whose number varies with the loop over ``var`` around them, store along a
    diagonal: there they are faster one after the other."""
    if lanes.kind != "vector" or not any(mentions(e, (var,)) for e in (lanes.lower, lanes.upper)):
        return False
    stores = (s for s in walk(lanes.body) if isinstance(s, Store))
    return any(sum(mentions(index, (lanes.var,)) for index in s.indices) > 1 for s in stores)


def _may_precede(before: Sequence[Stmt], loop: For, lanes: For, blocked: Sequence[Blocked]) -> bool:
    """Whether ``before`` are vector loops that may stay in the columns, while loads of ``blocked``
    come earlier and its stores later: they store elsewhere, and read no element that one of these
    stores in any of its iterations."""
    inside = [s for stmt in before for s in walk(stmt)]
    if loop.kind != "serial" or not all(isinstance(s, Block | Let | For | Store) for s in inside):
        return False
    if not all(s.kind == "vector" for s in inside if isinstance(s, For)):
        return False
    names = {
        str(b.access.source if isinstance(b.access, Load) else b.access.buffer) for b in blocked
    }
    if any(isinstance(s, Store) and s.buffer in names for s in inside):
        return False
    assert isinstance(lanes.upper, Literal)
    rows = range(int(lanes.upper.value))
    stores = {b.access.buffer: b.access for b in blocked if isinstance(b.access, Store)}
    loads = (n for s in inside for e in expressions(s) for n in walk_expr(e) if isinstance(n, Load))
    return all(
        any(
            _apart(to_affine(one), to_affine(two), loop.var, lanes.var, rows)
            for one, two in zip(stores[str(load.source)].indices, load.indices, strict=True)
        )
        for load in loads
        if load.source in stores
    )


def _apart(one: Affine | None, two: Affine | None, var: str, lane: str, rows: range) -> bool:
    """Whether the index ``one`` of lanes in ``rows`` is never ``two``, in any iterations."""
    if one is None or two is None:
        return False
    step, difference = one.coefficient(lane), one - two
    rest = difference - Affine(((lane, step),) if step else ())
    moves = one.coefficient(var) or two.coefficient(var) or two.coefficient(lane)
    return not moves and rest.is_constant and all(rest.constant + step * k for k in rows)


def _long_enough(loop: For) -> bool:
    """Whether ``loop`` has enough iterations for a block; an unrolled one at least 2."""
    if loop.kind == "serial":
        return True
    trips = known_range(loop)
    return trips is not None and 2 <= len(trips) <= WIDEST


def _written_out(loop: For, lanes: For, blocked: Sequence[Blocked]) -> Stmt:
    """A block for each ``widest`` iterations of the unrolled ``loop``, and one for the
    remainder."""
    trips, width = known_range(loop), widest(blocked)
    assert trips is not None
    starts = range(trips.start, trips.stop, width)
    return Block(
        tuple(
            transposed_block(loop, lanes, blocked, literal(k), (min(width, trips.stop - k), width))
            for k in starts
        )
    )


def _power_below(lanes: For) -> int:
    assert isinstance(lanes.upper, Literal)
    return 1 << (int(lanes.upper.value).bit_length() - 1)


def _in_blocks(loop: For, width: int, rest: Var, rows: Callable[[Expr], Stmt]) -> Stmt:
    """``loop`` in blocks of ``width`` columns; ``rows`` computes one; ``rest``: a name for the end
    of the blocks."""
    block = Var(f"{loop.var}.block")
    many = Apply("max", ((loop.upper - loop.lower) // width, literal(0)))
    blocks = For(block.name, literal(0), many, "serial", rows(loop.lower + block * width))
    return Let(rest.name, loop.lower + many * width, Block((blocks, replace(loop, lower=rest))))


def _rows(
    loop: For,
    lanes: For,
    buffers: Mapping[str, Buffer],
    blocked: Sequence[Blocked],
    width: int,
    names: frozenset[str],
) -> Callable[[Expr], Stmt]:
    """A function that computes all of ``lanes`` in a block, given its first column."""
    assert isinstance(lanes.upper, Literal)
    rows = int(lanes.upper.value)
    if rows <= width or not _is_idempotent(loop, lanes):
        return lambda column: transposed_block(loop, lanes, blocked, column, (width, width))
    first = Var(fresh_name(f"{lanes.var}.first", loop, names))
    number = Var(fresh_name(f"{lanes.var}.rows", loop, names))
    moved: dict[str, Expr] = {lanes.var: first + Var(lanes.var)}
    body = map_all_expressions(lanes.body, lambda e: substitute(e, moved))
    some = replace(lanes, upper=literal(width), body=body)
    inside = across_rows(loop, some, buffers, int(blocked[0].tile.split(".")[1]))

    def block(column: Expr) -> Stmt:
        square = transposed_block(loop, some, inside, column, (width, width))
        start = apply("min", number * width, literal(rows - width))
        many = literal(-(-rows // width))
        return For(number.name, literal(0), many, "serial", Let(first.name, start, square))

    return block


def _is_idempotent(loop: For, lanes: For) -> bool:
    """Whether rows may run in any order, and twice: each stores distinct elements, none of which
    are loaded."""
    inside = list(walk(lanes.body))
    bound = {s.name for s in inside if isinstance(s, Let)} | {loop.var}
    stores = [s for s in inside if isinstance(s, Store)]
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    loaded = {str(n.source) for n in nodes if isinstance(n, Load)}
    if any(s.buffer in loaded for s in stores) or len({s.buffer for s in stores}) < len(stores):
        return False
    return all(
        any(_is_injective(to_affine(i), lanes.var, bound) for i in s.indices) for s in stores
    )


def _is_injective(index: Affine | None, lane: str, others: set[str]) -> bool:
    """Whether ``index`` is injective in ``lane`` and independent of ``others``."""
    if index is None or not index.coefficient(lane):
        return False
    return index.replaced({lane: Affine()}).variables().isdisjoint({lane, *others})


def _stored(stmts: Sequence[Stmt], known: Mapping[Place, Expr], count: int) -> Stmt:
    """``stmts`` after ``count`` stores, with loads of stored values taken from lets."""
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
