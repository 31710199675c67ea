"""Other loop orders of a product than register tiles in cache tiles (``blocked``).

streamed     a lane operand that L2 does not hold: each panel is read once, for all rows
stationary   rows or lanes of a matrix unit's blocks stay in L2 while the others pass
jr in ir     the loop over lanes inside that over rows, for lanes that L1 does not hold
in rows      products with few rows: an operand that is read once, in memory order
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd, inf, prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.cache_tiles import (
    SHARE,
    TOGETHER,
    cache_tiles,
    compact_bytes,
    footprint_bytes,
    in_one_part,
    kc_of,
    l3_feeds_lanes,
)
from weft.polyhedral.policy.lanes import known_range, strided, sum_dims
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product import TAPS, WINDOW, Product, Tile
from weft.polyhedral.policy.product_costs import extents, stride

# ---- A streamed operand: lanes that L2 does not hold come in once, for all rows.
#
#     for i_r: for j_r: registers over k        for k_t: for j_r: for i_r: registers over part k_t
#       C[i, j] += A[i, k] * B[j, k]       →      prefetch a share of B[j_r + 1, k_t]
#                                                 C[i, j] += A[i, k] * B[j, k]
#
# L3 may hand out B more slowly than register tiles consume it. Even a fast L3 does so for a B of
# many megabytes, whose rows lie on different pages, where no hardware prefetcher follows. So the
# loops over all rows go inside the loop over panels, and the reduction is blocked so that the rows'
# own operand A stays in L2 for each part. While one panel is used, its tiles prefetch the next one
# (``codegen/panel_prefetch``). If B comes in packed panels, one tile of rows is enough: hardware
# prefetchers stop at the end of each page of a panel.
#
# Tiles whose rows are contiguous in memory read the same cache lines of A at each step. With a slow
# L3, parts are so short that those lines and a panel stay in L1 from tile to tile.
#
# Rows whose number is open are taken in blocks of as many as have their sums in L2.
#
# A B that is not packed can only be read in short parts, so that few of its lines fall into one set
# of a cache. Where the rows are so many that B arrives in a small part of the time of their
# arithmetic, each panel is packed instead: if the whole reduction can then run at once, and, in
# parts as long as those of constants, if each step of B is on another page or its vectors straddle
# lines.


# shares of L2: A of one part, C of a block of lanes, two panels of B
OPERANDS, SUMS, LANES = 0.4, 0.35, 0.25
WHOLE = 0.32  # of L2, for two panels over the whole reduction
DEEP = 4  # times L2: a B larger than this is streamed even if L3 feeds register tiles
BUSY = 6  # arithmetic that takes this many times as long as B's arrival hides it without prefetches
LONG = 4  # the same, of arithmetic that also hides packing a panel
LEAST = 32  # steps of the reduction in a part, at least
FEWEST = 4  # register tiles of lanes in a block whose sums stay in L2, if there are as many
FIRST = 0.75  # of L1, for what tiles with contiguous rows read again
PARTS = 2  # times kc: beyond that many steps, bringing C in and out costs next to nothing
PAGES = 0.75  # of the first TLB, for a panel beside A and C


@dataclass(frozen=True, slots=True)
class StreamedOperand:
    """How a lane operand is streamed. ``inside``: outer dims whose loops go inside those over
    panels; ``cut``: the reduction dim that is blocked, ``steps`` at a time (0: not at all);
    ``width``: lanes whose sums stay in L2; ``copied``: numbers of the reads that are packed panel
    by panel. ``blocks``: how many of an open dim make a block."""

    inside: tuple[str, ...]
    cut: str
    steps: int
    width: int
    copied: tuple[int, ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()


def streamed_operand(planner: Planner, p: Product, tile: Tile) -> StreamedOperand | None:
    """How to stream the lane operand of ``p``, in register tiles of shape ``tile``; None where that
    gains nothing."""
    s = planner.scop.statement(p.statement)
    sizes, blocks = _in_blocks(planner, p, tile)
    if p.window or not p.rows or sizes is None:
        return None
    read = _lane_operand(planner, p, sizes)
    if p.instruction is not None or p.statement in planner.row_tiles or read is None:
        return None
    reusing = tuple(d for d in p.outer if not moves(read, d))
    least = 1 if planner.prepared(s, s.reads.index(read)) else 2
    tiles = prod(ceil(sizes[d] / n) for d, n in zip(p.rows, tile[0], strict=True))
    for first in range(len(reusing) + 1):
        inside = reusing[first:]
        many = tiles * prod(sizes[d] for d in inside) >= least
        if many and _gains(planner, p, read, tile[1], inside, sizes):
            found = _parts(planner, p, read, tile[1], inside, sizes)
            if found is not None:
                own = {*p.rows, *inside}
                return replace(found, blocks=tuple(b for b in blocks.items() if b[0] in own))
    return None


def _in_blocks(
    planner: Planner, p: Product, tile: Tile
) -> tuple[dict[str, int] | None, dict[str, int]]:
    """The extents of the dims of ``p``, and the block of one of its rows or outer dims that is
    open: as many as have their sums in L2 beside those of other rows, in whole register tiles. No
    extents where anything else is open."""
    s = planner.scop.statement(p.statement)
    found = {dim: hull_extent(s, dim) for dim in s.dims}
    sizes = {dim: size for dim, size in found.items() if size is not None}
    match [dim for dim in found if dim not in sizes]:
        case []:
            return sizes, {}
        case [dim] if dim in p.rows or dim in p.outer:
            item = planner.scop.tensor(s.writes[0].tensor).dtype.itemsize
            row = prod(sizes.get(d, 1) for d in (*p.outer, *p.rows)) * FEWEST * tile[1] * item
            step = dict(zip(p.rows, tile[0], strict=True)).get(dim, 1)
            block = step * max(1, int(SUMS * planner.machine.l2) // (row * step))
            return {**sizes, dim: block}, {dim: block}
    return None, {}


def _gains(
    planner: Planner,
    p: Product,
    read: Access,
    lanes: int,
    inside: tuple[str, ...],
    sizes: Mapping[str, int],
) -> bool:
    """Whether, with one loop fewer ``inside``, B would arrive too late, or the other operands would
    not stay in L2 beside a panel of ``lanes``. More rows than a cache tile has, in no loop of their
    own, are blocked anyway."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    rows = (*p.rows, *inside[1:])
    number, item = prod(sizes[d] for d in rows), scop.tensor(read.tensor).dtype.itemsize
    if _compute_over_arrival(planner, number) <= BUSY:
        return True
    if not inside and number > cache_tiles(planner.machine, item).mc:
        return False
    within = {d: sizes[d] for d in (*rows, *p.stream)}
    line = planner.machine.line
    held = sum(footprint_bytes(scop, r, within, line) for r in s.reads if r != read)
    held += lanes * prod(sizes[d] for d in p.stream) * item
    share = 1.0 if l3_feeds_lanes(planner.machine) else SHARE
    return held > share * planner.machine.l2


def _compute_over_arrival(planner: Planner, rows: int) -> float:
    """The time that ``rows`` take for their multiply-adds with one vector of B, over the time in
    which it arrives from L3."""
    machine = planner.machine
    comes = machine.vector_bytes / machine.caches[-1].bandwidth
    return rows / machine.fma_per_cycle / comes


def _parts(
    planner: Planner,
    p: Product,
    read: Access,
    lanes: int,
    inside: tuple[str, ...],
    sizes: Mapping[str, int],
) -> StreamedOperand | None:
    """The longest parts of the reduction for which the other operands stay in L2."""
    s, scop, near = planner.scop.statement(p.statement), planner.scop, planner.machine.l2
    line, cut = planner.machine.line, max(p.stream, key=lambda d: sizes[d])
    taps = prod(sizes[d] for d in p.stream if d != cut)
    item = scop.tensor(s.writes[0].tensor).dtype.itemsize
    all_rows = (*p.rows, *inside)
    within = {d: sizes[d] for d in (*all_rows, *p.stream)}
    whole = _copied(planner, p, read, prod(sizes[d] for d in all_rows))
    apart = stride(scop.tensor(read.tensor), read, cut)
    badly = apart >= planner.machine.page or apart % line
    copied = whole if badly else ()
    in_rows = not planner.prepared(s, s.reads.index(read))
    in_sets = _conflict_free_steps(planner, read, cut) if in_rows and not copied else inf
    most = min(PARTS * kc_of(planner.machine), in_sets)
    side_by_side = any(mentions(r.indices[-1], p.rows) for r in s.reads if r != read and r.indices)
    if side_by_side and not l3_feeds_lanes(planner.machine):
        first = planner.machine.caches[0]
        most = min(most, max(LEAST, int(FIRST * first.size) // (lanes * item + line)))
    width = int(SUMS * near) // (prod(sizes[d] for d in all_rows) * item)
    for parts in range(1, sizes[cut] + 1):
        steps = -(-sizes[cut] // parts)
        if steps * taps < LEAST:
            break
        each = sum(
            footprint_bytes(scop, r, within | {cut: steps}, line) for r in s.reads if r != read
        )
        both = 2 * steps * taps * lanes * item
        if each > OPERANDS * near:
            continue
        if parts == 1 and both <= WHOLE * near and (whole or steps * taps <= in_sets):
            return StreamedOperand(inside, cut, 0, sizes[p.lanes], whole)
        enough = width >= min(FEWEST * lanes, sizes[p.lanes])
        if steps * taps <= most and both <= LANES * near and enough:
            return StreamedOperand(inside, cut, steps, width, copied)
    return None


def _copied(planner: Planner, p: Product, read: Access, rows: int) -> tuple[int, ...]:
    """The number of ``read`` if it is not packed, does not run along the reduction, and is used by
    so many ``rows`` that packing it is nearly free; else none."""
    s = planner.scop.statement(p.statement)
    number = s.reads.index(read)
    along = mentions(read.indices[-1], p.stream)
    if planner.prepared(s, number) or along or _compute_over_arrival(planner, rows) < LONG:
        return ()
    return (number,)


def _conflict_free_steps(planner: Planner, read: Access, cut: str) -> float:
    """How many steps along ``cut`` an unpacked panel may have: its lines, a row of memory apart,
    fill at most half the ways of the L2 sets that they map to, and ``PAGES`` of the
    first TLB."""
    tensor, near = planner.scop.tensor(read.tensor), planner.machine.caches[:2][-1]
    apart = stride(tensor, read, cut)
    sets = near.size // near.line // near.ways
    page, entries = planner.machine.page, planner.machine.tlbs[0].entries
    pages = PAGES * entries * page / min(max(1, apart), page)
    return min(pages, sets // gcd(max(1, apart // near.line), sets) * near.ways / 2)


def _lane_operand(planner: Planner, p: Product, sizes: Mapping[str, int]) -> Access | None:
    """B, if it is the only read that moves along the lanes, is packed or contiguous along them, and
    L2 (``DEEP`` times L2, if L3 feeds register tiles) does not hold it; else None."""
    scop, s = planner.scop, planner.scop.statement(p.statement)
    found = [r for r in s.reads if moves(r, p.lanes)]
    if len(found) != 1 or found[0].may or found[0].tensor in planner.operands:
        return None
    (read,) = found
    prepared = planner.prepared(s, s.reads.index(read))
    if not prepared and (strided(read, p.lanes) or any(moves(read, d) for d in p.outer)):
        return None
    if any(moves(read, d) for d in p.rows):
        return None
    held = (DEEP if l3_feeds_lanes(planner.machine) else SHARE) * planner.machine.l2
    return read if compact_bytes(scop, read, sizes) > held else None


# ---- A stationary operand: rows or lanes of blocks stay in L2 while the others pass.
#
#     for i_t: for j_t:                            for j_t:        as many panels as L2 holds
#       for j_r: for i_r: blocks over k      →       for i_r:      a strip of rows comes in
#         C[i, j] += A[i, k] * B[k, j]                 for j_r: blocks over k
#
# Blocks take the whole reduction at once, so its length decides how many rows or lanes stay. With
# stationary lanes, each strip of rows comes in once per block of lanes, and strips are contiguous
# in memory, as hardware prefetchers want. Panels that have to be packed are packed where they stay,
# into one buffer; packed before everything else, they would go out to L3 and come in again.


STAYS = 0.5  # of L2, for the stationary operand; the rest is for what passes
MADE = 3  # transfers of a panel that is packed before everything else: out, and in again


def stationary_extent(planner: Planner, p: Product) -> int:
    """How many rows, or lanes, of the whole reduction of ``p`` stay in L2; 0 where ``p`` does not
    run on a matrix unit, or its reduction is blocked or of unknown length."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    sizes = extents(s)
    if p.instruction is None or p.instruction.unit is None or sizes is None or p.outer:
        return 0
    if p.statement in planner.row_tiles or not in_one_part(scop, s, p.stream, machine):
        return 0
    each = max(scop.tensor(r.tensor).dtype.itemsize for r in s.reads)
    return max(1, int(STAYS * machine.l2 / (each * prod(sizes[d] for d in p.stream))))


def lane_operand_stationary(planner: Planner, p: Product) -> bool:
    """Whether less comes from beyond L2 with stationary lanes than with stationary rows, or with
    both, and threads may share out the lanes."""
    scop, s, stay = planner.scop, planner.scop.statement(p.statement), stationary_extent(planner, p)
    sizes = extents(s)
    if not stay or sizes is None:
        return False
    rows, lanes = prod(sizes[d] for d in p.rows), sizes[p.lanes]
    down, across = (
        sum(compact_bytes(scop, r, sizes) for r in s.reads if moves(r, p.lanes) == along)
        for along in (False, True)
    )
    if down + across <= TOGETHER * planner.machine.l2 or (planner.threads > 1 and lanes < rows):
        return False
    constant = all(scop.tensor(s.reads[n].tensor).role == "constant" for n in p.needs_packing)
    again = ceil(rows / stay) + (0 if constant or rows <= stay else MADE)
    return across + down * ceil(lanes / stay) <= down + across * again


# ---- The order of the two loops over register tiles: ir inside jr, or jr inside ir.
#
#     for j_r: for i_r: registers over k     →     for i_r: for j_r: registers over k
#       C[i, j] += A[i, k] * B[k, j]
#
# If L1 holds the micro-panel of B for all steps, ir goes inside (Goto and van de Geijn, 2008).
# A micro-panel several vectors wide does not fit. B then comes from L2 in any order, and with jr
# inside, A comes from L2 once for all lanes of a cache tile, not once for each register tile.


# times L1: a micro-panel of B as large as this has evicted the rows before they are read again
GONE = 1.5


def jr_inside_ir(
    planner: Planner,
    p: Product,
    lanes: tuple[int, int],
    copied: Collection[int],
    *,
    whole: bool,
) -> bool:
    """Whether jr, the loop over ``lanes``, goes inside ir: the lanes of a cache tile (second
    number) fit into L2, but those of a register tile (first number) not into L1. The rows need no
    check: in a register tile they are fewer than its lanes. ``copied``: numbers of the reads that
    come packed; ``whole``: the reduction is not blocked."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    if p.window or len(p.stream) != 1:
        return False
    for number, read in enumerate(s.reads):
        down = moves(read, *p.rows)
        in_place = number not in copied and not planner.prepared(s, number)
        if down and in_place and not mentions(read.indices[-1], p.stream):
            return False  # each step brings in a line
    part = kc_of(machine)
    steps = hull_extent(s, p.stream[0]) or part
    steps = steps if whole else min(steps, part)
    size = max((scop.tensor(r.tensor).dtype.itemsize for r in s.reads), default=0)
    register, cache = (steps * n * size for n in lanes)
    return register >= GONE * machine.caches[0].size and cache <= SHARE * machine.l2


# ---- Products with few rows (matrix-vector products): an operand is read once, in rows.
#
#                                                 parallel j_t:           sums that stay in L1
#     for k: for j: y[j] += x[k] * B[k, j]   →      for k_t:              a few steps
#                                                     for j_r: registers
#
# No other rows of y reuse B, so holding it in registers gains nothing: what counts is bandwidth. A
# few rows of B are read side by side from end to end, on several pages at a time, as hardware
# prefetchers follow. A register tile over all steps would go down a column, a page for each step;
# one step after the other would take the sums through L1 each time.
#
# Constants that L2 does not hold are packed into such rows, if they are laid out otherwise.


HELD = 0.5  # of L1, for the sums of a strip


def read_once(planner: Planner, p: Product, tile: Tile) -> bool:
    """Whether ``p`` is bound by memory: only one register ``tile`` uses what is read along the
    lanes, its steps are rows of memory apart, and its arrival takes longer than the arithmetic."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    if len(p.stream) != 1 or (hull_extent(s, p.stream[0]) or TAPS + 1) <= TAPS:
        return False
    rows = [hull_extent(s, d) for d in p.rows]
    if any(n is None or n > size for n, size in zip(rows, tile[0], strict=True)):
        return False
    if p.rows and not _bound_by_memory(planner.machine, prod(tile[0])):
        return False
    lying = (n not in p.needs_packing and _in_rows(scop, r, p) for n, r in enumerate(s.reads))
    return any(lying) or bool(streamed_weights(planner, p, tile[1]))


def streamed_weights(planner: Planner, p: Product, lanes: int) -> dict[int, int]:
    """The constants of a product of one row that the L2 caches of all threads do not hold, by
    number of the read: they, too, are read fastest as rows of memory. For each, the length of a row
    in elements, whole register tiles and whole lines; 0 where the rows lie so already."""
    s, sizes = planner.scop.statement(p.statement), extents(planner.scop.statement(p.statement))
    found: dict[int, int] = {}
    for number, read in enumerate(s.reads):
        tensor = planner.scop.tensor(read.tensor)
        moved = [d for d in (p.lanes, *p.stream) if moves(read, d)]
        if sizes is None or tensor.role != "constant" or len(moved) < 2 or p.rows or p.instruction:
            continue
        if compact_bytes(planner.scop, read, sizes) > planner.machine.l2 * planner.threads:
            line = planner.machine.line // tensor.dtype.itemsize
            size = tensor.shape[-1]
            whole = isinstance(size, Literal) and int(size.value) % line == 0
            lies = whole and mentions(read.indices[-1], (p.lanes,)) and not strided(read, p.lanes)
            part = -(-lanes // line) * line
            found[number] = 0 if lies else -(-sizes[p.lanes] // part) * part
    return found


def _bound_by_memory(machine: Machine, rows: int) -> bool:
    """Whether a vector of an operand takes longer to arrive from L3 than ``rows`` take to use
    one."""
    each = 1 / machine.fma_per_cycle + machine.moves.through / machine.prefetchers.streams
    return rows * each <= machine.vector_bytes / machine.caches[-1].bandwidth


def _in_rows(scop: Scop, read: Access, p: Product) -> bool:
    """Whether ``read`` moves along rows of memory with lanes, and across them with the stream."""
    across = any(mentions(i, p.stream) for i in read.indices[:-1])
    along = across and not mentions(read.indices[-1], p.stream)
    moves = along and mentions(read.indices[-1], (p.lanes,)) and not strided(read, p.lanes)
    return moves and scop.tensor(read.tensor).role != "constant"


def strip_width(planner: Planner, p: Product, tile: Tile) -> int:
    """How many lanes have their sums in L1, in whole register tiles."""
    rows, lanes = tile
    (target,) = planner.scop.statement(p.statement).writes
    each = prod(rows) * lanes * planner.scop.tensor(target.tensor).dtype.itemsize
    return lanes * max(1, int(planner.machine.caches[0].size * HELD) // each)


def _in_pages(planner: Planner, s: Statement, lane: str) -> bool:
    """Whether several rows of ``lane`` lie in a page."""
    size = planner.scop.tensor(s.writes[0].tensor).dtype.itemsize
    page = planner.machine.page
    return (hull_extent(s, lane) or page) * size < page


def _shared(planner: Planner, group: Group, s: Statement) -> bool:
    """Whether the loops around have iterations for all threads, each with sums of its own."""
    folds = s.update.dims if s.update else ()
    around = [at[s.name] for at in group.above]
    turns = [found[1] for found in (known_range(s, at) for at in around) if found is not None]
    apart = len(turns) == len(around) and not any(mentions(at, folds) for at in around)
    return apart and prod(turns) >= planner.threads


def find_matrix_vector(planner: Planner, group: Group) -> Product | None:
    """How the only statement of ``group`` is a sum over rows of memory that nothing else reads."""
    (name,) = group.names
    s, free = planner.scop.statement(name), planner.free(group, name)
    dims = sum_dims(s, free)
    if dims is None or not planner.spreads(group):
        return None
    (moving, stream), (target,) = dims, s.writes
    if target.tensor in {r.tensor for r in s.reads}:
        return None
    lanes = planner.lanes(s, free)
    if lanes is None or lanes.dim not in moving or strided(target, lanes.dim):
        return None
    vector = planner.machine.lanes(planner.scop.tensor(target.tensor).dtype)
    tile = (), min(WINDOW * vector, hull_extent(s, lanes.dim) or WINDOW * vector)
    rest = tuple(d for d in moving if d != lanes.dim)
    if group.above and _in_pages(planner, s, lanes.dim) and _shared(planner, group, s):
        return None
    p = Product(name, (), lanes.dim, stream, rest, (), tile=tile, window=True)
    return p if read_once(planner, p, tile) else None
