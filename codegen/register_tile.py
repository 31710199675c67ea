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
that counts. Where it is known how many rows and lanes the last tile has (257 = 32 * 8 + 1), that is
a smaller tile of its own instead, with no more arithmetic than its elements take; where it is not,
the smallest of a few is chosen when the program runs (``tile_edges.py``).

``schedule_tree.RegisterTile`` is the mark, ``polyhedral/proof/register_tile.py`` has the conditions
under which it is legal. ``tile_step.py`` writes a step of a stream, ``tile_prefetch.py`` what is
loaded ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.codegen.panel_prefetch import prefetch_next_panel
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
from weft.codegen.tile_edges import is_box, smaller_sizes, with_edges
from weft.codegen.tile_prefetch import (
    prefetch_lane_operand,
    prefetch_next_tile,
    prefetch_row_operand,
)
from weft.codegen.tile_step import full_step, guarded_step
from weft.codegen.tile_version import (
    Lets,
    TileVersion,
    block,
    by_unit,
    in_blocks,
    let,
    named,
    one_block,
    targets_of,
    under,
)
from weft.ir.instruction import ROW, Instruction
from weft.ir.loop_ir import (
    Allocate,
    Buffer,
    For,
    If,
    Kind,
    Let,
    Scope,
    Stmt,
    Store,
    Update,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    apply,
    literal,
    select,
)
from weft.ir.scalar_match import filled, matches
from weft.ir.schedule_tree import MarkedTile
from weft.polyhedral.analysis.linear import mentions, moves
from weft.polyhedral.analysis.tile_domain import WRITTEN_OUT, TileDomain

_TAPS = 9  # steps of a window that are written out
_HELD = 256  # elements along the lanes that LLVM would hold in registers for the next tile


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
    marked = tile.payload
    version = TileVersion(
        instances, statement, domain, sizes, full,
        instruction=marked.instruction, ahead=marked.ahead, shared=marked.shared,
    )  # fmt: skip
    stmt = with_edges(version, crossing, _emit)
    return let(list(zip(domain.outer, values, strict=True)), stmt)


def _emit(tile: TileVersion) -> Stmt:
    instruction = tile.instruction
    if instruction is not None and instruction.unit:
        if tile.closed and not _mixed(tile):
            return _by_unit(tile, instruction)
        tile = replace(tile, instruction=None)
    if not any(mentions_any(c, tile.domain.rows) for c in tile.crossing):
        return _in_registers(tile, tile.rows(_load(tile, "tile")), tile.rows(_store(tile, "tile")))
    # Rows that do not exist make loads and stores long: one row's code serves all.
    begin, end = _load(tile, "edge"), _store(tile, "edge")
    held = _in_registers(tile, _copy(tile, "edge", "tile"), _copy(tile, "tile", "edge"))
    body = block([tile.rows(begin, "serial"), held, tile.rows(end, "serial")])
    return _allocated(tile, "edge", "local", body)


def _in_registers(tile: TileVersion, begin: Stmt, end: Stmt) -> Stmt:
    body = block([begin, *prefetch_next_tile(tile), _without_excess(tile, _smallest(tile)), end])
    return _allocated(tile, "tile", "register", body)


def _by_unit(tile: TileVersion, instruction: Instruction) -> Stmt:
    """The tile with its sums in memory, from and to which a matrix unit takes them: where they are
    anyway, if that is a buffer of as many whole blocks."""
    ((name, indices),) = targets_of(tile)
    target = tile.instances.tensor(name)
    sizes = in_blocks(instruction, tuple(tile.sizes.values()))
    held = [int(n.value) for n in target.shape[-2:] if isinstance(n, Literal)]
    if indices == tile.place() and target.scope == "local" and held == sizes:
        return by_unit(instruction, _streams(replace(tile, sums=name), 0))
    begin, end = (tile.rows(part(tile, "tile"), "serial") for part in (_load, _store))
    body = block([begin, by_unit(instruction, _streams(tile, 0)), end])
    return _allocated(tile, "tile", "local", body, sizes)


def _smallest(tile: TileVersion) -> Stmt:
    """The streams of ``tile``; at an edge also for half its rows, or, where all rows exist, for
    fewer cache lines of lanes, if these are enough."""
    stmt, lane = _streams(tile, 0), tile.domain.lane
    cut = {name for c in tile.crossing for name in tile.sizes if c.coefficient(name)}
    if len(cut) != 1 and cut != {lane, *tile.domain.rows[-1:]}:
        return stmt
    name = lane if cut == {lane} else tile.domain.rows[-1]
    low, high = tile.box[name]
    if low != ZERO or not is_box(tile, tile.crossing):
        return stmt
    for size in smaller_sizes(tile, name):
        part = replace(tile, sizes={**tile.sizes, name: size})
        stmt = If(high <= size, _streams(part, 0), stmt)
    return stmt


def _allocated(
    tile: TileVersion, which: str, scope: Scope, body: Stmt, sizes: Sequence[int] = ()
) -> Stmt:
    """``body`` with a buffer of the tile's shape, or of ``sizes``, for each component of the
    update."""
    sizes = sizes or tuple(tile.sizes.values())
    shape = tuple(map(literal, sizes))
    strides: list[Expr] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, literal(step))
        step *= size
    for k, write in enumerate(tile.statement.writes):
        dtype = tile.instances.tensor(write.tensor).dtype
        buffer = Buffer(tile.name(which, k), dtype, shape, tuple(strides), scope)
        body = Allocate(buffer, body)
    return body


def _copy(tile: TileVersion, source: str, target: str) -> Stmt:
    stores: list[Stmt] = []
    for k, write in enumerate(tile.statement.writes):
        dtype = tile.instances.tensor(write.tensor).dtype
        value = Load(tile.name(source, k), tile.place(), dtype)
        stores.append(Store(tile.name(target, k), tile.place(), value))
    return tile.rows(tile.lanes(block(stores)))


def _load(tile: TileVersion, which: str) -> Stmt:
    lets, where, mask = tile.inside(tile.crossing)
    stores: list[Stmt] = []
    for k, (name, indices) in enumerate(targets_of(tile)):
        dtype = tile.instances.tensor(name).dtype
        zero = literal(0, dtype)
        value = select(where, select(mask, Load(name, indices, dtype), zero), zero)
        stores.append(Store(tile.name(which, k), tile.place(), value))
    return let(lets, tile.lanes(block(stores)))


def _store(tile: TileVersion, which: str) -> Stmt:
    lets, where, mask = tile.inside(tile.crossing)
    stores: list[Stmt] = []
    for k, (name, indices) in enumerate(targets_of(tile)):
        held = Load(tile.name(which, k), tile.place(), tile.instances.tensor(name).dtype)
        stores.append(Store(name, indices, held))
    return let(lets, under(where, tile.lanes(under(mask, block(stores)))))


def _streams(tile: TileVersion, depth: int) -> Stmt:
    name, hull = tile.domain.streams[depth], tile.domain.streams_hull[depth]
    if depth < len(tile.domain.streams) - 1:
        return For(name, *span(hull, name), _kind(tile, depth), _streams(tile, depth + 1))
    lets: Lets = []
    bounds = span(hull, name)
    begin, end = named(tile.instances, bounds, name, lets)
    if not tile.closed:
        return let(lets, For(name, begin, end, "serial", tile.rows(guarded_step(tile))))
    mixed = _mixed(tile)
    steady = all_of(at_worst(c, tile.box) >= 0 for c in mixed if not c.coefficient(name))
    moving = [c for c in mixed if c.coefficient(name)]
    first = [_least(c, name, tile.box) for c in moving if c.coefficient(name) > 0]
    last = [_least(c, name, tile.box) for c in moving if c.coefficient(name) < 0]
    full: Span = (begin, end)
    if first:
        full = apply("min", extreme("max", [begin, *first]), end), end
    if last or steady != TRUE:
        full = named(tile.instances, full, name, lets)
        stop = select(steady, extreme("min", [end, *last]), full[0])
        full = full[0], apply("max", stop, full[0])
    full = named(tile.instances, full, name, lets)
    origin = bounds[0] if full[0] == begin else full[0], bounds[1] if full[1] == end else full[1]
    parts: list[Stmt] = []
    if first:
        parts.append(For(name, begin, full[0], "serial", tile.rows(guarded_step(tile))))
    parts += _full_steps(tile, name, full, origin)
    if last or steady != TRUE:
        parts.append(For(name, full[1], end, "serial", tile.rows(guarded_step(tile))))
    return let(lets, block(parts))


def _mixed(tile: TileVersion) -> list[Affine]:
    """The constraints on both streams and rows or lanes."""
    local, streams = tuple(tile.sizes), tile.domain.streams
    return [c for c in tile.domain.whole if mentions_any(c, streams) and mentions_any(c, local)]


def _kind(tile: TileVersion, depth: int) -> Kind:
    """Of loops along the streams from that ``depth`` on: a few steps of a whole tile are written
    out. Of a product, so few that what it reads along the lanes is not spilled where the next tile
    reads the same. So are the taps of a window, if rows do not share elements with later steps,
    which would be held for them."""
    taps = _steps(tile, depth)
    if taps is None:
        return "serial"
    if depth and taps <= _TAPS and not _slides(tile, tile.domain.rows):
        return "unrolled"
    steps = _steps(tile, 0)
    if steps is None or tile.crossing or tile.edge:
        return "serial"
    updates, held = prod(tile.sizes.values()) * steps, tile.sizes[tile.domain.lane] * steps
    long = held > _HELD and _read_again(tile) and not _slides(tile, tuple(tile.sizes))
    return "serial" if long or updates > WRITTEN_OUT else "unrolled"


def _steps(tile: TileVersion, depth: int) -> int | None:
    """Of the streams from that ``depth`` on, how many there are; None if that is not known."""
    steps = 1
    for name, hull in list(zip(tile.domain.streams, tile.domain.streams_hull, strict=True))[depth:]:
        match span(hull, name):
            case Literal() as begin, Literal() as end:
                steps *= max(1, int(end.value) - int(begin.value))
            case _:
                return None
    return steps


def _read_again(tile: TileVersion) -> bool:
    """Whether the tile of the next turn outside reads the same along its lanes."""
    domain = tile.domain
    if not domain.outer:
        return False
    for read in tile.statement.reads:
        moves = {v for i in read.indices for v in domain.inverse.over_loops(affine(i)).variables()}
        if domain.lane in moves and domain.outer[-1] not in moves:
            return True
    return False


def _slides(tile: TileVersion, names: Sequence[str]) -> bool:
    """Whether steps read again, for others of these rows or lanes, what those before them did."""
    local, streams, forms = {*names}, {*tile.domain.streams}, tile.domain.inverse.dims
    for index in (i for read in tile.statement.reads for i in read.indices):
        dims = [d for d in tile.statement.dims if mentions(index, (d,))]
        moves = {name for d in dims for name in forms[d].variables()}
        if moves & local and moves & streams:
            return True
    return False


def _full_steps(tile: TileVersion, name: str, full: Span, origin: Span) -> list[Stmt]:
    """``full`` of the innermost stream, which stands for ``origin``: by the tile's instruction, as
    many steps at once as it takes, from a multiple of them on. What comes before goes one step at a
    time; what is left behind them, if it is known how many steps that may be, at once as well."""
    if tile.instruction is None:
        asked = (
            *prefetch_lane_operand(tile, name),
            *prefetch_row_operand(tile, name),
            *prefetch_next_panel(tile),
        )
        body = block([*asked, tile.rows(full_step(tile))])
        return [For(name, *full, _kind(tile, len(tile.domain.streams) - 1), body)]
    depth, group = tile.instruction.depth, tile.instances.fresh(f"{name}.group")
    lets: Lets = []
    early, left = (_beyond(bound, depth) for bound in origin)
    first = full[0]
    if early != ():
        first = apply("min", (full[0] + (depth - 1)) // depth * depth, full[1])
    begin, end = named(
        tile.instances, (first, apply("max", full[1] // depth * depth, first)), name, lets
    )
    parts: list[Stmt] = []
    if early != ():
        parts.append(For(name, full[0], begin, "serial", _issue(tile, name, Var(name), 1)))
    issue = _issue(tile, name, Var(group) * depth, depth)
    parts.append(For(group, begin // depth, end // depth, "serial", issue))
    if left is None and tile.instruction.unit:
        last = tile.instances.fresh(f"{name}.group")
        rest = Let(last, end // depth, _issue(tile, name, Var(last) * depth, full[1] - end))
        parts.append(under(end < full[1], rest))
    elif left is None:
        parts.append(For(name, end, full[1], "serial", _issue(tile, name, Var(name), 1)))
    for steps in left or ():
        last = tile.instances.fresh(f"{name}.group")
        rest = Let(last, end // depth, _issue(tile, name, Var(last) * depth, steps))
        parts.append(under((full[1] - end).equal(steps), rest))
    return [let(lets, block(parts))]


def _beyond(bound: Expr, depth: int) -> tuple[int, ...] | None:
    """How many steps there may be from the last multiple of ``depth`` to ``bound``; empty if that
    is one itself."""
    bounds, found = [bound], set[int]()
    while bounds:
        match bounds.pop():
            case Apply("min" | "max", args):
                bounds += args
            case one:
                form = to_affine(one)
                if form is None or any(c % depth for _, c in form.terms):
                    return None
                found.add(form.constant % depth)
    return tuple(sorted(found - {0}))


def _issue(tile: TileVersion, name: str, first: Expr, steps: int | Expr) -> Stmt:
    """The tile's instruction for all rows: ``steps`` of the stream from ``first`` on."""
    assert tile.instruction is not None
    instruction, inner = tile.instruction, tile.instances.fresh(f"{name}.inner")
    at = {name: first + Var(inner)}
    count = literal(steps) if isinstance(steps, int) else steps
    kind: Kind = "unrolled" if isinstance(steps, int) else "serial"

    def issue(value: Expr, to: tuple[str, tuple[Expr, ...]]) -> Callable[[Update], Stmt]:
        def issued(step: Update) -> Stmt:
            found = _operands(tile, instruction, step.values[0])
            update = Update((to,), step.monoid, (filled(value, found),))
            return For(inner, ZERO, count, kind, update, 1, instruction)

        return issued

    rows = tile.rows(
        full_step(tile, at, issue(instruction.issued, (tile.register(0), tile.place())))
    )
    if instruction.unit:
        return one_block(instruction, rows)
    if instruction.offset is None:
        return rows
    row = {row: tile.box[row][0] for row in tile.domain.rows}
    once = issue(instruction.excess, (_excess(tile), (Var(tile.domain.lane),)))
    return block([rows, full_step(tile, {**row, **at}, once)])


def _operands(tile: TileVersion, instruction: Instruction, value: Expr) -> Mapping[int, Expr]:
    """What the operands of ``instruction`` are in ``value``: where factors might be either, those
    that move along the lanes as its own do."""
    own = instruction.semantics
    lanes = [d for d in own.dims if d not in (*instruction.summed, ROW)]
    wanted = [moves(read, *lanes) for read in own.reads]
    for found in matches(instruction.value, value):
        if all(mentions(e, (tile.domain.lane,)) == wanted[k] for k, e in found.items()):
            return found
    raise AssertionError(f"{instruction.name} was mapped")


def _without_excess(tile: TileVersion, streams: Stmt) -> Stmt:
    """``streams``, and off the tile what an offset of the instruction adds to all its rows."""
    if tile.instruction is None or tile.instruction.offset is None:
        return streams
    lane = tile.domain.lane
    dtype, place = tile.instruction.dtype, (Var(lane),)
    excess = Load(_excess(tile), place, dtype)
    none = tile.lanes(Store(_excess(tile), place, literal(0, dtype)))
    held = Load(tile.register(0), tile.place(), dtype)
    off = tile.rows(tile.lanes(Store(tile.register(0), tile.place(), held - excess)))
    size = (literal(tile.sizes[lane]),)
    buffer = Buffer(_excess(tile), dtype, size, (literal(1),), "register")
    return Allocate(buffer, block([none, streams, off]))


def _excess(tile: TileVersion) -> str:
    return tile.name("excess", 0)


def _least(form: Affine, name: str, box: Box) -> Expr:
    """What ``form``, at its worst corner of ``box``, bounds ``name`` by: from, or up to, there."""
    c, rest = form.coefficient(name), at_worst(form, box, (name,))
    return (literal(c - 1) - rest) // c if c > 0 else rest // -c + 1
