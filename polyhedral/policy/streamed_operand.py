"""A lane operand that L2 does not hold is streamed: each panel of it is read once, for all rows.

    for i_r: for j_r: registers over k        for k_t: for j_r: for i_r: registers over part k_t
      C[i, j] += A[i, k] * B[j, k]       →      prefetch a share of B[j_r + 1, k_t]
                                                C[i, j] += A[i, k] * B[j, k]

L3 may hand out B more slowly than register tiles consume it. Even a fast L3 does so for a B of many
megabytes, whose rows lie on different pages, where no hardware prefetcher follows. So the loops
over all rows go inside the loop over panels, and the reduction is blocked so that the rows' own
operand A stays in L2 for each part. While one panel is used, its tiles prefetch the next one
(``codegen/panel_prefetch``). If B comes in packed panels, one tile of rows is enough: hardware
prefetchers stop at the end of each page of a panel.

Tiles whose rows are contiguous in memory read the same cache lines of A at each step. With a slow
L3, parts are so short that those lines and a panel stay in L1 from tile to tile.

A B that is not packed can only be read in short parts, so that few of its lines fall into one set
of a cache. Where the rows are so many that B arrives in a small part of the time of their
arithmetic, each panel is packed instead: if the whole reduction can then run at once, and, in parts
as long as those of constants, if each step of B is on another page or its vectors straddle lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, gcd, inf, prod

from weft.ir.scop import Access
from weft.polyhedral.analysis.linear import mentions, moves
from weft.polyhedral.policy.cache_tiles import cache_tiles, kc_of, l3_feeds_lanes
from weft.polyhedral.policy.lanes import strided
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product, Tile
from weft.polyhedral.policy.product_costs import extents, stride
from weft.polyhedral.policy.reuse import SHARE, compact_bytes, footprint_bytes

# shares of L2: A of one part, C of a block of lanes, two panels of B
OPERANDS, SUMS, LANES = 0.4, 0.35, 0.25
WHOLE = 0.32  # of L2, for two panels over the whole reduction
DEEP = 4  # times L2: a B larger than this is streamed even if L3 feeds register tiles
BUSY = 6  # arithmetic that takes this many times as long as B's arrival hides it without prefetches
LONG = 4  # the same, of arithmetic that also hides packing a panel
LEAST = 32  # steps of the reduction in a part, at least
FIRST = 0.75  # of L1, for what tiles with contiguous rows read again
PARTS = 2  # times kc: beyond that many steps, bringing C in and out costs next to nothing
PAGES = 0.75  # of the first TLB, for a panel beside A and C


@dataclass(frozen=True, slots=True)
class StreamedOperand:
    """How a lane operand is streamed. ``inside``: outer dims whose loops go inside those over
    panels; ``cut``: the reduction dim that is blocked, ``steps`` at a time (0: not at all);
    ``width``: lanes whose sums stay in L2; ``copied``: numbers of the reads that are packed panel
    by panel."""

    inside: tuple[str, ...]
    cut: str
    steps: int
    width: int
    copied: tuple[int, ...] = ()


def streamed_operand(planner: Planner, p: Product, tile: Tile) -> StreamedOperand | None:
    """How to stream the lane operand of ``p``, in register tiles of shape ``tile``; None where that
    gains nothing."""
    s = planner.scop.statement(p.statement)
    sizes = extents(s)
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
                return found
    return None


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
        enough = width >= min(4 * lanes, sizes[p.lanes])
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
