"""Blocks of ragged or in-place transpositions: square blocks of independent iterations load first,
compute, and store last.

    for i parallel:                   for I in strips of W parallel:
      for j in 0 … i vector:            for J in blocks of W up to I:
        t = A[i, j]                       for a < W: for b < W vector: T[b, a] = A[J + a, I + b]
        A[i, j] = A[j, i]       →         for b < W: for a < W vector:
        A[j, i] = t                         S[b, a] = A[I + b, J + a]; A[I + b, J + a] = T[b, a]
                                          for a < W: for b < W vector: A[J + a, I + b] = S[b, a]
                                        for i in the strip: for j in the remainder vector: …

No iteration touches what another one stores, so that a block may run in any order; within an
iteration, loads stay before the stores that may be to their elements. Each cache line of a column
is used for all of its elements at once. ``tile_transposes`` does rectangles of other arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import map_loops, unconditional_loads
from weft.codegen.never_alias import never_alias
from weft.codegen.rebuild import map_all_expressions
from weft.codegen.transposed_blocks import Blocked, crosses_rows, transposed_block, widest
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    expressions,
    walk,
)
from weft.ir.scalar_affine import FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, substitute
from weft.ir.scalar_expr import walk as walk_expr

_NODES = 64  # expression nodes in a body, which is unrolled for each column of a block


def swap_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` with blocks where independent iterations cross rows, simplified."""
    made: list[Blocked] = []

    def blocks(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
        lanes = loop.body
        if not isinstance(lanes, For) or not _fits(loop, lanes):
            return None
        blocked = _across(loop, lanes, buffers, len(made))
        if not blocked:
            return None
        made.extend(blocked)
        taken = names | {s.var for s in walk(loop) if isinstance(s, For)}
        return _strips(loop, lanes, blocked, taken)

    return map_loops(kernel, blocks, "parallel")


def _fits(loop: For, lanes: For) -> bool:
    """Whether a vector loop of step 1 has bounds that grow or shrink evenly with ``loop``, and a
    small body without branches."""
    if lanes.kind != "vector" or lanes.step != 1:
        return False
    inside = list(walk(lanes.body))
    if not all(isinstance(s, Allocate | Block | Comment | Let | Store) for s in inside):
        return False
    nodes = sum(1 for s in inside for e in expressions(s) for _ in walk_expr(e))
    forms = (to_affine(lanes.lower), to_affine(lanes.upper))
    return nodes <= _NODES and all(
        f is not None and not any(isinstance(t, FloorDiv) for t, _ in f.terms) for f in forms
    )


# ---- which accesses move to the ends of a block -------------------------------------------------


def _across(loop: For, lanes: For, buffers: Mapping[str, Buffer], number: int) -> list[Blocked]:
    """The accesses across rows, in order; none where one of them has to keep its place. Their
    register buffers are numbered from ``number`` on."""
    order = list(_accesses(lanes.body))
    inside = [e for s in walk(lanes.body) for e in expressions(s)]
    sure = {load for e in inside for load in unconditional_loads(e)}
    bound = {s.name for s in walk(lanes.body) if isinstance(s, Let)} | {loop.var, lanes.var}
    found: dict[Load | Store, None] = {}
    for place, access in enumerate(order):
        name, indices = _place(access)
        if name not in buffers or not crosses_rows(indices, loop.var, lanes.var, bound):
            continue
        if isinstance(access, Load) and access not in sure:
            continue
        others = order[:place] if isinstance(access, Load) else order[place + 1 :]
        if not all(_may_swap(access, other, lanes, bound - {loop.var}) for other in others):
            return []
        found[access] = None
    return [
        Blocked(access, f"block.{number + k}", buffers[_place(access)[0]].dtype)
        for k, access in enumerate(found)
    ]


def _may_swap(access: Load | Store, other: Load | Store, lanes: For, bound: set[str]) -> bool:
    """Whether ``access`` and ``other`` of the same iteration may change places."""
    if isinstance(access, Load) and isinstance(other, Load):
        return True
    (name, one), (place, two) = _place(access), _place(other)
    return name != place or never_alias(one, two, lanes, bound)


def _place(access: Load | Store) -> tuple[str, tuple[Expr, ...]]:
    name = access.source if isinstance(access, Load) else access.buffer
    return str(name), access.indices


def _accesses(stmt: Stmt) -> Iterator[Load | Store]:
    """The accesses of ``stmt``, which is straight, in order."""
    for part in walk(stmt):
        for expr in expressions(part):
            yield from (n for n in walk_expr(expr) if isinstance(n, Load))
        if isinstance(part, Store):
            yield part


# ---- the loops ----------------------------------------------------------------------------------


def _strips(loop: For, lanes: For, blocked: Sequence[Blocked], taken: frozenset[str]) -> Stmt:
    """``loop`` in strips as wide as a block; new names avoid ``taken``."""
    width = widest(blocked)
    strip, first = (Var(fresh_name(f"{loop.var}.{p}", loop, taken)) for p in ("strip", "first"))
    begin, stop = apply("max", first, loop.lower), apply("min", first + width, loop.upper)
    ragged = For(loop.var, begin, stop, "serial", lanes)
    whole = (first >= loop.lower) & (first + width <= loop.upper)
    body = If(whole, _whole(loop, lanes, blocked, first, width, taken), ragged)
    begin, stop = loop.lower // width, (loop.upper + (width - 1)) // width
    return For(strip.name, begin, stop, "parallel", Let(first.name, strip * width, body))


def _whole(
    loop: For,
    lanes: For,
    blocked: Sequence[Blocked],
    first: Expr,
    width: int,
    taken: frozenset[str],
) -> Stmt:
    """A strip of ``width`` iterations of ``loop`` from ``first`` on: blocks between ``low`` and
    ``end``, where all of them run, and what is before and after."""
    parts = ("low", "high", "end", "block", "lane")
    low, high, end, number, lane = (
        Var(fresh_name(f"{lanes.var}.{part}", lanes, taken)) for part in parts
    )
    here: dict[str, Expr] = {lanes.var: low + number * width + lane}
    moved = map_all_expressions(lanes.body, lambda e: substitute(e, here))
    square = For(lane.name, literal(0), literal(width), "vector", moved)
    inside = [replace(b, access=_moved(b.access, here)) for b in blocked]
    block = transposed_block(loop, square, inside, first, (width, width))
    many = apply("max", (high - low) // width, literal(0))
    blocks = For(number.name, literal(0), many, "serial", block)
    before = replace(lanes, upper=apply("min", low, lanes.upper))
    after = replace(lanes, lower=apply("max", end, lanes.lower))
    rest = For(loop.var, first, first + width, "serial", Block((before, after)))
    body: Stmt = Let(end.name, low + many * width, Block((blocks, rest)))
    ends: list[dict[str, Expr]] = [{loop.var: first}, {loop.var: first + (width - 1)}]
    body = Let(high.name, apply("min", *(substitute(lanes.upper, e) for e in ends)), body)
    return Let(low.name, apply("max", *(substitute(lanes.lower, e) for e in ends)), body)


def _moved(access: Load | Store, values: dict[str, Expr]) -> Load | Store:
    indices = tuple(substitute(index, values) for index in access.indices)
    if isinstance(access, Load):
        return replace(access, indices=indices)
    return replace(access, indices=indices, value=substitute(access.value, values))
