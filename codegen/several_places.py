"""Several places: sums over an array beyond the caches read several places of it at once.

    for i in 0 … n parallel:                for t in 0 … n/P parallel:
      for r: for k vector:           →        for r: for p in 0 … P unrolled: for k vector:
        s[i, k] += x[i, r, k]                   s[p * n/P + t, k] += x[p * n/P + t, r, k]

A core that reads one row behind the other has a page or two of memory at work for it, and gets two
thirds of what it copies, when stores keep other pages busy. Rows far apart do so as well, all the
more if their lines are asked for some turns before. Turns of a parallel loop are independent, so
that several of them may go through the loop inside together, as long as the sums of all fit in
registers: then what a turn adds up is one line after the other, and no row is left half-way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.loop_ir import (
    Block,
    Buffer,
    Comment,
    For,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    buffers_written,
    expressions,
    walk,
)
from weft.codegen.rebuild import map_all_expressions
from weft.codegen.simplify import simplify_kernel
from weft.codegen.spread_loop import spread_loop
from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Expr, Literal, Load, Var, literal, substitute
from weft.frontend.scalar_expr import walk as walk_expr

PLACES = 4
AHEAD = 1024  # bytes, about what is on its way
_KEPT = 4  # of so many parts of the registers, sums take one less at most
_PART = 8  # of what is read, results that do not count
_LEAST = 4  # turns of the loop that threads share
_LINE = 64  # bytes
_NAMES = ("turn", "place")


def several_places(kernel: Kernel, last_cache: int, registers: int) -> Kernel:
    """``kernel`` with rows of several places in a turn, where it is a parallel loop around a serial
    one that sums up rows, of more than ``last_cache`` bytes in all; ``registers``: their bytes."""
    _, loop = spread_loop(kernel)
    bounds = _bounds(loop) if loop else None
    if loop is None or bounds is None or not _sums_up(kernel, loop, last_cache):
        return kernel
    made = _together(loop, *bounds, kernel, registers)
    if made is None:
        return kernel
    return simplify_kernel(replace(kernel, body=_replaced(kernel.body, loop, made)))


# ---- which loops --------------------------------------------------------------------------------


def _bounds(loop: For) -> tuple[int, int] | None:
    match loop.lower, loop.upper:
        case Literal(low), Literal(high) if loop.step == 1:
            return int(low), int(high)
    return None


def _sums_up(kernel: Kernel, loop: For, last_cache: int) -> bool:
    """Whether the turns of ``loop`` read a row each of what is large, and write little."""
    inside = list(walk(loop.body))
    if not all(isinstance(s, Block | Store | Update | For | Comment) for s in inside):
        return False
    sizes = {buffer.name: _bytes(buffer) for buffer in kernel.buffers}
    written = frozenset[str]().union(*map(buffers_written, inside))
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    loads = [n for n in nodes if isinstance(n, Load)]
    large = {str(n.source) for n in loads} - written
    read = sum(sizes.get(name, 0) for name in large)
    small = sum(sizes.get(name, read) for name in written) * _PART <= read
    rows = [n for n in loads if sizes.get(str(n.source), 0) * _PART > read]
    serial = any(isinstance(s, For) and s.kind == "serial" for s in inside)
    return (
        serial and read > last_cache and small and all(_by_rows(n.indices, loop.var) for n in rows)
    )


def _bytes(buffer: Buffer) -> int:
    """0: not known."""
    total = buffer.dtype.itemsize
    for size in buffer.shape:
        total *= int(size.value) if isinstance(size, Literal) else 0
    return total


def _by_rows(indices: Sequence[Expr], var: str) -> bool:
    """Whether each turn of ``var`` has the next row, the last index being within it."""
    forms = [to_affine(index) for index in indices]
    known = [form for form in forms if form is not None]
    moves = [form.coefficient(var) for form in known]
    hidden = any(var in f.variables() and not m for f, m in zip(known, moves, strict=True))
    return not hidden and len(known) == len(forms) > 1 and moves[-1] == 0 and sum(moves) == 1


# ---- what becomes of them -----------------------------------------------------------------------


def _together(loop: For, low: int, high: int, kernel: Kernel, registers: int) -> Stmt | None:
    """The rows of all places in each turn of the loop inside; None where there is more than one
    behind the other, or more sums than registers."""
    each, left = divmod(high - low, PLACES)
    stmts = loop.body.stmts if isinstance(loop.body, Block) else (loop.body,)
    if left or each < _LEAST or not all(_simple(s, loop.var, kernel, registers) for s in stmts):
        return None
    turn, place = (Var(fresh_name(f"{loop.var}.{part}", loop, frozenset())) for part in _NAMES)
    here: dict[str, Expr] = {loop.var: place * each + turn + low}

    def placed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "serial":
            assert isinstance(stmt.body, For)
            return replace(stmt, body=placed(Block((_asked_for(stmt.body), stmt.body))))
        moved = map_all_expressions(stmt, lambda e: substitute(e, here))
        return For(place.name, literal(0), literal(PLACES), "unrolled", moved)

    return For(turn.name, literal(0), literal(each), "parallel", Block(tuple(map(placed, stmts))))


def _asked_for(lanes: For) -> Stmt:
    """Prefetches of each line that ``lanes`` will load ``AHEAD`` bytes further on."""
    line = Var(f"{lanes.var}.line")
    nodes = [n for s in walk(lanes.body) for e in expressions(s) for n in walk_expr(e)]
    hints: list[Stmt] = []
    for load in dict.fromkeys(n for n in nodes if isinstance(n, Load)):
        many = _LINE // load.dtype.itemsize
        at = lanes.lower + line * many + AHEAD // load.dtype.itemsize
        places = tuple(substitute(index, {lanes.var: at}) for index in load.indices)
        hint = Prefetch(str(load.source), places, far=True)
        lines = (lanes.upper - lanes.lower + (many - 1)) // many
        hints.append(For(line.name, literal(0), lines, "unrolled", hint))
    return Block(tuple(hints))


def _simple(stmt: Stmt, var: str, kernel: Kernel, registers: int) -> bool:
    """A store, a vector loop, or a serial loop of one that accumulates what registers keep."""
    if not isinstance(stmt, For):
        return isinstance(stmt, Store | Comment)
    if stmt.kind == "vector":
        return not any(isinstance(s, For) for s in walk(stmt.body))
    sizes = {b.name: b.dtype.itemsize for b in kernel.buffers}
    bounds = {n.name for e in (stmt.lower, stmt.upper) for n in walk_expr(e) if isinstance(n, Var)}
    if stmt.kind != "serial" or var in bounds:
        return False
    match stmt.body:
        case For(_, Literal(low), Literal(high), "vector", Update(targets)):
            kept = sum(sizes.get(name, registers) for name, _ in targets)
            return (int(high) - int(low)) * kept * PLACES <= registers - registers // _KEPT
    return False


def _replaced(stmt: Stmt, old: For, new: Stmt) -> Stmt:
    """``stmt`` with ``new`` for ``old``, which is all of it but for lets and comments around."""
    if stmt is old:
        return new
    if isinstance(stmt, Let):
        return replace(stmt, body=_replaced(stmt.body, old, new))
    assert isinstance(stmt, Block)
    return Block(tuple(s if isinstance(s, Comment) else _replaced(s, old, new) for s in stmt.stmts))
