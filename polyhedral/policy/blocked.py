"""The loops of a product: register tiles in cache tiles.

    parallel i_t: for j_t:
      C = …                                  prologue of a tile, before its sums
      for k_t:
        pack                                 operands that are strided along the lanes
        for j_r: for i_r: registers          tiles that use the same lanes (or `jr_inside_ir`)
      … = C                                  epilogue of a tile

Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from weft.ir.scalar_expr import Expr, Var, substitute
from weft.ir.schedule_tree import Band, Kind, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import hull_extent, mentions
from weft.polyhedral.policy.cache_tiles import (
    CacheTiles,
    cache_tiles,
    even,
    in_one_part,
    kc_of,
    nearest,
    on_new_pages,
    rows_ahead,
    sharers_of,
    why_kc,
)
from weft.polyhedral.policy.lanes import from_lower_bound
from weft.polyhedral.policy.loop_orders import (
    StreamedOperand,
    jr_inside_ir,
    lane_operand_stationary,
    read_once,
    stationary_extent,
    streamed_operand,
    streamed_weights,
    strip_width,
)
from weft.polyhedral.policy.operand_panels import pack_per_tile, worth_packing
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.product import Product, Tile, shape, sums_of
from weft.polyhedral.policy.tile_ends import transposed_epilogue

SHARED_OUT = 240  # rows of a cache tile that threads share out: few enough to come out even
AGAIN = 16  # register tiles that use the same lanes in a row: packing for these pays
BESIDE = 64  # iterations that share packed panels that none of them moves through

_SERIAL: Kind = "serial"
_PARALLEL: Kind = "parallel"
Step = tuple[str, Expr, Kind]


@dataclass(frozen=True, slots=True)
class Tiling:
    """The loops of a product down to its register ``tile``, each as a hint for its name, its value
    and its kind: ``around`` the reduction; over parts of it (``stream``); over register tiles
    (``near``), which reuse operands. ``steps``: of the reduction at a time through a tile, all if
    0. ``panels``: numbers of the reads that are packed although contiguous along the lanes.
    ``shared``: tiles that read the same lanes prefetch the next ones."""

    tile: Tile
    around: tuple[Step, ...]
    stream: tuple[Step, ...]
    near: tuple[Step, ...]
    steps: int = 0
    panels: tuple[int, ...] = ()
    shared: bool = False


def blocked(planner: Planner, p: Product) -> Tree:
    """``p`` in register tiles over cache tiles."""
    tiling = _cache_tiles(planner, p)
    steps = (*tiling.around, *tiling.stream, *tiling.near)
    loops = [planner.loop(hint, {p.statement: at}, kind) for hint, at, kind in steps]
    return _with_loops(loops, _registers(planner, p, tiling, loops))


def within_tile(planner: Planner, p: Product, size: int) -> Tree:
    """Register tiles of ``p`` in a tile of ``size`` rows and lanes. For all of its rows, operands
    that are strided along the lanes are packed, and others as well where the rows are many."""
    tile = shape(planner, p, whole=True)
    sizes = zip((p.lanes, *p.rows), (tile[1], *tile[0]), strict=True)
    steps = [_part(planner, p), *((f"{d}_r", Var(d) // size, _SERIAL) for d, size in sizes)]
    loops = [planner.loop(hint, {p.statement: at}, kind) for hint, at, kind in steps]
    again = size >= AGAIN * prod(tile[0])
    planner.packings += pack_per_tile(planner, p, loops[2].name, tile, again=again)
    points = {
        d: Var(d) % size for d, size in zip((*p.rows, p.lanes), (*tile[0], tile[1]), strict=True)
    }
    marked = _marked(planner, p, Tiling(tile, (), (), ()), _points(planner, p, points))
    return _with_loops(loops, marked)


def shared_tiles(planner: Planner, group: Group, planes: Mapping[str, Hyperplane]) -> Tree:
    """``group`` in cache tiles, with the ``planes`` of ``fusable_epilogue``: prologue and epilogue
    of a tile, and its sums in register tiles, one product after the other."""
    p, *beside = sums_of(planner, group)
    tiling = _cache_tiles(planner, p, shared=True)
    shared = tiling.around if tiling.stream else (*tiling.around, *tiling.near)
    dims = {dim: plane.at for dim, plane in planes.items()}
    loops = [planner.loop(hint, _for_all(dims, value), kind) for hint, value, kind in shared]
    inside = group.inside(*(dict(loop.at) for loop in loops))
    for one in (p, *beside):
        planner.planned[one.statement] = partial(_sums, one, _of(planner, tiling, p, one), loops)
    if not beside:
        in_tile = _in_tile(planner.scop.statement(p.statement), p, tiling.tile).values()
        points = [_for_all(dims, value) for value in in_tile]
        near = [_for_all(dims, value) for _, value, _ in tiling.near] if tiling.stream else []
        elements = prod(tiling.tile[0]) * tiling.tile[1]
        ends = transposed_epilogue(planner, inside, p.statement, points, elements, near)
        planner.planned |= ends
    return _with_loops(loops, planner.nest(inside))


def _sums(p: Product, tiling: Tiling, loops: Sequence[Loop], planner: Planner, _: Group) -> Tree:
    """The sums of ``p`` in a tile inside ``loops``, which it shares with others."""
    steps = (*tiling.stream, *tiling.near) if tiling.stream else ()
    own = [planner.loop(hint, {p.statement: at}, kind) for hint, at, kind in steps]
    return _with_loops(own, _registers(planner, p, tiling, [*loops, *own]))


def _of(planner: Planner, tiling: Tiling, p: Product, other: Product) -> Tiling:
    """``tiling`` of ``p`` for ``other``, a product of the same shape."""
    if other is p:
        return tiling
    pairs = zip((*p.moving, *p.stream), (*other.moving, *other.stream), strict=True)
    names: dict[str, Expr] = {a: Var(b) for a, b in pairs}

    def renamed(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple((hint, substitute(value, names), kind) for hint, value, kind in steps)

    return replace(
        tiling,
        around=renamed(tiling.around),
        stream=renamed(tiling.stream),
        near=renamed(tiling.near),
    )


def _for_all(dims: Mapping[str, At], value: Expr) -> At:
    """What ``value``, over one of ``dims`` of the sums, is for each statement."""
    dim = next((d for d in dims if mentions(value, (d,))), next(iter(dims)))  # 0: a tile of one row
    return {name: substitute(value, {dim: same}) for name, same in dims[dim].items()}


def _registers(planner: Planner, p: Product, tiling: Tiling, loops: Sequence[Loop]) -> Tree:
    """One register tile of ``p`` inside ``loops``, and the packing that its neighbours share."""
    s = planner.scop.statement(p.statement)
    near = loops[len(loops) - len(tiling.near) :]
    p = replace(p, needs_packing=(*p.needs_packing, *tiling.panels))
    inside = _points(planner, p, _in_tile(s, p, tiling.tile), tiling.steps)
    first = (*near, *inside)[0]
    rows = streamed_weights(planner, p, tiling.tile[1]) if tiling.steps else {}
    planner.packings += pack_per_tile(planner, p, first.name, tiling.tile, in_rows=rows)
    return _marked(planner, p, tiling, inside)


def _in_tile(s: Statement, p: Product, tile: Tile) -> dict[str, Expr]:
    """The points of ``tile`` by dim, counted from its first; lanes last."""
    found: dict[str, Expr] = {}
    for dim, size in (*zip(p.rows, tile[0], strict=True), (p.lanes, tile[1])):
        value = from_lower_bound(s, dim)
        found[dim] = value % size if _cut(s, dim, size) else value
    return found


def _points(
    planner: Planner, p: Product, points: Mapping[str, Expr], steps: int = 0
) -> tuple[Loop, ...]:
    """The loops of a register tile: its reduction, ``steps`` at a time (0: in any parts), then the
    ``points`` of its rows and lanes."""
    at = [Var(d) % steps if steps else Var(d) for d in p.stream]
    stream = [planner.loop(d, {p.statement: e}) for d, e in zip(p.stream, at, strict=True)]
    inside = (planner.loop(f"{d}_p", {p.statement: e}) for d, e in points.items())
    return (*stream, *inside)


def _marked(planner: Planner, p: Product, tiling: Tiling, points: tuple[Loop, ...]) -> Tree:
    """The register tile. Unpacked lanes that are on another page at each step are prefetched,
    unless tiles read what is contiguous or prefetch for each other; so are few rows that come from
    memory."""
    foreseen = tiling.shared or tiling.steps > 0
    s, machine = planner.scop.statement(p.statement), planner.machine
    panels = {n for n, read in enumerate(s.reads) if read.tensor in planner.operands} | {
        *p.needs_packing
    }
    panels |= {n for n in range(len(s.reads)) if planner.prepared(s, n)}
    far = set(on_new_pages(planner.scop, s, p.lanes, p.stream, machine)) - panels
    ahead = machine.misses if far and not foreseen and p.instruction is None else 0
    if not p.rows and len(p.stream) == 1 and p.instruction is None:
        lines = rows_ahead(planner.scop, s, p.lanes, p.stream[0], machine)
        ahead = (0 if machine.caches[-1].sequential_prefetcher else lines) if lines else ahead
    if ahead:
        ahead = int(planner.decisions.choose(f"{s.name}.prefetch", (ahead, 0), ahead))
    payload = RegisterTile(*tiling.tile, p.instruction, ahead, tiling.shared)
    return Mark(payload, Band(points, Leaf(p.statement)))


def _worth_packing(planner: Planner, p: Product, tile: Tile, width: int) -> tuple[int, ...]:
    """The reads, by number, for which packing pays if ``width`` lanes share it."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    found = worth_packing(scop, p, tile, width, planner.machine)
    return tuple(
        n
        for n in found
        if not planner.prepared(s, n)
        and planner.accepts(f"{s.name}.pack_per_tile_{s.reads[n].tensor}", "yes", "no")
    )


def _cut(s: Statement, dim: str, size: int) -> bool:
    """Whether ``dim`` has more than ``size`` values."""
    return (hull_extent(s, dim) or size + 1) > size


def _register_loops(planner: Planner, p: Product, tile: Tile) -> list[Step]:
    """The loops over register tiles, jr outside."""
    s = planner.scop.statement(p.statement)
    sizes = ((p.lanes, tile[1]), *zip(p.rows, tile[0], strict=True))
    return [
        (f"{d}_r", from_lower_bound(s, d) // size, _SERIAL) for d, size in sizes if _cut(s, d, size)
    ]


def _rows_first(p: Product, near: Sequence[Step]) -> tuple[Step, ...]:
    """``near`` with jr, the loop along the lanes, innermost."""
    return tuple(sorted(near, key=lambda step: mentions(step[1], (p.lanes,))))


def _cache_tiles(planner: Planner, p: Product, *, shared: bool = False) -> Tiling:
    """The loops of ``p``, but those of one iteration. The sums of a window are kept in registers
    only. ``shared``: other statements use the sums of a tile."""
    s = planner.scop.statement(p.statement)
    rows, lanes = tile = shape(planner, p)
    best = _sizes(planner, p)
    width = nearest(best.nc, lanes)
    beside = _panel_reusing(planner, p)
    around: list[Step] = [(d, Var(d), _PARALLEL) for d in p.outer if d not in beside]
    block, limit = best.mc, best.rows
    if shared and block != best.mc_shared:
        block, limit = best.mc_shared, f"{limit}, half of it as others use the sums"
    sharers = sharers_of(planner, s, [d for d, _, _ in around])
    if sharers > 1 and block > SHARED_OUT:
        block, limit = SHARED_OUT, f"{limit}, at most {SHARED_OUT} to come out even among threads"
    copies = _worth_packing(planner, p, tile, width)
    known = p.window or planner.short_streams.get(p.statement, False)
    short = known or in_one_part(planner.scop, s, p.stream, planner.machine, again=not copies)
    again = tuple[Step, ...]((d, Var(d), _SERIAL) for d in beside)
    if p.statement in planner.row_tiles:  # all of its rows are in a cache
        near = (*again, *_register_loops(planner, p, tile))
        return Tiling(tile, tuple(around), _parts(planner, p, whole=short), near)
    loops = f"{p.statement}.loops"
    once = not beside and read_once(planner, p, tile)
    if once and planner.accepts(loops, "strips of the sums", "cache tiles"):
        return _matrix_vector_tiles(planner, p, tile, around)
    streamed = streamed_operand(planner, p, tile)
    if streamed is not None and planner.accepts(loops, "lanes streamed", "cache tiles"):
        return _streamed_operand_tiles(planner, p, tile, streamed)
    stationary = lane_operand_stationary(planner, p)
    if stationary and planner.accepts(loops, "lanes stationary", "cache tiles"):
        return _stationary_tiles(planner, p, tile)
    jr_inside = jr_inside_ir(planner, p, (lanes, width), (*p.needs_packing, *copies), whole=short)
    sizes: list[tuple[str, int, Kind, str]] = []
    if not (around or beside) and _lanes_are_shared(planner, p, block):
        if short:
            near = tuple(
                (hint, value, _PARALLEL) for hint, value, _ in _register_loops(planner, p, tile)
            )
            return Tiling(tile, (), (), near)
        size = even(sharers, hull_extent(s, p.lanes), lanes, width)
        sizes.append((p.lanes, size, _PARALLEL, _rounded(best.lanes, lanes, sharers)))
    else:
        for row, size in zip(p.rows, rows, strict=True):
            total = hull_extent(s, row)
            # With jr inside and an unblocked reduction, rows pass once: mc does not limit them.
            most = total + size if total and jr_inside and short else block
            why = limit if most == block else "lanes are innermost, so that all rows pass once"
            why = _rounded(why, size, sharers)
            sizes.append((row, even(sharers, total, size, most), _PARALLEL, why))
        kind = _SERIAL if around or sizes else _PARALLEL
        why = "a window keeps its sums in registers" if p.window else best.lanes
        sizes.append((p.lanes, lanes if p.window else width, kind, _rounded(why, lanes, 1)))
    for dim, size, kind, why in sizes:
        if _cut(s, dim, size):
            size = planner.size(f"{p.statement}.{dim}_tile", size, why)
            around.append((f"{dim}_t", from_lower_bound(s, dim) // size, kind))
    if beside and not around:
        size = even(sharers, hull_extent(s, beside[0]), 1, BESIDE)
        around.append((f"{beside[0]}_t", Var(beside[0]) // size, _PARALLEL))
    near = (*again, *_register_loops(planner, p, tile))
    inner = ("jr", "ir") if jr_inside else ("ir", "jr")
    if planner.accepts(f"{p.statement}.inner_loop", *inner) == jr_inside:
        near = _rows_first(p, near)
    if short and planner.threads > 1 and not any(kind == _PARALLEL for _, _, kind in around):
        near = tuple((hint, value, _PARALLEL) for hint, value, _ in near)
    stream = _parts(planner, p, whole=short)
    return Tiling(tile, tuple(around), stream, near, panels=copies)


def _rounded(why: str, size: int, sharers: int) -> str:
    """``why``, of a number that ``even`` rounds to register tiles of ``size``."""
    fair = f", as many for each of {sharers} threads" if sharers > 1 else ""
    return f"{why}; whole register tiles of {size}{fair}"


def _streamed_operand_tiles(
    planner: Planner, p: Product, tile: Tile, streamed: StreamedOperand
) -> Tiling:
    """The loops of ``p`` where its lane operand is streamed, each panel once for all rows."""
    s, lanes = planner.scop.statement(p.statement), tile[1]
    around: list[Step] = [(d, Var(d), _PARALLEL) for d in p.outer if d not in streamed.inside]
    sharers = sharers_of(planner, s, [d for d, _, _ in around])
    around += [(f"{d}_t", from_lower_bound(s, d) // n, _PARALLEL) for d, n in streamed.blocks]
    width = (
        even(sharers, hull_extent(s, p.lanes), lanes, streamed.width) if streamed.steps else lanes
    )
    if _cut(s, p.lanes, width):
        around.append((f"{p.lanes}_t", from_lower_bound(s, p.lanes) // width, _PARALLEL))
    across = [step for step in _register_loops(planner, p, tile) if mentions(step[1], (p.lanes,))]
    down = [step for step in _register_loops(planner, p, tile) if not mentions(step[1], (p.lanes,))]
    rows = (*((d, Var(d), _SERIAL) for d in streamed.inside), *down)
    part: Step = (
        f"{streamed.cut}_t",
        from_lower_bound(s, streamed.cut) // max(1, streamed.steps),
        _SERIAL,
    )
    outer = ((part, *across) if streamed.copied else (part,)) if streamed.steps else ()
    near = rows if streamed.copied or not streamed.steps else (*across, *rows)
    shared = not streamed.copied
    return Tiling(tile, tuple(around), outer, near, panels=streamed.copied, shared=shared)


def _stationary_tiles(planner: Planner, p: Product, tile: Tile) -> Tiling:
    """The loops of ``p`` where lanes stay in L2 while all rows pass."""
    s, block = planner.scop.statement(p.statement), stationary_extent(planner, p)
    width = even(sharers_of(planner, s, ()), hull_extent(s, p.lanes), tile[1], block)
    lanes: Step = (f"{p.lanes}_t", from_lower_bound(s, p.lanes) // width, _PARALLEL)
    near = _rows_first(p, _register_loops(planner, p, tile))
    return Tiling(tile, (lanes,) if _cut(s, p.lanes, width) else (), (), near)


def _matrix_vector_tiles(
    planner: Planner, p: Product, tile: Tile, around: Sequence[Step]
) -> Tiling:
    """The loops of ``p`` where what it reads along the lanes is used once: strips of sums that stay
    in L1, and a few steps of the reduction at a time through each."""
    s, (step,) = planner.scop.statement(p.statement), p.stream
    sharers, strip = (
        sharers_of(planner, s, [d for d, _, _ in around]),
        strip_width(planner, p, tile),
    )
    width = even(sharers, hull_extent(s, p.lanes), tile[1], strip)
    strips: Step = (f"{p.lanes}_t", from_lower_bound(s, p.lanes) // width, _PARALLEL)
    cut = (strips,) if _cut(s, p.lanes, width) else ()
    steps = planner.machine.prefetchers.streams
    part: Step = (f"{step}_t", Var(step) // steps, _SERIAL)
    return Tiling(
        tile, (*around, *cut), (part,), tuple(_register_loops(planner, p, tile)), steps=steps
    )


def _lanes_are_shared(planner: Planner, p: Product, block: int) -> bool:
    """Whether threads share out the lanes and each takes all rows: these fit into one block and are
    fewer than the lanes, so that less is read by all threads."""
    s = planner.scop.statement(p.statement)
    if planner.threads == 1 or not p.rows:
        return False
    rows, lanes = [hull_extent(s, row) for row in p.rows], hull_extent(s, p.lanes)
    known = [n for n in rows if n is not None and n <= block]
    return len(known) == len(rows) and lanes is not None and prod(known) <= lanes


def _parts(planner: Planner, p: Product, *, whole: bool) -> tuple[Step, ...]:
    """The loop over parts of the reduction, none if it runs as a ``whole``."""
    return () if whole else (_part(planner, p),)


def _part(planner: Planner, p: Product) -> Step:
    """The loop over parts of the reduction."""
    dim = p.stream[-1]
    steps = planner.size(
        f"{p.statement}.{dim}_tile", kc_of(planner.machine), why_kc(planner.machine)
    )
    return f"{dim}_t", Var(dim) // steps, "serial"


def _sizes(planner: Planner, p: Product) -> CacheTiles:
    """The cache tiles for elements as wide as the sums or the operands, whichever are wider; a
    matrix unit holds its sums, so there as wide as the operands."""
    s, unit = planner.scop.statement(p.statement), p.instruction and p.instruction.unit
    accesses = s.reads if unit else (*s.writes, *s.reads)
    sizes = [planner.scop.tensor(a.tensor).dtype.itemsize for a in accesses]
    best, stay = cache_tiles(planner.machine, max(sizes)), stationary_extent(planner, p)
    if not stay:
        return best
    rows = f"the whole reduction of {stay} rows is what of an operand stays in L2"
    half = max(1, stay // 2)
    return replace(best, mc=stay, mc_shared=stay, nc=half, rows=rows, lanes=f"{rows}, lanes half")


def _panel_reusing(planner: Planner, p: Product) -> tuple[str, ...]:
    """The outer dims that packed operands do not move along: their loops go inside, around the
    register tiles, so that panels are reused. Panels of constants are always there."""
    reads = planner.scop.statement(p.statement).reads
    if p.window:
        return ()
    made = [
        reads[n] for n in p.needs_packing if planner.scop.tensor(reads[n].tensor).role != "constant"
    ]
    indices = [i for read in made for i in read.indices]
    return tuple(d for d in p.outer if made and not any(mentions(i, (d,)) for i in indices))


def _with_loops(loops: Sequence[Loop], tree: Tree) -> Tree:
    return Band(tuple(loops), tree) if loops else tree
