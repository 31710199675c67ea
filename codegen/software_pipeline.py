"""Software pipelining of rows: one row is read and reduced while the row before is computed and
stored.

                                         for I in blocks of B parallel:
    for i in 0 .. n parallel:              for t in 0 .. B + 1, r = I * B + t:
      s[] = 0                                s[t % 2] = 0
      for k vector: s[] += x[i, k]     →     for k vector:
      for k vector: y[i, k] = f(s[])           s[t % 2] += x[r, k]
                                               y[r - 1, k] = f(s[(t - 1) % 2])

Each stage of a row ends in a reduction that the next stage depends on, with a latency of a hundred
cycles for the last lanes. One stage is bound by loads, another by arithmetic, the last by stores.
So stages of different rows share a loop, each ``lag`` rows behind the one before. With a lag of 2
the reduction's latency is hidden entirely, at the cost of more rows in L1. In prologue and
epilogue, where some stages have no row, the others run one after the other.

Applies if the loops have equal trip counts and the rows in flight fit into a cache; if the trip
count is unknown, that is tested at run time, and rows are not pipelined otherwise. Iterations of a
parallel loop are independent; buffers that one of them allocates get a dimension of rows in flight.

Reference: Lam, "Software pipelining", PLDI 1988.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeGuard

from weft.codegen.cut_loop import fresh_name
from weft.codegen.rebuild import map_all_expressions, map_children, map_scopes
from weft.codegen.simplify import simplify_kernel
from weft.codegen.tile_bounds import TRUE, sides
from weft.ir import dtypes
from weft.ir.dtypes import DType
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
    Update,
    buffers_touched,
    buffers_written,
    expressions,
    walk,
)
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Load,
    Var,
    apply,
    has_loads,
    literal,
    rewrite,
    select,
    substitute,
    variable_names,
)
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

ROWS = 64  # rows of a block; its prologue and epilogue are not pipelined
PARTS, LEAST = 4, 8  # blocks for threads, least rows of each
SHORT = 128  # trip count of a loop that ends before prefetchers find its row
NEAR, FAR = 2, 4  # rows in flight: at most 2 × L1, or 1/4 of L2
LAGGING, MANY = 1.5, 8  # with a lag of 2: at most 1.5 × L1, and 8 rows of a block per stage


def software_pipeline(kernel: Kernel, first: int, second: int, line: int) -> Kernel:
    """``kernel`` with stages of different rows in one loop, if the rows in flight fit into
    ``first`` (L1, bytes), or into part of ``second`` (L2) if all rows together exceed that.
    Copies of rows are aligned to ``line`` bytes."""
    sizes = {buffer.name: buffer.dtype.itemsize for buffer in kernel.buffers}
    made: list[Stmt] = []

    def inside(parts: int, stmt: Stmt, names: frozenset[str]) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind not in ("parallel", "vector"):
            return map_scopes(stmt, names, partial(inside, parts))
        row = row_of(stmt) if stmt.kind == "parallel" and stmt.step == 1 else None
        if row is None:  # threads share the outermost parallel loop
            within = partial(inside, 1)
            return map_scopes(stmt, names, within) if stmt.kind == "parallel" else stmt
        if not variable_names(row.trips) <= names:
            return stmt
        rows = _rows(stmt)[0]
        plan = _plan(row, rows, row.bytes(sizes), _block_size(rows, parts), (first, second))
        if plan.fits == literal(False, dtypes.bool_):
            return stmt
        made.append(_Pipeline(stmt, row, names, plan, line).loop())
        return made[-1]

    body = inside(PARTS, kernel.body, frozenset(kernel.parameters))
    return simplify_kernel(replace(kernel, body=body)) if made else kernel


@dataclass(frozen=True, slots=True)
class _Plan:
    """Rows are pipelined if ``fits``, in blocks of ``block``; each stage is ``lag`` rows behind the
    one before, at most ``most``. ``longest``: the greatest trip count that fits."""

    fits: Expr
    block: int
    lag: Expr
    most: int
    longest: int


def _plan(row: Row, rows: Expr, bytes_: int, block: int, caches: tuple[int, int]) -> _Plan:
    """The best plan for ``rows``, which access ``bytes_`` per iteration of their loops."""
    (first, second), stages = caches, len(row.stages)
    size = row.trips * bytes_
    far, needed = rows * size > second, size * stages
    fits = (needed <= NEAR * first) | (far & (needed <= second // FAR))
    near = (rows * size <= second) & (size * (2 * stages - 1) <= int(LAGGING * first))
    often = literal(block >= MANY * (stages - 1), dtypes.bool_)
    lag = simplify(select(near & often, literal(2), literal(1)), {})
    longest = max(NEAR * first, second // FAR) // max(1, bytes_ * stages)
    return _Plan(
        simplify((row.trips >= SHORT) & fits, {}),
        block,
        lag,
        int(lag.value) if isinstance(lag, Literal) else 2,
        longest,
    )


# ---- rows in a pipeline -------------------------------------------------------------------------


class _Pipeline:
    """``source``, whose iterations are ``row``, pipelined as ``plan`` says; ``names`` are bound
    around it; ``line``: bytes of a cache line."""

    def __init__(
        self, source: For, row: Row, names: frozenset[str], plan: _Plan, line: int
    ) -> None:
        self.source, self.row, self.names, self.plan = source, row, names, plan
        self.line = line
        self.block, self.iteration = self._fresh("block"), self._fresh("turn")
        self.lag = plan.lag if isinstance(plan.lag, Literal) else self._fresh("lag")
        self.depth = plan.most * (len(row.stages) - 1) + 1
        self.size = plan.block

    def loop(self) -> Stmt:
        """One worksharing loop: over blocks of rows, or, if the pipeline does not fit, over single
        ones."""
        blocks, fits = self._blocks(), self.plan.fits
        if fits != TRUE:
            trips = select(fits, blocks.upper, self.source.upper - self.source.lower)
            alone = Let(self.source.var, self.source.lower + self.block, self.source.body)
            blocks = replace(blocks, upper=trips, body=If(fits, blocks.body, alone))
        return Let(self.lag.name, self.plan.lag, blocks) if isinstance(self.lag, Var) else blocks

    def _blocks(self) -> For:
        stages = [self._placed(k) for k in range(len(self.row.stages))]
        alone = [
            If(self._exist(self.lag * k, self.lag * k), _nested(head, loop))
            for k, (head, loop) in enumerate(stages)
        ]
        heads = [part for head, _ in stages for part in head]
        first = stages[0][1]
        shared = replace(first, body=Block(tuple(loop.body for _, loop in stages)))
        last = self.lag * (len(stages) - 1)
        together = If(self._exist(last, literal(0)), _nested(heads, shared), Block(tuple(alone)))
        body: Stmt = For(self.iteration.name, literal(0), last + self.size, "serial", together)
        for buffer in self.row.buffers.values():
            body = Allocate(_repeated(buffer, self.depth, self.plan.longest, self.line), body)
        blocks = [(rows + (self.size - 1)) // self.size for rows in _rows(self.source)]
        fewest = reduce(partial(apply, "min"), blocks)
        return For(self.block.name, literal(0), fewest, "parallel", body)

    def _fresh(self, hint: str, dtype: DType = dtypes.int64) -> Var:
        return Var(fresh_name(f"{self.source.var}.{hint}", self.source, self.names), dtype)

    def _index(self, behind: Expr) -> Expr:
        """The row that is ``behind`` rows behind that of the first stage."""
        return self.source.lower + self.block * self.size + (self.iteration - behind)

    def _exist(self, last: Expr, first: Expr) -> Expr:
        """Whether the rows from ``first`` to ``last`` behind that of the first stage exist."""
        inside = (self.iteration >= last) & (self.iteration - first < self.size)
        return inside & (self._index(first) < self.source.upper)

    def _placed(self, number: int) -> tuple[list[Stmt], For]:
        """The head and the loop of a stage on its row, all names but the loop's variable renamed.
        Scalars that the loop only reads are loaded before it."""
        stage, slot = self.row.stages[number], self._fresh(f"slot.{number}")
        index = self._fresh(str(number))
        values: dict[str, Expr] = {self.source.var: index}
        head = [
            _let(index, self._index(self.lag * number)),
            _let(slot, (self.iteration - self.lag * number) % self.depth),
        ]
        for part in (*self.row.lets, *stage.head):
            moved = _moved(_renamed(part, values), self.row.buffers, slot)
            if isinstance(moved, Let):
                own = self._fresh(f"{moved.name}.{number}", moved.value.dtype)
                values[moved.name] = own
                moved = _let(own, moved.value)
            head.append(moved)
        variable = self.row.stages[0].loop.var
        loop = _renamed(stage.loop, {**values, stage.loop.var: Var(variable)})
        assert isinstance(loop, For)
        held: dict[str, Expr] = {}
        for name in sorted(_scalars_read(loop, self.row.buffers)):
            value = self._fresh(f"{name}.{number}", self.row.buffers[name].dtype)
            head.append(_let(value, Load(name, (slot,), value.dtype)))
            held[name] = value
        body = map_all_expressions(
            loop.body,
            lambda e: rewrite(e, lambda n: held.get(str(n.source)) if _reads(n) else None),
        )
        return head, replace(loop, var=variable, body=_moved(body, self.row.buffers, slot))


def _let(name: Var, value: Expr) -> Stmt:
    """A let whose body is filled in later."""
    return Let(name.name, value, Block(()))


def _renamed(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    return map_all_expressions(stmt, lambda e: substitute(e, dict(values)))


def _reads(node: Expr) -> TypeGuard[Load]:
    return isinstance(node, Load)


def _scalars_read(loop: For, buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The zero-dimensional ``buffers`` that ``loop`` reads and does not write."""
    inside = list(walk(loop.body))
    written = frozenset[str]().union(*map(buffers_written, inside))
    touched = frozenset[str]().union(*map(buffers_touched, inside))
    return frozenset(n for n in touched - written if n in buffers and not buffers[n].shape)


def _nested(parts: Sequence[Stmt], inner: Stmt) -> Stmt:
    """``parts``, then ``inner``, in the scope of all lets."""
    for part in reversed(parts):
        inner = replace(part, body=inner) if isinstance(part, Let) else Block((part, inner))
    return inner


def _rows(loop: For) -> list[Expr]:
    """Upper bounds of the trip count of ``loop``, the least of which it is; a constant first, if
    there is one."""
    found = [simplify(side - loop.lower, {}) for side in sides(loop.upper, "min")]
    return sorted(found, key=lambda rows: not isinstance(rows, Literal))


def _block_size(total: Expr, parts: int) -> int:
    """Rows of a block: an even division if the number of rows is known, at least ``parts`` blocks
    if there are enough."""
    if not isinstance(total, Literal):
        return ROWS
    rows = max(1, int(total.value))
    blocks = max(-(-rows // ROWS), min(parts, rows // LEAST), 1)
    return -(-rows // (blocks + blocks % 2 if blocks > 1 else 1))


def _repeated(buffer: Buffer, count: int, longest: int, line_bytes: int) -> Buffer:
    """``buffer`` ``count`` times, the copies aligned to cache lines if it is a row; ``longest``:
    its greatest length if that is symbolic."""
    sizes: list[Expr] = [literal(count)]
    for size in buffer.shape:
        sizes.append(size if isinstance(size, Literal) else apply("min", size, literal(longest)))
    if buffer.shape:
        line = max(1, line_bytes // buffer.dtype.itemsize)
        sizes[-1] = (sizes[-1] + (line - 1)) // line * line
    strides: list[Expr] = [literal(1)]
    for size in sizes[:0:-1]:
        strides.insert(0, simplify(strides[0] * size, {}))
    return replace(buffer, shape=tuple(simplify(s, {}) for s in sizes), strides=tuple(strides))


def _moved(stmt: Stmt, buffers: Mapping[str, Buffer], slot: Expr) -> Stmt:
    """``stmt`` on the copy ``slot`` of ``buffers``."""

    def load(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.source in buffers:
            return replace(node, indices=(slot, *node.indices))
        return None

    def write(part: Stmt) -> Stmt:
        match part:
            case Store(buffer=name) if name in buffers:
                return replace(part, indices=(slot, *part.indices))
            case Update(targets=targets):
                moved = ((n, (slot, *at) if n in buffers else at) for n, at in targets)
                return replace(part, targets=tuple(moved))
        return map_children(part, write)

    return write(map_all_expressions(stmt, lambda e: rewrite(e, load)))


# ---- Rows and their stages.
#
#     for i parallel:
#       s[] = 0                         a stage: straight code, and the vector loop behind it,
#       for k vector: s[] += x[i, k]    which folds something that the next stage needs
#       for k vector: y[i, k] = f(s[])
#
# What ``software_pipeline`` works on.


STAGES = 4  # more of them exceed the registers


@dataclass(frozen=True, slots=True)
class Stage:
    """Straight-line code and lets (their bodies not included), and the vector loop after it."""

    head: tuple[Let | Store | Update, ...]
    loop: For

    def mentions(self, names: set[str]) -> bool:
        """Whether a variable among ``names`` is used."""
        heads = (e for stmt in self.head for e in expressions(stmt))
        inner = (e for stmt in walk(self.loop) for e in expressions(stmt))
        nodes = (node for exprs in (heads, inner) for e in exprs for node in walk_expr(e))
        return any(isinstance(node, Var) and node.name in names for node in nodes)


@dataclass(frozen=True, slots=True)
class Row:
    """The body of a loop: ``lets`` around it, the buffers that it allocates, its ``stages``."""

    lets: tuple[Let, ...]
    buffers: Mapping[str, Buffer]
    stages: tuple[Stage, ...]

    @property
    def trips(self) -> Expr:
        """The trip count of each of the loops."""
        loop = self.stages[0].loop
        return simplify(loop.upper - loop.lower, {})

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """Bytes that one iteration of all loops accesses; ``sizes``: bytes of an element of each
        buffer."""
        inside = (stmt for stage in self.stages for stmt in walk(stage.loop.body))
        found = frozenset[str]().union(*map(buffers_touched, inside))
        known = {**sizes, **{name: b.dtype.itemsize for name, b in self.buffers.items() if b.shape}}
        return sum(known.get(name, 0) for name in found)


def row_of(loop: For) -> Row | None:
    """The row that an iteration of ``loop`` computes; None unless its body is several stages with
    loops of one trip count."""
    lets: list[Let] = []
    buffers: dict[str, Buffer] = {}
    body = loop.body
    while isinstance(body, Allocate) or (isinstance(body, Let) and not has_loads(body.value)):
        if isinstance(body, Let):
            lets.append(body)
        else:
            buffers[body.buffer.name] = body.buffer
        body = body.body
    stages = _stages(body)
    if stages is None or not 2 <= len(stages) <= STAGES:
        return None
    if len({(s.loop.lower, s.loop.upper) for s in stages}) > 1:
        return None
    row = Row(tuple(lets), buffers, stages)
    return row if all(_local(buffer, row.trips) for buffer in buffers.values()) else None


def _stages(body: Stmt) -> tuple[Stage, ...] | None:
    """``body`` split after its vector loops, all but the last of which are reductions; None if
    there is other code, or a let with uses in several stages."""
    found: list[Stage] = []
    head: list[Let | Store | Update] = []
    for stmt in _flat(body):
        match stmt:
            case Let() | Store() | Update():
                head.append(stmt)
            case For(_, _, _, "vector", body, 1) if not any(isinstance(s, For) for s in walk(body)):
                found.append(Stage(tuple(head), stmt))
                head = []
            case _:
                return None
    folds = all(any(isinstance(s, Update) for s in walk(stage.loop)) for stage in found[:-1])
    for k, stage in enumerate(found):
        bound = {s.name for s in stage.head if isinstance(s, Let)}
        if any(other.mentions(bound) for other in found[k + 1 :]):
            return None
    return tuple(found) if folds and not head else None


def _flat(body: Stmt) -> Iterator[Stmt]:
    """``body`` as a sequence of statements; a let comes before its body."""
    stack = [body]
    while stack:
        match stack.pop():
            case Block(stmts):
                stack.extend(reversed(stmts))
            case Let() as let:
                yield let
                stack.append(let.body)
            case Comment():
                continue
            case other:
                yield other


def _local(buffer: Buffer, trips: Expr) -> bool:
    """Whether ``buffer`` is thread-private with constant extents, or ``trips``."""
    known = all(isinstance(size, Literal) or size == trips for size in buffer.shape)
    return buffer.scope == "local" and known
