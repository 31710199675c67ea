"""A register tile as loops: accumulators in registers during the reduction (stream), in closed
form.

    if every row and lane of the tile is in the domain:        else: the same on a clamped box:
      tile[r, l] = C[r, l]                                       rows outside repeat the nearest
      for k in [hull begin, full begin): row by row, guarded     row inside, lanes outside load 0;
      for k in [full begin, full end):                           the masked store drops what they
        tile[r, l] += A[r, k] * B[k, l]      no conditions       compute, and the long loop has no
      for k in [full end, hull end):     row by row, guarded     conditions here either
      C[r, l] = tile[r, l]

A point of the stream is *full* if the statement's domain holds there for all rows and lanes of the
box: if each affine constraint holds at the corner of the box where its value is least. That is
sound for any coefficients, for triangles (k <= i, j <= i, k < j) and symbolic sizes. Other points
run guarded. Nothing outside the domain is loaded or stored, or computed into an accumulator that is
stored.

If the number of rows and lanes of the last tile is known (257 = 32 * 8 + 1), that is a smaller tile
of its own; otherwise the smallest of a few sizes is chosen at run time (``tile_edges.py``).

``schedule_tree.RegisterTile`` is the mark; ``polyhedral/proof/register_tile.py`` has the conditions
under which it is legal. ``tile_step.py`` writes a step of the stream, ``tile_prefetch.py`` its
prefetches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.codegen.panel_prefetch import prefetch_next_panel
from weft.codegen.rebuild import block, let, under
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
    matrix_unit_block,
    named,
    on_matrix_unit,
    targets_of,
    whole_registers,
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
from weft.ir.machine import Machine
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

_TAPS = 9  # steps of a window that are unrolled
_FEW_TAPS = 3  # the same in less code: one side of a window
_HELD = 256  # elements along the lanes that LLVM keeps in registers for the next tile


def emit_register_tile(
    instances: Instances,
    tile: MarkedTile,
    domain: TileDomain,
    values: Sequence[Expr],
    machine: Machine,
    *,
    quick: bool = False,
) -> Stmt:
    """The tile at the ``values`` of the outer loops, for ``machine``; ``quick``: in less code."""
    statement = instances.scop.statement(tile.statement)
    sizes = dict(
        zip((*domain.rows, domain.lane), (*tile.payload.rows, tile.payload.lanes), strict=True)
    )
    full: Box = {name: (ZERO, literal(size)) for name, size in sizes.items()}
    boundary = [c for c in domain.target if mentions_any(c, tuple(sizes))]
    marked = tile.payload
    version = TileVersion(
        instances, statement, domain, machine, sizes, full,
        instruction=marked.instruction, ahead=marked.ahead, shared=marked.shared,
        quick=quick,
    )  # fmt: skip
    stmt = with_edges(version, boundary, _emit)
    return let(list(zip(domain.outer, values, strict=True)), stmt)


def _emit(tile: TileVersion) -> Stmt:
    instruction = tile.instruction
    if instruction is not None and instruction.unit:
        if tile.closed and not _coupled(tile):
            return _on_matrix_unit(tile, instruction)
        tile = replace(tile, instruction=None)
    if not any(mentions_any(c, tile.domain.rows) for c in tile.boundary):
        return _in_registers(tile, tile.rows(_load(tile, "tile")), tile.rows(_store(tile, "tile")))
    # Masked loads and stores are long code: a loop over rows has them once.
    begin, end = _load(tile, "edge"), _store(tile, "edge")
    held = _in_registers(tile, _copy(tile, "edge", "tile"), _copy(tile, "tile", "edge"))
    body = block([tile.rows(begin, "serial"), held, tile.rows(end, "serial")])
    return _allocated(tile, "edge", "local", body)


def _in_registers(tile: TileVersion, begin: Stmt, end: Stmt) -> Stmt:
    body = block(
        [begin, *prefetch_next_tile(tile), _subtract_offset(tile, _smaller_at_edge(tile)), end]
    )
    return _allocated(tile, "tile", "register", body)


def _on_matrix_unit(tile: TileVersion, instruction: Instruction) -> Stmt:
    """The tile with its sums in memory, from which a matrix unit loads and to which it stores them:
    in the target itself, if that is a local buffer of whole blocks."""
    ((name, indices),) = targets_of(tile)
    target = tile.instances.tensor(name)
    sizes = whole_registers(instruction, tuple(tile.sizes.values()))
    held = [int(n.value) for n in target.shape[-2:] if isinstance(n, Literal)]
    if indices == tile.place() and target.scope == "local" and held == sizes:
        return on_matrix_unit(instruction, _streams(replace(tile, accumulator=name), 0))
    begin, end = (tile.rows(part(tile, "tile"), "serial") for part in (_load, _store))
    body = block([begin, on_matrix_unit(instruction, _streams(tile, 0)), end])
    return _allocated(tile, "tile", "local", body, sizes)


def _smaller_at_edge(tile: TileVersion) -> Stmt:
    """The stream of ``tile``; at an edge also for half its rows or, if all rows exist, for fewer
    cache lines of lanes, if these suffice."""
    stmt, lane = _streams(tile, 0), tile.domain.lane
    if tile.quick:
        return stmt
    cut = {name for c in tile.boundary for name in tile.sizes if c.coefficient(name)}
    if len(cut) != 1 and cut != {lane, *tile.domain.rows[-1:]}:
        return stmt
    name = lane if cut == {lane} else tile.domain.rows[-1]
    low, high = tile.box[name]
    if low != ZERO or not is_box(tile, tile.boundary):
        return stmt
    for size in smaller_sizes(tile, name):
        part = replace(tile, sizes={**tile.sizes, name: size})
        stmt = If(high <= size, _streams(part, 0), stmt)
    return stmt


def _allocated(
    tile: TileVersion, which: str, scope: Scope, body: Stmt, sizes: Sequence[int] = ()
) -> Stmt:
    """``body`` with a buffer for each component of the update, of the tile's shape or of
    ``sizes``."""
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
    lets, where, mask = tile.inside(tile.boundary)
    stores: list[Stmt] = []
    for k, (name, indices) in enumerate(targets_of(tile)):
        dtype = tile.instances.tensor(name).dtype
        zero = literal(0, dtype)
        value = select(where, select(mask, Load(name, indices, dtype), zero), zero)
        stores.append(Store(tile.name(which, k), tile.place(), value))
    return let(lets, tile.lanes(block(stores)))


def _store(tile: TileVersion, which: str) -> Stmt:
    lets, where, mask = tile.inside(tile.boundary)
    stores: list[Stmt] = []
    for k, (name, indices) in enumerate(targets_of(tile)):
        held = Load(tile.name(which, k), tile.place(), tile.instances.tensor(name).dtype)
        stores.append(Store(name, indices, held))
    return let(lets, under(where, tile.lanes(under(mask, block(stores)))))


def _streams(tile: TileVersion, depth: int) -> Stmt:
    name, hull = tile.domain.streams[depth], tile.domain.streams_hull[depth]
    if depth < len(tile.domain.streams) - 1:
        return For(name, *span(hull, name), _loop_kind(tile, depth), _streams(tile, depth + 1))
    lets: Lets = []
    bounds = span(hull, name)
    begin, end = named(tile.instances, bounds, name, lets)
    if not tile.closed:
        return let(lets, For(name, begin, end, "serial", tile.rows(guarded_step(tile))))
    mixed = _coupled(tile)
    steady = all_of(at_worst(c, tile.box) >= 0 for c in mixed if not c.coefficient(name))
    moving = [c for c in mixed if c.coefficient(name)]
    first = [_bound_at_worst(c, name, tile.box) for c in moving if c.coefficient(name) > 0]
    last = [_bound_at_worst(c, name, tile.box) for c in moving if c.coefficient(name) < 0]
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


def _coupled(tile: TileVersion) -> list[Affine]:
    """The constraints on streams and rows or lanes at once."""
    local, streams = tuple(tile.sizes), tile.domain.streams
    return [c for c in tile.domain.whole if mentions_any(c, streams) and mentions_any(c, local)]


def _loop_kind(tile: TileVersion, depth: int) -> Kind:
    """The kind of the stream loops from ``depth`` on. Short reductions of a whole tile are
    unrolled, unless LLVM would spill the lane operand that it keeps for the next tile. So are the
    taps of a window, unless rows share elements with later steps, which would stay in registers."""
    taps = _step_count(tile, depth)
    if taps is None:
        return "serial"
    most = _FEW_TAPS if tile.quick else _TAPS
    if depth and taps <= most and not _rereads_elements(tile, tile.domain.rows):
        return "unrolled"
    steps = _step_count(tile, 0)
    if steps is None or tile.boundary or tile.edge or tile.quick:
        return "serial"
    updates, held = prod(tile.sizes.values()) * steps, tile.sizes[tile.domain.lane] * steps
    long = (
        held > _HELD
        and _shares_lane_operand(tile)
        and not _rereads_elements(tile, tuple(tile.sizes))
    )
    return "serial" if long or updates > WRITTEN_OUT else "unrolled"


def _step_count(tile: TileVersion, depth: int) -> int | None:
    """The number of steps of the streams from ``depth`` on; None if unknown."""
    steps = 1
    for name, hull in list(zip(tile.domain.streams, tile.domain.streams_hull, strict=True))[depth:]:
        match span(hull, name):
            case Literal() as begin, Literal() as end:
                steps *= max(1, int(end.value) - int(begin.value))
            case _:
                return None
    return steps


def _shares_lane_operand(tile: TileVersion) -> bool:
    """Whether the tile of the next iteration of the loop outside reads the same lane operand."""
    domain = tile.domain
    if not domain.outer:
        return False
    for read in tile.statement.reads:
        moves = {v for i in read.indices for v in domain.inverse.over_loops(affine(i)).variables()}
        if domain.lane in moves and domain.outer[-1] not in moves:
            return True
    return False


def _rereads_elements(tile: TileVersion, names: Sequence[str]) -> bool:
    """Whether a step reads, for other ``names`` (rows or lanes), elements of the steps before
    it."""
    local, streams, forms = {*names}, {*tile.domain.streams}, tile.domain.inverse.dims
    for index in (i for read in tile.statement.reads for i in read.indices):
        dims = [d for d in tile.statement.dims if mentions(index, (d,))]
        moves = {name for d in dims for name in forms[d].variables()}
        if moves & local and moves & streams:
            return True
    return False


def _full_steps(tile: TileVersion, name: str, full: Span, origin: Span) -> list[Stmt]:
    """The ``full`` steps of the innermost stream, whose bounds are ``origin`` before they were
    named. With an instruction of depth d, d steps at once from a multiple of d on; single steps
    before that; the remainder at once if its possible lengths are known, else in single steps."""
    if tile.instruction is None:
        asked = (
            *prefetch_lane_operand(tile, name),
            *prefetch_row_operand(tile, name),
            *prefetch_next_panel(tile),
        )
        body = block([*asked, tile.rows(full_step(tile))])
        return [For(name, *full, _loop_kind(tile, len(tile.domain.streams) - 1), body)]
    depth, group = tile.instruction.depth, tile.instances.fresh(f"{name}.group")
    lets: Lets = []
    early, left = (_remainders(bound, depth) for bound in origin)
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


def _remainders(bound: Expr, depth: int) -> tuple[int, ...] | None:
    """The possible lengths of the remainder between the last multiple of ``depth`` and ``bound``;
    (): there is none; None: unknown."""
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
        return matrix_unit_block(instruction, rows)
    if instruction.offset is None:
        return rows
    row = {row: tile.box[row][0] for row in tile.domain.rows}
    once = issue(instruction.excess, (_offset_sums(tile), (Var(tile.domain.lane),)))
    return block([rows, full_step(tile, {**row, **at}, once)])


def _operands(tile: TileVersion, instruction: Instruction, value: Expr) -> Mapping[int, Expr]:
    """Operand number → its expression in ``value``; of factors that could be either, the one that
    varies along the lanes as in the instruction's semantics."""
    own = instruction.semantics
    lanes = [d for d in own.dims if d not in (*instruction.summed, ROW)]
    wanted = [moves(read, *lanes) for read in own.reads]
    for found in matches(instruction.value, value):
        if all(mentions(e, (tile.domain.lane,)) == wanted[k] for k, e in found.items()):
            return found
    raise AssertionError(f"{instruction.name} was mapped")


def _subtract_offset(tile: TileVersion, streams: Stmt) -> Stmt:
    """``streams``, then subtract from each row what the instruction's offset has added to it."""
    if tile.instruction is None or tile.instruction.offset is None:
        return streams
    lane = tile.domain.lane
    dtype, place = tile.instruction.dtype, (Var(lane),)
    excess = Load(_offset_sums(tile), place, dtype)
    none = tile.lanes(Store(_offset_sums(tile), place, literal(0, dtype)))
    held = Load(tile.register(0), tile.place(), dtype)
    off = tile.rows(tile.lanes(Store(tile.register(0), tile.place(), held - excess)))
    size = (literal(tile.sizes[lane]),)
    buffer = Buffer(_offset_sums(tile), dtype, size, (literal(1),), "register")
    return Allocate(buffer, block([none, streams, off]))


def _offset_sums(tile: TileVersion) -> str:
    return tile.name("excess", 0)


def _bound_at_worst(form: Affine, name: str, box: Box) -> Expr:
    """The bound on ``name`` that ``form`` implies for all of ``box``: its first, or past its last,
    value."""
    c, rest = form.coefficient(name), at_worst(form, box, (name,))
    return (literal(c - 1) - rest) // c if c > 0 else rest // -c + 1
