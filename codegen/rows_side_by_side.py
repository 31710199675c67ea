"""Rows side by side: loops that reduce long rows of memory read several rows together, far apart.

    for i in 0 … n parallel:             for t in 0 … n/P parallel:
      s[i] = 0                             s[t] = 0;  s[n/P + t] = 0;  …
      for k vector:                  →     for k vector:
        s[i] += x[i, k]                      s[t] += x[t, k];  s[n/P + t] += x[n/P + t, k];  …
                                           the iteration of one of the rows left over

Prefetchers follow each of the P streams through all of its rows, and more lines are under way than
of a single one. Neighbouring rows would not do: each is a stream that ends after a row. All P share
what they read besides, an operand of a product of a matrix and a vector say. Iterations of the loop
are independent and may be reordered; the terms of each sum stay in their order.

Also known as: unroll-and-jam with a stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import worksharing_loop
from weft.codegen.rebuild import map_children, map_expressions
from weft.codegen.simplify import simplify_kernel
from weft.codegen.software_prefetch import known_bytes
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    buffers_written,
    expressions,
    walk,
)
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal, rewrite
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions

_FEW = 8  # turns of each thread: with fewer, the rows left over are too many
_HELD = 2  # 1/2 of the vector registers for sums, the rest for what is folded into them
_NODES = 128  # of expressions in an iteration: repeating longer ones is more code than it is worth
_MAIN = 2  # rows that are at least half of all that is touched decide


def rows_side_by_side(
    kernel: Kernel, places: int, least: int, threads: int = 1, registers: int = 16
) -> Kernel:
    """``kernel`` with ``places`` iterations of its parallel loop together, if that reduces rows of
    more than ``least`` bytes in all. ``registers``: for vectors."""
    _, loop = worksharing_loop(kernel)
    if loop is None or not _is_fit(kernel, loop, places, least, threads):
        return kernel
    inside = [s for s in walk(loop.body) if isinstance(s, For)]
    if any(_folds(s) * places * _HELD > registers for s in inside):
        return kernel
    assert isinstance(loop.lower, Literal) and isinstance(loop.upper, Literal)
    low, count = int(loop.lower.value), int(loop.upper.value) - int(loop.lower.value)
    each = count // places
    turn = Var(fresh_name(f"{loop.var}.turn", loop, frozenset(kernel.parameters)))
    rows = [_placed(loop, p, turn + (low + p * each)) for p in range(places)]
    body = _together(rows)
    if count % places:
        last = _placed(loop, places, turn + (low + places * each))
        body = Block((body, If(turn < count % places, last)))
    made = For(turn.name, literal(0), literal(each), "parallel", body)
    return simplify_kernel(replace(kernel, body=_replaced(kernel.body, loop, made)))


# ---- which loops --------------------------------------------------------------------------------


def _is_fit(kernel: Kernel, loop: For, places: int, least: int, threads: int) -> bool:
    """Whether ``loop`` consists of what can run together, and mainly reads rows that are apart."""
    match loop.lower, loop.upper:
        case Literal(low), Literal(high) if loop.step == 1:
            if high - low < _FEW * places * threads:
                return False
        case _:
            return False
    inside = list(walk(loop.body))
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    if len(nodes) > _NODES or not all(_plain(s, loop) for s in inside):
        return False
    if any(_stores_rows(s) for s in inside):
        return False
    rows = {str(load.source) for load in _rows(kernel, loop)}
    sizes = {buffer.name: known_bytes(buffer) for buffer in kernel.buffers}
    touched = {str(n.source) for n in nodes if isinstance(n, Load)}
    touched = touched.union(*map(buffers_written, inside)) & sizes.keys()
    read = sum(sizes[name] for name in rows)
    return read > least and read * _MAIN >= sum(sizes[name] for name in touched)


def _plain(stmt: Stmt, loop: For) -> bool:
    """Whether iterations of ``loop`` can run ``stmt`` together: loops in it are as long in all."""
    match stmt:
        case For(kind="serial" | "vector" | "unrolled", instruction=None):
            return not any(_moves(end, loop) for end in (stmt.lower, stmt.upper))
        case Allocate(buffer):
            return buffer.scope == "local" and not any(_moves(n, loop) for n in buffer.shape)
    return isinstance(stmt, Block | Let | Store | Update | Comment)


def _stores_rows(stmt: Stmt) -> bool:
    """Whether ``stmt`` is a vector loop that stores along its lanes: so many streams of stores at a
    time are more than cores have buffers for lines on their way to memory."""
    if not isinstance(stmt, For) or stmt.kind != "vector":
        return False
    indices = [
        index
        for s in walk(stmt.body)
        if isinstance(s, Store | Update)
        for at in ([s.indices] if isinstance(s, Store) else [at for _, at in s.targets])
        for index in at
    ]
    return any(mentions(index, (stmt.var,)) for index in indices)


def _folds(loop: For) -> int:
    return sum(isinstance(s, Update) for s in walk(loop.body))


def _moves(expr: Expr, loop: For) -> bool:
    """Whether ``expr`` may differ between iterations of ``loop``."""
    defined = {loop.var, *(s.name for s in walk(loop.body) if isinstance(s, Let))}
    return mentions(expr, tuple(defined)) or any(isinstance(n, Load) for n in walk_expr(expr))


def _rows(kernel: Kernel, loop: For) -> list[Load]:
    """What vector loops in ``loop`` fold into sums, each iteration other rows of it."""
    written = frozenset[str]().union(*map(buffers_written, walk(loop.body)))
    ranks = {b.name: len(b.shape) for b in kernel.buffers if b.name not in written}
    found = []
    for lanes in walk(loop.body):
        if isinstance(lanes, For) and lanes.kind == "vector":
            folds = (s for s in walk(lanes.body) if isinstance(s, Update))
            nodes = (n for fold in folds for value in fold.values for n in walk_expr(value))
            loads = [n for n in nodes if isinstance(n, Load) and ranks.get(str(n.source), 0) > 1]
            found += [load for load in loads if _is_row(load, lanes.var, loop.var)]
    return found


def _is_row(load: Load, lane: str, row: str) -> bool:
    """Whether ``load`` goes along its last dimension with ``lane``, along another with ``row``."""
    forms = [to_affine(index) for index in load.indices]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return False
    along = [bool(form.coefficient(lane)) for form in known]
    across = [bool(form.coefficient(row)) for form in known]
    return along == [False] * (len(known) - 1) + [True] and any(across) and not across[-1]


# ---- what becomes of them -----------------------------------------------------------------------


def _placed(loop: For, place: int, at: Expr) -> Stmt:
    """The iteration ``at``, whose names and buffers are its own."""
    inside = list(walk(loop.body))
    values: dict[str, Expr] = {loop.var: at}
    own = {s.buffer.name: f"{s.buffer.name}.{place}" for s in inside if isinstance(s, Allocate)}
    lets = {s.name: f"{s.name}.{place}" for s in inside if isinstance(s, Let)}

    def named(node: Expr) -> Expr:
        match node:
            case Var(name) if name in lets:
                return replace(node, name=lets[name])
            case Var(name) if name in values:
                return values[name]
            case Load(source) if source in own:
                return replace(node, source=own[str(source)])
        return node

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Let):
            return Let(lets[stmt.name], rewrite(stmt.value, named), change(stmt.body))
        new = map_expressions(map_children(stmt, change), lambda e: rewrite(e, named))
        match new:
            case Allocate(buffer):
                return replace(new, buffer=replace(buffer, name=own[buffer.name]))
            case Store():
                return replace(new, buffer=own.get(new.buffer, new.buffer))
            case Update():
                return replace(new, targets=tuple((own.get(n, n), at) for n, at in new.targets))
        return new

    return change(loop.body)


def _together(parts: Sequence[Stmt]) -> Stmt:
    """The same statement of several iterations, one after the other within common loops."""
    first = parts[0]
    match first:
        case Block():
            each = [part.stmts for part in parts if isinstance(part, Block)]
            return Block(tuple(map(_together, zip(*each, strict=True))))
        case For():
            return replace(first, body=_together([p.body for p in parts if isinstance(p, For)]))
        case Let() | Allocate():
            body = _together([p.body for p in parts if isinstance(p, Let | Allocate)])
            for part in reversed(parts):
                assert isinstance(part, Let | Allocate)
                body = replace(part, body=body)
            return body
    return first if isinstance(first, Comment) else Block(tuple(parts))


def _replaced(stmt: Stmt, old: For, new: Stmt) -> Stmt:
    return new if stmt is old else map_children(stmt, lambda part: _replaced(part, old, new))
