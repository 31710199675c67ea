"""Multi-stream loads: reductions over arrays beyond the caches read several rows side by side.

    for i in 0 … n parallel:             for t in 0 … n/P parallel:
      for k vector: s[i] += x[i, k]  →     for p in 0 … P:
                                             for k vector: s[p * n/P + t] += x[p * n/P + t, k]

    for i in 0 … n parallel:             for t in 0 … n/P parallel:
      for r: for k vector:           →     for r: for p in 0 … P:
        s[i, k] += x[i, r, k]                for k vector: s[t * P + p, k] += x[t * P + p, r, k]

A single stream has one or two pages of memory open and gets half to two thirds of the bandwidth of
a copy, whose stores keep other pages open. P streams of short pieces, prefetched some iterations
ahead, do so as well; P is as many as L1 has room for prefetched lines. The distance between streams
is chosen, or each runs some iterations behind the last, such that their lines map to different sets
of L1. Iterations of the parallel loop are independent and may be reordered; the terms of one sum
keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import worksharing_loop
from weft.codegen.rebuild import map_all_expressions
from weft.codegen.simplify import simplify_kernel
from weft.codegen.software_prefetch import known_bytes
from weft.ir.loop_ir import (
    Block,
    Comment,
    For,
    If,
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
from weft.ir.machine import Cache
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, apply, literal, substitute
from weft.ir.scalar_expr import walk as walk_expr

AHEAD = 16  # lines of each stream that are prefetched
VISIT = 16  # lines of a row that are read at a time
_HELD = 2  # 1/2 of L1 for prefetched lines, the rest for sums
_PART = 8  # results smaller than 1/8 of what is read do not count
_TRIED = 16  # distances between streams that are tried


@dataclass(frozen=True, slots=True)
class _Rows:
    """What an iteration of ``loop`` reads: ``loads`` of large arrays, whose next row is ``step``
    bytes further on. ``near``: L1."""

    kernel: Kernel
    loop: For
    low: int
    count: int
    loads: tuple[Load, ...]
    step: int
    near: Cache

    @property
    def ahead(self) -> int:
        """Bytes of each stream that are prefetched."""
        return AHEAD * self.near.line

    @property
    def stmts(self) -> tuple[Stmt, ...]:
        body = self.loop.body
        return body.stmts if isinstance(body, Block) else (body,)

    def var(self, part: str) -> Var:
        return Var(fresh_name(f"{self.loop.var}.{part}", self.loop, frozenset()))

    def at(self, stmt: Stmt, place: Expr) -> Stmt:
        here: dict[str, Expr] = {self.loop.var: place + self.low}
        return map_all_expressions(stmt, lambda e: substitute(e, here))


def multi_stream_loads(kernel: Kernel, near: Cache, last_cache: int, threads: int = 1) -> Kernel:
    """``kernel`` with several streams, if it is a parallel loop that reduces rows of more than
    ``last_cache`` bytes in all. ``near``: L1."""
    _, loop = worksharing_loop(kernel)
    rows = _rows(kernel, loop, near, last_cache) if loop else None
    if rows is None:
        return kernel
    places = near.size // (_HELD * rows.ahead * len(rows.loads))
    if any(isinstance(s, For) and s.kind == "serial" for s in rows.stmts):
        room = near.size // _HELD
        made = _side_by_side(rows, places, threads) if _sums(rows) <= room else None
    else:
        made = _one_row_each(rows, places)
    if made is None:
        return kernel
    return simplify_kernel(replace(kernel, body=_replaced(kernel.body, rows.loop, made)))


# ---- which loops --------------------------------------------------------------------------------


def _rows(kernel: Kernel, loop: For, near: Cache, last_cache: int) -> _Rows | None:
    """The rows that ``loop`` reduces; None if it does anything else, or they fit into the last
    cache."""
    inside = list(walk(loop.body))
    match loop.lower, loop.upper:
        case Literal(low), Literal(high) if loop.step == 1 and all(map(_plain, inside)):
            count = int(high) - int(low)
        case _:
            return None
    sizes = {buffer.name: known_bytes(buffer) for buffer in kernel.buffers}
    written = frozenset[str]().union(*map(buffers_written, inside))
    nodes = [n for s in inside for e in expressions(s) for n in walk_expr(e)]
    loads = [n for n in nodes if isinstance(n, Load)]
    large = {str(n.source) for n in loads} - written
    read = sum(sizes.get(name, 0) for name in large)
    if read <= last_cache or sum(sizes.get(name, read) for name in written) * _PART > read:
        return None
    own = tuple(dict.fromkeys(n for n in loads if sizes.get(str(n.source), 0) * _PART > read))
    steps = [_step(kernel, load, loop.var) for load in own]
    if not all(steps) or not all(_short(s, near.line) for s in inside if _is_vector(s)):
        return None
    return _Rows(kernel, loop, int(low), count, own, steps[0], near)


def _plain(stmt: Stmt) -> bool:
    """Whether ``stmt`` belongs to a vector reduction with at most one serial loop."""
    if not isinstance(stmt, For):
        return isinstance(stmt, Block | Store | Update | Comment)
    numbers = isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
    if stmt.kind == "serial":
        return numbers and stmt.step == 1 and _is_vector(stmt.body)
    inner = any(isinstance(s, For) for s in walk(stmt.body))
    return numbers and _is_vector(stmt) and stmt.step == 1 and not inner


def _is_vector(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind == "vector"


def _short(lanes: Stmt, line: int) -> bool:
    """Whether an iteration loads no more of a row than is read at a time, in lines of ``line``
    bytes."""
    assert isinstance(lanes, For)
    lower, upper = lanes.lower, lanes.upper
    assert isinstance(lower, Literal) and isinstance(upper, Literal)
    nodes = [n for s in walk(lanes.body) for e in expressions(s) for n in walk_expr(e)]
    size = max((n.dtype.itemsize for n in nodes if isinstance(n, Load)), default=1)
    return (int(upper.value) - int(lower.value)) * size <= VISIT * line


def _step(kernel: Kernel, load: Load, var: str) -> int:
    """Bytes between what two iterations of ``var`` load from consecutive rows; 0 if unknown."""
    (buffer,) = [b for b in kernel.buffers if b.name == load.source]
    forms = [to_affine(index) for index in load.indices]
    known = [form for form in forms if form is not None]
    moves = [form.coefficient(var) for form in known]
    hidden = any(var in f.variables() and not m for f, m in zip(known, moves, strict=True))
    if hidden or len(known) < len(forms) or len(forms) < 2 or moves[-1] or sum(moves) != 1:
        return 0
    strides = [s for s, m in zip(buffer.strides, moves, strict=True) if m]
    if len(strides) != 1 or not isinstance(strides[0], Literal):
        return 0
    return int(strides[0].value) * buffer.dtype.itemsize


def _sums(rows: _Rows) -> int:
    """Bytes of the results of all iterations."""
    written = frozenset[str]().union(*map(buffers_written, walk(rows.loop.body)))
    return sum(known_bytes(b) for b in rows.kernel.buffers if b.name in written)


# ---- what becomes of them -----------------------------------------------------------------------


def _one_row_each(rows: _Rows, places: int) -> Stmt | None:
    """Iterations of one row of each stream, and the rows left over; None for too few rows."""
    if places < 2 or rows.count // places < _TRIED * (places + 1):
        return None  # more than those that are left then
    most = rows.count // places
    each = max(range(most, most - _TRIED, -1), key=lambda n: _spread(rows, n * rows.step, places))
    iteration, place = rows.var("turn"), rows.var("place")
    row = Block((_prefetches(rows, rows.stmts), *rows.stmts))
    all_places = For(
        place.name, literal(0), literal(places), "serial", rows.at(row, place * each + iteration)
    )
    left = If(
        iteration < rows.count - places * each,
        rows.at(Block(rows.stmts), iteration + places * each),
        Block(()),
    )
    return For(iteration.name, literal(0), literal(each), "parallel", Block((all_places, left)))


def _side_by_side(rows: _Rows, places: int, threads: int) -> Stmt | None:
    """Iterations of several sums, one row of each at a time; None if ``threads`` have one
    sum each."""
    trips = -(-rows.count // max(1, places * threads)) * threads
    places = -(-rows.count // trips)
    if places < 2:
        return None
    iteration, place, step = rows.var("turn"), rows.var("place"), rows.var("step")
    here = iteration * places + place
    many = apply("min", literal(places), rows.count - iteration * places)

    def placed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "serial":
            return _behind(rows, stmt, places, many, (iteration * places, place, step))
        return For(place.name, literal(0), many, "serial", rows.at(stmt, here))

    body = Block(tuple(map(placed, rows.stmts)))
    return For(iteration.name, literal(0), literal(-(-rows.count // places)), "parallel", body)


def _behind(rows: _Rows, inner: For, places: int, many: Expr, names: tuple[Expr, Var, Var]) -> Stmt:
    """``inner`` of all streams, each some iterations behind the one before."""
    first, place, step = names
    lower, upper = inner.lower, inner.upper
    assert isinstance(lower, Literal) and isinstance(upper, Literal)
    length = int(upper.value) - int(lower.value)
    each = _step(rows.kernel, rows.loads[0], inner.var)
    lag = max(range(_TRIED), key=lambda n: _spread(rows, rows.step - n * each, places))
    at: dict[str, Expr] = {inner.var: step - place * lag + int(lower.value)}
    stmts = (_prefetches(rows, (inner.body,)), inner.body)
    row = map_all_expressions(Block(stmts), lambda e: substitute(e, at))
    low: Expr = literal(0)
    high = many
    if lag:
        low = apply("max", low, (step - length + lag) // lag)
        high = apply("min", high, step // lag + 1)
    inside = For(place.name, low, high, "serial", rows.at(row, first + place))
    return For(step.name, literal(0), literal(length + lag * (places - 1)), "serial", inside)


def _prefetches(rows: _Rows, stmts: Sequence[Stmt]) -> Stmt:
    """Prefetches of the lines that the vector loops of ``stmts`` load ``AHEAD`` lines
    further on."""
    hints: dict[Stmt, None] = {}
    for lanes in (s for s in stmts if isinstance(s, For)):
        nodes = [n for s in walk(lanes.body) for e in expressions(s) for n in walk_expr(e)]
        for load in (n for n in nodes if isinstance(n, Load) and n in rows.loads):
            line, many = Var("line"), rows.near.line // load.dtype.itemsize
            at = lanes.lower + line * many + rows.ahead // load.dtype.itemsize
            places = tuple(substitute(index, {lanes.var: at}) for index in load.indices)
            lines = (lanes.upper - lanes.lower + (many - 1)) // many
            hint = Prefetch(str(load.source), places)
            hints[For(line.name, literal(0), lines, "unrolled", hint)] = None
    return Block(tuple(hints))


def _spread(rows: _Rows, distance: int, places: int) -> int:
    """Bytes between the nearest two of ``places`` streams, ``distance`` apart, modulo a way of
    L1: lines that far apart map to one set."""
    way = rows.near.way
    offsets = [distance * n % way for n in range(1, places)]
    return min(rows.ahead, *(min(n, way - n) for n in offsets))


def _replaced(stmt: Stmt, old: For, new: Stmt) -> Stmt:
    """``stmt`` with ``new`` for ``old``, which is inside lets and comments only."""
    if stmt is old:
        return new
    if isinstance(stmt, Let):
        return replace(stmt, body=_replaced(stmt.body, old, new))
    assert isinstance(stmt, Block)
    return Block(tuple(s if isinstance(s, Comment) else _replaced(s, old, new) for s in stmt.stmts))
