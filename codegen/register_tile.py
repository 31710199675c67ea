"""A register tile as loops: accumulators in registers while the streams run, in closed form.

    if every row and lane of the tile is in the domain:        else: the same on a clamped box:
      tile[r, l] = C[r, l]                                       rows that do not exist repeat the
      for k in [hull begin, full begin): row by row, guarded     nearest one, lanes that do not
      for k in [full begin, full end):                           exist load 0; what they compute
        tile[r, l] += A[r, k] * B[k, l]      no conditions       is dropped by the masked store,
      for k in [full end, hull end):     row by row, guarded     and the long loop is free of
      C[r, l] = tile[r, l]                                       conditions here as well

A stream point is *full* if the statement's domain holds there for all rows and lanes of the box.
Each affine constraint tells: put the corner of the box that is worst for it. That is sound for any
coefficients, triangles (k <= i, j <= i, k < j) and symbolic sizes included. Stream points that are
not full run guarded. Nothing outside the domain is loaded, stored, or computed into an accumulator
that counts. ``schedule_tree.RegisterTile`` is the mark, ``polyhedral/register_tile.py`` has the
conditions under which it is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from weft.codegen.loop_ir import (
    Allocate,
    Block,
    Buffer,
    For,
    If,
    Kind,
    Let,
    Prefetch,
    Scope,
    Stmt,
    Store,
    Update,
)
from weft.codegen.statement_instance import Instances
from weft.codegen.tile_bounds import (
    TRUE,
    ZERO,
    Box,
    Span,
    all_of,
    at_worst,
    extreme,
    mentions_any,
    span,
)
from weft.frontend.scalar_affine import Affine, to_expr
from weft.frontend.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    apply,
    literal,
    rewrite,
    select,
    substitute,
    walk,
)
from weft.frontend.scalar_match import filled, matches
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.analysis.tile_domain import MarkedTile, TileDomain
from weft.polyhedral.instruction import Instruction
from weft.polyhedral.scop import Statement

CACHE_LINE = 64  # bytes
_TERMS = 4  # of a sum that is folded in term by term
_WRITTEN_OUT = 2048  # updates of elements, of a tile with few steps

Lets = list[tuple[str, Expr]]
Mask = Callable[[Load], Expr]  # where a load may be performed


def emit_register_tile(
    instances: Instances, tile: MarkedTile, domain: TileDomain, values: Sequence[Expr]
) -> Stmt:
    """The tile at the ``values`` of the loops outside."""
    statement = instances.scop.statement(tile.statement)
    sizes = dict(
        zip((*domain.rows, domain.lane), (*tile.payload.rows, tile.payload.lanes), strict=True)
    )
    full: Box = {name: (ZERO, literal(size)) for name, size in sizes.items()}
    crossing = [c for c in domain.target if mentions_any(c, tuple(sizes))]
    fits = all_of(at_worst(c, full) >= 0 for c in crossing)
    version = _Version(
        instances, statement, domain, sizes, full, instruction=tile.payload.instruction
    )
    stmt = version.emit()
    if fits != TRUE:
        stmt = If(fits, stmt, _clamped(version, crossing))
    return _let(list(zip(domain.outer, values, strict=True)), stmt)


def _clamped(whole: _Version, crossing: Sequence[Affine]) -> Stmt:
    """The tile on the box of the rows and lanes that exist."""
    instances, domain, sizes = whole.instances, whole.domain, whole.sizes
    hulls = {**dict(zip(domain.rows, domain.rows_hull, strict=True)), domain.lane: domain.lane_hull}
    lets: Lets = []
    box: dict[str, Span] = {}
    for name, size in sizes.items():
        box[name] = _named(instances, span(hulls[name] or (), name, size), name, lets)
    # Every row of the box has a lane in the domain, and every lane a row? With one row loop, that
    # is what the hulls say; with several it holds where no constraint ties two variables.
    alone = all(sum(bool(c.coefficient(n)) for n in sizes) == 1 for c in crossing)
    closed = None not in hulls.values() and (alone or len(domain.rows) == 1)
    version = replace(whole, box=box, crossing=tuple(crossing), closed=closed)
    return _let(lets, version.emit())


@dataclass(frozen=True, slots=True)
class _Version:
    """The tile with rows and lanes in ``box``, by variable; ``sizes`` are those of the whole tile.

    ``crossing``: constraints that points of the whole tile may violate. ``closed``: each row of the
    box has a lane in the domain and the other way round, so that both may be clamped to it.
    """

    instances: Instances
    statement: Statement
    domain: TileDomain
    sizes: Mapping[str, int]
    box: Box
    crossing: tuple[Affine, ...] = ()
    closed: bool = True
    instruction: Instruction | None = None

    def emit(self) -> Stmt:
        if not self.crossing or not self.domain.rows:
            begin, end = self._load("tile"), self._store("tile")
            return self._in_registers(self._rows(begin), self._rows(end))
        # Rows and lanes that do not exist make loads and stores long: one row's code serves all.
        begin, end = self._load("edge"), self._store("edge")
        held = self._in_registers(self._copy("edge", "tile"), self._copy("tile", "edge"))
        body = _block([self._rows(begin, "serial"), held, self._rows(end, "serial")])
        return self._allocated("edge", "local", body)

    def _in_registers(self, begin: Stmt, end: Stmt) -> Stmt:
        body = _block([begin, *self._next(), self._without_excess(self._streams(0)), end])
        return self._allocated("tile", "register", body)

    # ---- the tile in registers ----------------------------------------------------------------

    def _allocated(self, which: str, scope: Scope, body: Stmt) -> Stmt:
        """``body`` with a buffer of the tile's shape for each component of the update."""
        shape = tuple(map(literal, self.sizes.values()))
        strides: list[Expr] = []
        step = 1
        for size in reversed(tuple(self.sizes.values())):
            strides.insert(0, literal(step))
            step *= size
        for k, write in enumerate(self.statement.writes):
            dtype = self.instances.tensor(write.tensor).dtype
            buffer = Buffer(self._name(which, k), dtype, shape, tuple(strides), scope)
            body = Allocate(buffer, body)
        return body

    def _name(self, which: str, component: int) -> str:
        return f"{self.domain.lane}.{which}{component}"

    def _tile(self, component: int) -> str:
        return self._name("tile", component)

    def _copy(self, source: str, target: str) -> Stmt:
        stores: list[Stmt] = []
        for k, write in enumerate(self.statement.writes):
            dtype = self.instances.tensor(write.tensor).dtype
            value = Load(self._name(source, k), self._place(), dtype)
            stores.append(Store(self._name(target, k), self._place(), value))
        return self._rows(self._lanes(_block(stores)))

    def _held(self, component: int, like: Expr) -> Load:
        return Load(self._tile(component), self._place(), like.dtype)

    def _place(self) -> tuple[Expr, ...]:
        return tuple(Var(v) for v in self.sizes)

    def _load(self, which: str) -> Stmt:
        lets, where, mask = self._inside(self.crossing)
        stores: list[Stmt] = []
        for k, (name, indices) in enumerate(self._targets()):
            dtype = self.instances.tensor(name).dtype
            zero = literal(0, dtype)
            value = select(where, select(mask, Load(name, indices, dtype), zero), zero)
            stores.append(Store(self._name(which, k), self._place(), value))
        return _let(lets, self._lanes(_block(stores)))

    def _store(self, which: str) -> Stmt:
        lets, where, mask = self._inside(self.crossing)
        stores: list[Stmt] = []
        for k, (name, indices) in enumerate(self._targets()):
            held = Load(self._name(which, k), self._place(), self.instances.tensor(name).dtype)
            stores.append(Store(name, indices, held))
        return _let(lets, _under(where, self._lanes(_under(mask, _block(stores)))))

    def _targets(self) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        """The elements that are updated, over rows, lanes and the loops outside: as the check of
        the tile saw them, in which no stream is left."""
        for write in self.statement.writes:
            stored = write.indices[self.instances.tensor(write.tensor).contracted :]
            forms = (self.domain.inverse.over_loops(affine(index)) for index in stored)
            yield write.tensor, tuple(map(to_expr, forms))

    def _next(self) -> list[Stmt]:
        """Prefetches of the tile that the next turn of the loop outside will load."""
        domain, lane = self.domain, self.domain.lane
        if self.crossing or not domain.outer:
            return []
        ahead: dict[str, Expr] = {domain.outer[-1]: Var(domain.outer[-1]) + 1}
        found: list[Stmt] = []
        for name, indices in self._targets():
            if any(domain.outer[-1] in _mentioned(i) for i in indices):
                moved = tuple(substitute(i, ahead) for i in indices)
                step = max(1, CACHE_LINE // self.instances.tensor(name).dtype.itemsize)
                line = For(
                    lane,
                    ZERO,
                    literal(self.sizes[lane]),
                    "unrolled",
                    Prefetch(name, moved, True),
                    step,
                )
                found.append(self._rows(line))
        return found

    # ---- loops --------------------------------------------------------------------------------

    def _rows(self, body: Stmt, kind: Kind = "unrolled") -> Stmt:
        for row in reversed(self.domain.rows):
            body = For(row, ZERO, literal(self.sizes[row]), kind, body)
        return body

    def _lanes(self, body: Stmt) -> Stmt:
        lane = self.domain.lane
        return For(lane, ZERO, literal(self.sizes[lane]), "vector", body)

    def _streams(self, depth: int) -> Stmt:
        name, hull = self.domain.streams[depth], self.domain.streams_hull[depth]
        if depth < len(self.domain.streams) - 1:
            return For(name, *span(hull, name), self._kind(), self._streams(depth + 1))
        lets: Lets = []
        begin, end = _named(self.instances, span(hull, name), name, lets)
        if not self.closed:
            return _let(lets, For(name, begin, end, "serial", self._rows(self._guarded_step())))
        local, streams = tuple(self.sizes), self.domain.streams
        mixed = [
            c for c in self.domain.whole if mentions_any(c, streams) and mentions_any(c, local)
        ]
        steady = all_of(at_worst(c, self.box) >= 0 for c in mixed if not c.coefficient(name))
        moving = [c for c in mixed if c.coefficient(name)]
        first = [_least(c, name, self.box) for c in moving if c.coefficient(name) > 0]
        last = [_least(c, name, self.box) for c in moving if c.coefficient(name) < 0]
        full: Span = (begin, end)
        if first:
            full = apply("min", extreme("max", [begin, *first]), end), end
        if last or steady != TRUE:
            full = _named(self.instances, full, name, lets)
            stop = select(steady, extreme("min", [end, *last]), full[0])
            full = full[0], apply("max", stop, full[0])
        full = _named(self.instances, full, name, lets)
        parts: list[Stmt] = []
        if first:
            parts.append(For(name, begin, full[0], "serial", self._rows(self._guarded_step())))
        parts += self._full_steps(name, full)
        if last or steady != TRUE:
            parts.append(For(name, full[1], end, "serial", self._rows(self._guarded_step())))
        return _let(lets, _block(parts))

    def _kind(self) -> Kind:
        """Of loops along the streams: a few steps of a whole tile are written out."""
        updates = prod(self.sizes.values())
        for name, hull in zip(self.domain.streams, self.domain.streams_hull, strict=True):
            match span(hull, name):
                case Literal() as begin, Literal() as end:
                    updates *= max(1, int(end.value) - int(begin.value))
                case _:
                    return "serial"
        return "serial" if self.crossing or updates > _WRITTEN_OUT else "unrolled"

    def _full_steps(self, name: str, full: Span) -> list[Stmt]:
        """``full`` of the innermost stream: by the tile's instruction, as many steps at once as it
        takes, from a multiple of them on; what is left, step by step."""
        each = self._rows(self._full_step())
        if self.instruction is None:
            return [For(name, *full, self._kind(), each)]
        depth, group = self.instruction.depth, self.instances.fresh(f"{name}.group")
        lets: Lets = []
        first = apply("min", (full[0] + (depth - 1)) // depth * depth, full[1])
        middle = _named(
            self.instances, (first, apply("max", full[1] // depth * depth, first)), name, lets
        )
        begin, end = middle
        whole = For(group, begin // depth, end // depth, "serial", self._group(name, group))
        parts = [
            For(name, full[0], begin, "serial", each),
            whole,
            For(name, end, full[1], "serial", each),
        ]
        return [_let(lets, _block(parts))]

    def _group(self, name: str, group: str) -> Stmt:
        """The steps of one issue of the instruction, for one row."""
        assert self.instruction is not None
        instruction = self.instruction
        depth, inner = instruction.depth, self.instances.fresh(f"{name}.inner")
        at = {name: Var(group) * depth + Var(inner)}

        def issue(value: Expr, to: tuple[str, tuple[Expr, ...]]) -> Callable[[Update], Stmt]:
            def issued(step: Update) -> Stmt:
                found = next(matches(instruction.value, step.values[0]))
                update = Update((to,), step.monoid, (filled(value, found),))
                return For(inner, ZERO, literal(depth), "unrolled", update, 1, instruction)

            return issued

        rows = self._rows(
            self._full_step(at, issue(instruction.issued, (self._tile(0), self._place())))
        )
        if instruction.offset is None:
            return rows
        first = {row: self.box[row][0] for row in self.domain.rows}
        once = issue(instruction.excess, (self._excess(), (Var(self.domain.lane),)))
        return _block([rows, self._full_step({**first, **at}, once)])

    def _without_excess(self, streams: Stmt) -> Stmt:
        """``streams``, and off the tile what an offset of the instruction adds to all its rows."""
        if self.instruction is None or self.instruction.offset is None:
            return streams
        lane = self.domain.lane
        dtype, place = self.instruction.dtype, (Var(lane),)
        excess = Load(self._excess(), place, dtype)
        none = self._lanes(Store(self._excess(), place, literal(0, dtype)))
        held = Load(self._tile(0), self._place(), dtype)
        off = self._rows(self._lanes(Store(self._tile(0), self._place(), held - excess)))
        size = (literal(self.sizes[lane]),)
        buffer = Buffer(self._excess(), dtype, size, (literal(1),), "register")
        return Allocate(buffer, _block([none, streams, off]))

    def _excess(self) -> str:
        return self._name("excess", 0)

    # ---- one stream point for one row ---------------------------------------------------------

    def _full_step(
        self,
        values: Mapping[str, Expr] = MappingProxyType({}),
        emitted: Callable[[Update], Stmt] | None = None,
    ) -> Stmt:
        """The update for all lanes of the tile; rows and lanes outside the box take part, with
        operands from inside it. ``values``: of streams and rows; ``emitted``: what the update
        becomes."""
        domain = self.domain
        lets: Lets = []
        rows: dict[str, Expr] = dict(values)
        for row in domain.rows:
            if row in values:
                continue
            low, high = self.box[row]
            value: Expr = Var(row)
            if high != literal(self.sizes[row]):
                value = apply("min", value, high - 1)
            if low != ZERO:
                value = apply("max", value, low)
            if value != Var(row):
                name = self.instances.fresh(row)
                lets.append((name, value))
                rows[row] = Var(name)
        own, _, both = self._inside([c for c in self.crossing if c.coefficient(domain.lane)])
        lets += [(n, substitute(e, rows)) for n, e in own]
        hull = self._mask(self.box[domain.lane])
        known = set(domain.rows) | {
            v.name for n, v in rows.items() if n in domain.rows and isinstance(v, Var)
        }
        inner, update = self._instance(
            rows, lambda load: both if _mentioned(load) & known else hull
        )
        targets = tuple((self._tile(k), self._place()) for k in range(len(update.targets)))
        if emitted is not None:
            step = emitted(Update(targets, update.monoid, update.values))
        else:
            step = _block([Update(targets, update.monoid, v) for v in _steps(update)])
        return _let(lets, self._lanes(_let(inner, step)))

    def _guarded_step(self) -> Stmt:
        """The update for the lanes that the domain has at this row and stream point."""
        local = tuple(self.sizes)
        free = () if self.crossing else self.domain.streams
        forms = [
            c
            for c in self.domain.whole
            if mentions_any(c, local) and (not free or mentions_any(c, free))
        ]
        lets, where, mask = self._inside(forms)
        inner, update = self._instance({}, lambda _: mask)
        targets = tuple((self._tile(k), self._place()) for k in range(len(update.targets)))
        if mask == TRUE:
            step: Stmt = Update(targets, update.monoid, update.values)
        else:
            step = self._blended(update, mask)
        return _let(lets, _under(where, self._lanes(_let(inner, step))))

    def _blended(self, update: Update, mask: Expr) -> Stmt:
        """The update where ``mask``, by selecting between old and new: no branches on lanes."""
        monoid = update.monoid
        old = [self._held(k, v) for k, v in enumerate(update.values)]
        lets: Lets = []
        names: dict[str, Expr] = {v.name: x for v, x in zip(monoid.left, old, strict=True)}
        for variable, value in zip(monoid.right, update.values, strict=True):
            name = self.instances.fresh("value")
            lets.append((name, value))
            names[variable.name] = Var(name, value.dtype)
        stores: list[Stmt] = []
        for k, combined in enumerate(monoid.combined):
            name = self.instances.fresh("result")
            lets.append((name, select(mask, substitute(combined, names), old[k])))
            stores.append(Store(self._tile(k), self._place(), Var(name, combined.dtype)))
        return _let(lets, _block(stores))

    def _instance(
        self, rows: Mapping[str, Expr], mask: Mask = lambda _: TRUE
    ) -> tuple[Lets, Update]:
        """The statement at the current point, in lets and an update, its loads from along the lanes
        masked."""
        values = [
            substitute(to_expr(self.domain.inverse.dims[dim]), dict(rows))
            for dim in self.statement.dims
        ]
        stmt = self.instances.make(self.statement, values)
        lane = self.domain.lane

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Load) and lane in _mentioned(node):
                return select(mask(node), node, literal(0, node.dtype))
            return None

        lets: Lets = []
        while isinstance(stmt, Let):
            lets.append((stmt.name, rewrite(stmt.value, change)))
            stmt = stmt.body
        assert isinstance(stmt, Update), "a register tile is of an unconditional update"
        values_ = tuple(rewrite(value, change) for value in stmt.values)
        return lets, Update(stmt.targets, stmt.monoid, values_)

    # ---- which lanes --------------------------------------------------------------------------

    def _inside(self, forms: Sequence[Affine]) -> tuple[Lets, Expr, Expr]:
        """Which lanes of the current row (and stream point) meet ``forms``: names for the bounds,
        the condition for there to be any, and a mask."""
        lane = self.domain.lane
        lets: Lets = []
        fixed = [to_expr(c) >= 0 for c in forms if not c.coefficient(lane)]
        moving = [c for c in forms if c.coefficient(lane)]
        lanes = _named(self.instances, span(moving, lane, self.sizes[lane]), lane, lets)
        some = [] if not moving else [lanes[0] < lanes[1]]
        return lets, all_of([*fixed, *some]), self._mask(lanes)

    def _mask(self, lanes: Span) -> Expr:
        lane, (low, high) = Var(self.domain.lane), lanes
        conditions = [] if low == ZERO else [lane >= low]
        if high != literal(self.sizes[self.domain.lane]):
            conditions.append(lane < high)
        return all_of(conditions)


def _steps(update: Update) -> list[tuple[Expr, ...]]:
    """What ``update`` folds in, a sum term by term: each product is then one multiply-add."""
    if update.monoid.name != "add" or not update.monoid.laws >= {"associative", "commutative"}:
        return [update.values]
    terms: list[Expr] = []
    stack = list(update.values)
    while stack:
        match stack.pop():
            case Apply("add", (left, right)):
                stack += [right, left]
            case Apply("sub", (left, right)):
                stack += [-right, left]
            case term:
                terms.append(term)
    return [(term,) for term in terms] if len(terms) <= _TERMS else [update.values]


def _least(form: Affine, name: str, box: Box) -> Expr:
    """What ``form``, at its worst corner of ``box``, bounds ``name`` by: from, or up to, there."""
    c, rest = form.coefficient(name), at_worst(form, box, (name,))
    return (literal(c - 1) - rest) // c if c > 0 else rest // -c + 1


def _named(instances: Instances, bounds: Span, hint: str, lets: Lets) -> Span:
    """``bounds`` with names, added to ``lets``, for what is not a number or a name."""
    found: list[Expr] = []
    for bound, which in zip(bounds, ("begin", "end"), strict=True):
        if isinstance(bound, Literal | Var):
            found.append(bound)
            continue
        name = instances.fresh(f"{hint}.{which}")
        lets.append((name, bound))
        found.append(Var(name))
    return found[0], found[1]


def _mentioned(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Var)}


def _let(lets: Sequence[tuple[str, Expr]], stmt: Stmt) -> Stmt:
    for name, value in reversed(lets):
        stmt = Let(name, value, stmt)
    return stmt


def _under(condition: Expr, stmt: Stmt) -> Stmt:
    return stmt if condition == TRUE else If(condition, stmt)


def _block(stmts: Sequence[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Block(tuple(stmts))
