"""Lanes from beyond the second cache, for all rows: part by part, each asked for meanwhile.

    for x_r: for j_r: registers over k        for k_t: for j_r: for x_r: registers over a part of k
      s[x, j] += a[x, k] * w[j, k]       →      ask for a share of w[j_r + 1, k_t]
                                                s[x, j] += a[x, k] * w[j, k]

A slow last cache hands lanes out more slowly than register tiles use them, and a fast one those of
many megabytes, whose rows lie on other pages than processors foresee. So all rows go inside,
with a part of the stream for which their own operand stays in the second cache, and the lanes come
in once, while those of the panel before are used (``codegen/panel_prefetch.py``). Rows may be those of
one tile, if its lanes come in panels: what processors foresee of these ends with each page.

Tiles whose rows lie side by side read the same lines of memory, step by step. With a slow last
cache, parts are so short that these lines and a panel stay in the first one from tile to tile.

Those that lie in rows of memory can only be read so in short parts, with few lines in each set of
the caches. Where rows are so many that lanes are there in a small part of the time in which these
use them, each panel is copied instead, if then all of the stream can run at once; and, in parts as
long as those of constants, if each step is on another page, or vectors are on two lines.
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
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import PAGE, extents, stride
from weft.polyhedral.policy.reuse import SHARE
from weft.polyhedral.policy.weight_stationary import compact_bytes, footprint_bytes

OPERANDS, SUMS, LANES = 0.4, 0.35, 0.25  # of the second cache
WHOLE = 0.32  # of it, for two panels that are not cut
DEEP = 4  # times the second cache: lanes that no fast last cache hands out as they are asked for
BUSY = 6  # times as long as lanes take to come in: arithmetic that hides that by itself
LONG = 4  # the same, of arithmetic beside which it takes little to copy them
LEAST = 32  # steps of a part
FIRST = 0.75  # of the first cache, for what parts read again where tiles share lines of memory
PARTS = 2  # times the steps after which it takes little to bring sums in and back
PAGES = 48  # of lanes that processors find at once, beside those of rows and sums


@dataclass(frozen=True, slots=True)
class StreamedOperand:
    """``inside``: the outer dims whose loops go inside those over panels; ``cut``: the stream that
    is cut into parts of so many ``steps``, none if 0; ``width``: lanes whose sums stay near;
    ``copied``: the numbers of the reads that are copied panel by panel."""

    inside: tuple[str, ...]
    cut: str
    steps: int
    width: int
    copied: tuple[int, ...] = ()


def streamed_operand(
    planner: Planner, p: Product, tile: tuple[tuple[int, ...], int]
) -> StreamedOperand | None:
    """How the lanes of ``p``, in register tiles of these rows and lanes, come in part by part; None
    where that gains nothing."""
    s = planner.scop.statement(p.statement)
    sizes = extents(s)
    if p.window or not p.rows or sizes is None:
        return None
    read = _far(planner, p, sizes)
    if p.instruction is not None or p.statement in planner.row_tiles or read is None:
        return None
    near = tuple(d for d in p.outer if not moves(read, d))
    least = 1 if planner.prepared(s, s.reads.index(read)) else 2
    tiles = prod(ceil(sizes[d] / n) for d, n in zip(p.rows, tile[0], strict=True))
    for first in range(len(near) + 1):
        inside = near[first:]
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
    """Whether lanes would have to be waited for with one of the loops less ``inside``, or these
    would not keep the other operands near, beside a panel of ``lanes``. Rows alone that are more
    than a tile for the caches are cut anyway."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    rows = (*p.rows, *inside[1:])
    number, item = prod(sizes[d] for d in rows), scop.tensor(read.tensor).dtype.itemsize
    if _busy(planner, number) <= BUSY:
        return True
    if not inside and number > cache_tiles(planner.machine, item).rows:
        return False
    within = {d: sizes[d] for d in (*rows, *p.stream)}
    held = sum(footprint_bytes(scop, r, within) for r in s.reads if r != read)
    held += lanes * prod(sizes[d] for d in p.stream) * item
    share = 1.0 if l3_feeds_lanes(planner.machine) else SHARE
    return held > share * planner.machine.l2


def _busy(planner: Planner, rows: int) -> float:
    """How many times as long as lanes take to come in ``rows`` take to use them."""
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
    """The longest parts for which the other operands stay in the second cache."""
    s, scop, near = planner.scop.statement(p.statement), planner.scop, planner.machine.l2
    cut = max(p.stream, key=lambda d: sizes[d])
    taps = prod(sizes[d] for d in p.stream if d != cut)
    item = scop.tensor(s.writes[0].tensor).dtype.itemsize
    all_rows = (*p.rows, *inside)
    within = {d: sizes[d] for d in (*all_rows, *p.stream)}
    whole = _copied(planner, p, read, prod(sizes[d] for d in all_rows))
    apart = stride(scop.tensor(read.tensor), read, cut)
    badly = apart >= PAGE or apart % planner.machine.caches[0].line
    copied = whole if badly else ()
    in_rows = not planner.prepared(s, s.reads.index(read))
    in_sets = _in_sets(planner, read, cut) if in_rows and not copied else inf
    most = min(PARTS * kc_of(planner.machine), in_sets)
    side_by_side = any(mentions(r.indices[-1], p.rows) for r in s.reads if r != read and r.indices)
    if side_by_side and not l3_feeds_lanes(planner.machine):
        first = planner.machine.caches[0]
        most = min(most, max(LEAST, int(FIRST * first.size) // (lanes * item + first.line)))
    width = int(SUMS * near) // (prod(sizes[d] for d in all_rows) * item)
    for parts in range(1, sizes[cut] + 1):
        steps = -(-sizes[cut] // parts)
        if steps * taps < LEAST:
            break
        each = sum(footprint_bytes(scop, r, within | {cut: steps}) for r in s.reads if r != read)
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
    """The number of ``read`` if it lies in rows of memory, and so many rows use it that it may as
    well be copied."""
    s = planner.scop.statement(p.statement)
    number = s.reads.index(read)
    along = mentions(read.indices[-1], p.stream)
    if planner.prepared(s, number) or along or _busy(planner, rows) < LONG:
        return ()
    return (number,)


def _in_sets(planner: Planner, read: Access, cut: str) -> float:
    """How many steps along ``cut`` take half of the ways of the sets of the second cache that the
    lanes fall into, as they lie rows of memory apart."""
    tensor, near = planner.scop.tensor(read.tensor), planner.machine.caches[:2][-1]
    apart = stride(tensor, read, cut)
    sets = near.size // near.line // near.ways
    pages = PAGES * PAGE / min(max(1, apart), PAGE)
    return min(pages, sets // gcd(max(1, apart // near.line), sets) * near.ways / 2)


def _far(planner: Planner, p: Product, sizes: Mapping[str, int]) -> Access | None:
    """The only read that moves along the lanes, if it is a constant or lies along them, and no
    near cache holds it; a fast last cache hands out a good deal more in time."""
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
