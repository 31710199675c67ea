"""Blocked transposes: independent iterations that cross rows of memory run in square blocks, which
load first, compute, and store last, transposed in registers.

    for i parallel:                   for I in strips of W parallel:
      for j in 0 … i vector:            for J in blocks of W up to I:
        t = A[i, j]                       for a < W: for b < W vector: T[b, a] = A[J + a, I + b]
        A[i, j] = A[j, i]       →         for b < W: for a < W vector:
        A[j, i] = t                         S[b, a] = A[I + b, J + a]; A[I + b, J + a] = T[b, a]
                                          for a < W: for b < W vector: A[J + a, I + b] = S[b, a]
                                        for i in the strip: for j in the remainder vector: …

Whichever loop is the vector loop, one of the arrays is accessed across its rows: an element of each
cache line, which is evicted before the next one is needed. A block uses all of a line at once. No
iteration touches what another one stores, so that a block may run in any order; within an
iteration, loads stay before the stores that may be to their elements; an update is a load and a
store. Where iterations do not load what they store, the last block overlaps the one before, and
computes some elements twice.

Blocks of a strip follow each other along one of the two loops. They use whole lines of the arrays
whose rows lie along it. Rows of the others are crossed: a line of them may be on two strips, and is
in L1 still for the second one, unless the rows share too few of its sets. So strips run along what
is loaded, as prefetchers like it, unless rows of what is stored share sets: its misses cost more.
They run in chunks, of as many rows as half of L1 has room for, with two lines each and one on the
other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import Place, known_range, map_loops, unconditional_loads
from weft.codegen.never_alias import never_alias
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.codegen.tile_bounds import TRUE
from weft.codegen.transposed_blocks import Blocked, crosses_rows, transposed_block, widest
from weft.ir.dtypes import bool_
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.ir.machine import Cache
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine, to_expr
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify
from weft.polyhedral.analysis.linear import mentions

_FALSE = literal(False, bool_)
_LINES = 6  # lines of the cache for each row that a strip crosses before the next one begins
_NARROW = 16  # most rows of a block
_SHORT = 4  # trip counts up to which vector loads and shuffles serve
_NODES = 64  # expression nodes in a body, which is unrolled for each column of a block


def block_transposes(kernel: Kernel, l1: Cache) -> Kernel:
    """``kernel`` with blocks where parallel loops around a vector loop cross rows, simplified;
    ``l1``: of the machine."""
    made: list[Blocked] = []

    def blocks(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
        outer, found = _nest(loop)
        lanes = found and replace(found, body=_with_stores(found.body, found.var))
        if lanes is None or not _fits(lanes):
            return None
        for column in outer:
            others = [o for o in outer if o is not column]
            if any(_moves(o, column) for o in others) or not _is_even(lanes, column):
                continue
            blocked = _across(column, lanes, buffers, len(made))
            if blocked:
                made.extend(blocked)
                taken = names | {s.var for s in walk(loop) if isinstance(s, For)}
                turned = _along_columns(column, lanes, blocked, buffers, l1)
                along_lanes = _in_blocks(column, lanes, others, blocked, _rows(l1), taken)
                if turned == _FALSE:
                    return along_lanes
                along_columns = _in_blocks(lanes, column, others, blocked, _rows(l1), taken)
                return If(turned, along_columns, along_lanes)
        return None

    return map_loops(kernel, blocks, "parallel")


def _nest(loop: For) -> tuple[list[For], For | None]:
    """The perfectly nested parallel loops from ``loop`` on, and the vector loop in the innermost
    one."""
    outer = [loop]
    while isinstance(outer[-1].body, For) and outer[-1].body.kind == "parallel":
        outer.append(outer[-1].body)
    inner = outer[-1].body
    plain = all(o.step == 1 for o in outer)
    return outer, inner if isinstance(inner, For) and inner.kind == "vector" and plain else None


def _with_stores(stmt: Stmt, lane: str) -> Stmt:
    """``stmt`` with a store for each update of a scalar that is another one in each lane."""
    match stmt:
        case Update(((name, indices),), monoid, (value,)) if any(_step(i, lane) for i in indices):
            (left,), (right,), (combined,) = monoid.left, monoid.right, monoid.combined
            operands = {left.name: Load(name, indices, left.dtype), right.name: value}
            return Store(name, indices, substitute(combined, operands))
    return map_children(stmt, lambda part: _with_stores(part, lane))


def _step(index: Expr, name: str) -> int | None:
    """How far ``index`` moves in each iteration of a loop over ``name``, if evenly."""
    form = to_affine(index)
    if form is None or any(isinstance(t, FloorDiv) for t, _ in form.terms):
        return None
    return form.coefficient(name)


def _fits(lanes: For) -> bool:
    """Whether the body is small and has no branches."""
    inside = list(walk(lanes.body))
    straight = Allocate | Block | Comment | Let | Prefetch | Store
    nodes = sum(1 for s in inside for e in expressions(s) for _ in walk_expr(e))
    return lanes.step == 1 and nodes <= _NODES and all(isinstance(s, straight) for s in inside)


def _moves(loop: For, around: For) -> bool:
    """Whether the bounds of ``loop`` change in the iterations of ``around``."""
    return mentions(loop.lower, (around.var,)) or mentions(loop.upper, (around.var,))


def _is_even(lanes: For, column: For) -> bool:
    """Whether ``column`` is long enough for blocks, and the bounds of ``lanes`` are invariant, or
    grow or shrink evenly."""
    trips = known_range(column)
    if trips is not None and len(trips) <= _SHORT:
        return False
    steps = [_step(bound, column.var) for bound in (lanes.lower, lanes.upper)]
    return not _moves(lanes, column) or None not in steps


# ---- which accesses move to the ends of a block -------------------------------------------------


def _across(column: For, lanes: For, buffers: Mapping[str, Buffer], number: int) -> list[Blocked]:
    """The accesses across rows, in order; none where one of them has to keep its place. Their
    register buffers are numbered from ``number`` on."""
    order = list(_accesses(lanes.body))
    inside = [e for s in walk(lanes.body) for e in expressions(s)]
    sure = {load for e in inside for load in unconditional_loads(e)}
    bound = {s.name for s in walk(lanes.body) if isinstance(s, Let)} | {column.var, lanes.var}
    found: dict[Load | Store, None] = {}
    for place, access in enumerate(order):
        name, indices = _place(access)
        if name not in buffers or not crosses_rows(indices, column.var, lanes.var, bound):
            continue
        if isinstance(access, Load) and access not in sure:
            continue
        others = order[:place] if isinstance(access, Load) else order[place + 1 :]
        if not all(_may_swap(access, other, lanes, bound - {column.var}) for other in others):
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


def _place(access: Load | Store) -> Place:
    name = access.source if isinstance(access, Load) else access.buffer
    return str(name), access.indices


def _accesses(stmt: Stmt) -> Iterator[Load | Store]:
    """The accesses of ``stmt``, which is straight, in order."""
    for part in walk(stmt):
        for expr in expressions(part):
            yield from (n for n in walk_expr(expr) if isinstance(n, Load))
        if isinstance(part, Store):
            yield part


# ---- along which loop ---------------------------------------------------------------------------


def _along_columns(
    column: For, lanes: For, blocked: Sequence[Blocked], buffers: Mapping[str, Buffer], l1: Cache
) -> Expr:
    """Whether the blocks of a strip follow each other along ``column``, not along ``lanes``: where
    stores cross the lanes and share sets, or lie along them and do not."""
    if _moves(lanes, column):
        return _FALSE
    crossed = [_place(b.access) for b in blocked if isinstance(b.access, Store)]
    if crossed:
        return _share_sets(crossed, lanes, buffers, l1)
    others = [_place(a) for a in _accesses(lanes.body) if isinstance(a, Store)]
    return simplify(select(_share_sets(others, column, buffers, l1), _FALSE, TRUE))


def _share_sets(
    places: Sequence[Place], loop: For, buffers: Mapping[str, Buffer], l1: Cache
) -> Expr:
    """Whether the rows that strips along ``loop`` cross have more lines in some sets than ways."""
    rows = min(_rows(l1), len(known_range(loop) or range(_rows(l1))))
    apart = next((k for k in range(l1.size // rows + 1, l1.way + 1) if l1.way % k == 0), None)
    found: Expr = _FALSE
    for name, indices in places:
        if name not in buffers or apart is None:
            continue
        form = Affine()
        for index, stride in zip(indices, buffers[name].strides, strict=True):
            one, step = to_affine(index), to_affine(stride)
            if one is not None and step is not None:
                form += step.scaled(one.coefficient(loop.var))
        if form != Affine():
            distance = to_expr(form.scaled(buffers[name].dtype.itemsize))
            found = simplify(select(apply("eq", distance % apart, literal(0)), TRUE, found))
    return found


def _rows(l1: Cache) -> int:
    """Rows that a strip crosses before the next one begins."""
    return max(l1.size // l1.line // _LINES, 1)


# ---- the loops ----------------------------------------------------------------------------------


def _in_blocks(
    across: For,
    along: For,
    others: Sequence[For],
    blocked: Sequence[Blocked],
    rows: int,
    taken: frozenset[str],
) -> Stmt:
    """A parallel loop and its vector loop, the two in either order, in strips of blocks along
    ``along``, within ``others``; strips in chunks of about ``rows``, if they are even. New names
    avoid ``taken``."""
    wide = widest(blocked)
    even = not _moves(along, across)
    most = (across, min(wide, _NARROW) if even else wide), (along, wide)
    width, length = (len((known_range(loop) or range(size))[:size]) for loop, size in most)
    blocks = _Blocks(across, along, width, length, blocked, taken)
    whole: Stmt = blocks.in_chunks(rows) if even else blocks.strips()
    for around in reversed(others):
        whole = replace(around, body=whole)
    return whole


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Strips of ``width`` iterations of ``across``, in blocks of ``length``, which follow each
    other along ``along``. New names avoid ``taken``."""

    across: For
    along: For
    width: int
    length: int
    blocked: Sequence[Blocked]
    taken: frozenset[str]

    @property
    def _loops(self) -> tuple[For, For]:
        """The parallel loop, and the vector loop."""
        one, two = self.across, self.along
        return (two, one) if one.kind == "vector" else (one, two)

    @property
    def _overlap(self) -> bool:
        """Whether the last block may begin in the one before, and compute some elements again."""
        column, lanes = self._loops
        order = list(_accesses(lanes.body))
        loaded = {str(a.source) for a in order if isinstance(a, Load)}
        own = {s.buffer.name for s in walk(lanes.body) if isinstance(s, Allocate)}
        again = not (loaded | own) & {a.buffer for a in order if isinstance(a, Store)}
        return again and not _moves(lanes, column)

    def _name(self, loop: For, part: str) -> Var:
        return Var(fresh_name(f"{loop.var}.{part}", loop, self.taken))

    def in_chunks(self, rows: int) -> For:
        """All iterations, walks in chunks of about ``rows``; the last one includes the
        remainder."""
        chunk = max(rows // self.length, 1) * self.length
        number, begin, end = (self._name(self.along, part) for part in ("chunk", "from", "to"))
        chunks = apply("max", (self.along.upper - self.along.lower) // chunk, literal(1))
        one = replace(self, along=replace(self.along, lower=begin, upper=end)).strips()
        stop = select(number < chunks - 1, begin + chunk, self.along.upper)
        bound = Let(begin.name, self.along.lower + number * chunk, Let(end.name, stop, one.body))
        return For(number.name, literal(0), chunks, "parallel", replace(one, body=bound))

    def strips(self) -> For:
        """All iterations, in strips as wide as a block."""
        loop, width = self.across, self.width
        number, first = self._name(loop, "strip"), self._name(loop, "first")
        start, stop = number * width, number * width + width
        inner = apply("max", start, loop.lower), apply("min", stop, loop.upper)
        ragged = self._plain(inner, (self.along.lower, self.along.upper))
        whole = (first >= loop.lower) & (first + width <= loop.upper)
        if self._overlap:
            start = apply("max", apply("min", start, loop.upper - width), loop.lower)
            whole &= self.along.upper - self.along.lower >= self.length
        strip = self._overlapping(first) if self._overlap else self._apart(first)
        body = Let(first.name, start, If(whole, strip, ragged))
        bounds = loop.lower // width, (loop.upper + (width - 1)) // width
        return For(number.name, *bounds, "parallel", body)

    def _overlapping(self, first: Expr) -> Stmt:
        """Blocks for the iterations from ``first`` on; the last one overlaps."""
        loop, length = self.along, self.length
        number, start = self._name(loop, "block"), self._name(loop, "start")
        at = apply("min", loop.lower + number * length, loop.upper - length)
        body = Let(start.name, at, self._block(first, start))
        many = (loop.upper - loop.lower + (length - 1)) // length
        return For(number.name, literal(0), many, "serial", body)

    def _apart(self, first: Expr) -> Stmt:
        """The iterations from ``first`` on: blocks from ``low`` to ``end``, where all of them run,
        and what is before and after."""
        loop, length = self.along, self.length
        low, end = self._name(loop, "low"), self._name(loop, "end")
        number, start = self._name(loop, "block"), self._name(loop, "start")
        ends: list[dict[str, Expr]] = [{self.across.var: first + k} for k in (0, self.width - 1)]
        high = apply("min", *(substitute(loop.upper, e) for e in ends))
        many = (end - low) // length
        block = Let(start.name, low + number * length, self._block(first, start))
        blocks = For(number.name, literal(0), many, "serial", block)
        before = (loop.lower, apply("min", low, loop.upper))
        after = (apply("max", end, loop.lower), loop.upper)
        ragged = (before, after) if _moves(*self._loops[::-1]) else (after,)
        rest = (self._plain((first, first + self.width), bounds) for bounds in ragged)
        stop = low + apply("max", (high - low) // length, literal(0)) * length
        body = Let(end.name, stop, Block((blocks, *rest)))
        return Let(low.name, apply("max", *(substitute(loop.lower, e) for e in ends)), body)

    def _block(self, first: Expr, start: Expr) -> Stmt:
        """The block from ``first`` of the strip and ``start`` of the walk on."""
        column, lanes = self._loops
        sides = (first, self.width), (start, self.length)
        (at, columns), (begin, rows) = sides if lanes is self.along else sides[::-1]
        lane = self._name(lanes, "lane")
        here: dict[str, Expr] = {lanes.var: begin + lane}
        moved = map_all_expressions(lanes.body, lambda e: substitute(e, here))
        square = For(lane.name, literal(0), literal(rows), "vector", moved)
        inside = [replace(b, access=_moved(b.access, here)) for b in self.blocked]
        return transposed_block(column, square, inside, at, (columns, rows))

    def _plain(self, across: tuple[Expr, Expr], along: tuple[Expr, Expr]) -> Stmt:
        """Iterations between bounds of both loops, without blocks."""
        column, lanes = self._loops
        columns, rows = (across, along) if lanes is self.along else (along, across)
        inside = replace(lanes, lower=rows[0], upper=rows[1])
        return For(column.var, *columns, "serial", inside)


def _moved(access: Load | Store, values: dict[str, Expr]) -> Load | Store:
    indices = tuple(substitute(index, values) for index in access.indices)
    if isinstance(access, Load):
        return replace(access, indices=indices)
    return replace(access, indices=indices, value=substitute(access.value, values))
