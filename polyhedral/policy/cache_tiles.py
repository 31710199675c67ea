"""Sizes of the cache tiles of a product, and what stays in caches, from the record of the machine.

    C[i, j] += A[i, k] * B[k, j]      rows i, lanes j, reduction k

BLIS's kc, nc and mc: what Goto and van de Geijn ("Anatomy of high-performance matrix
multiplication", 2008) found by hand and Low et al. ("Analytical modeling is enough for
high-performance BLIS", 2016) by formulas, here for register tiles several vectors wide, whose lanes
come from L2:

* ``kc``: loading and storing the sums for each part of the reduction is to take little beside its
  arithmetic;
* ``nc``: reading the rows from L3 is to take little beside the arithmetic of a tile's lanes;
* ``mc``: the sums of a tile and the lanes of a part share L2 with what passes through it;
* where L3 is slow, or few rows would be left, the rows stay in L2, too, and are twice as many as
  the lanes, which are packed, so that little comes from beyond L2;
* ``mc_shared``: the same where other statements use the sums of a tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, isqrt, prod, sqrt

from weft.ir.dtypes import float32
from weft.ir.machine import MAX_VECTORS, Machine, register_tile
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.lanes import strided
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product_costs import stride

SELDOM = 128  # arithmetic takes this many times as long as loading and storing the sums
HIDDEN = 16  # the same of operands that arrive while others are computed with
SUMS = 0.5  # of L2, for the sums of a tile and the lanes of a part
TOGETHER = 0.75  # of L2, for sums, lanes and rows
IN_PLACE = 0.28  # of L2, for a square tile that is updated in place


@dataclass(frozen=True, slots=True)
class CacheTiles:
    """Numbers of elements, at least 1; see the top of the file. ``square``: the side of tiles that
    are updated in place. ``lanes``, ``rows``: where ``nc`` and ``mc`` come from, in words."""

    kc: int
    nc: int
    mc: int
    mc_shared: int
    square: int
    lanes: str = ""
    rows: str = ""


def cache_tiles(machine: Machine, itemsize: int) -> CacheTiles:
    """The sizes for operands and sums of ``itemsize`` bytes."""
    kc = kc_of(machine)
    last = machine.caches[-1]
    nc = HIDDEN * machine.vector_bytes * machine.fma_per_cycle / last.bandwidth
    mc = SUMS * machine.l2 / (nc * itemsize) - kc
    shared = mc / 2
    lanes = (
        f"reading rows takes a {HIDDEN}th of a tile's arithmetic: {HIDDEN} *"
        f" {machine.vector_bytes} bytes of a vector * {machine.fma_per_cycle} multiply-adds a cycle"
        f" / {last.bandwidth:g} bytes a cycle from the last cache = {nc:.4g}"
    )
    rows = (
        f"sums and lanes take {SUMS:g} of L2: {SUMS:g} * {machine.l2} bytes / ({nc:.4g} lanes *"
        f" {itemsize} bytes) - {kc} steps = {mc:.0f}"
    )
    if mc < nc or not l3_feeds_rows(machine, itemsize):
        # The root of kc * (mc + nc) + mc * nc = elements, where mc = 2 * nc.
        elements = TOGETHER * machine.l2 / itemsize
        slow = "it is too slow for rows" if mc >= nc else f"it would leave {max(mc, 0):.0f} rows"
        nc = (sqrt(9 * kc**2 + 8 * elements) - 3 * kc) / 4
        mc = shared = 2 * nc
        lanes = rows = (
            f"rows stay in L2, as from the last cache, {last.bandwidth:g} bytes a cycle, {slow}:"
            f" {kc} steps of {mc:.0f} rows and {nc:.0f} lanes, and their sums, take"
            f" {TOGETHER:g} * {machine.l2} bytes / {itemsize} = {elements:.0f} elements"
        )
    return CacheTiles(
        kc,
        max(1, int(nc)),
        max(1, int(mc)),
        max(1, int(shared)),
        max(1, isqrt(int(IN_PLACE * machine.l2 / itemsize))),
        lanes,
        rows,
    )


def l3_feeds_rows(machine: Machine, itemsize: int) -> bool:
    """Whether L3 delivers rows at twice the rate at which register tiles use them."""
    _, vectors = register_tile(machine, float32)
    return 2 * itemsize * machine.fma_per_cycle / vectors <= machine.caches[-1].bandwidth


def l3_feeds_lanes(machine: Machine) -> bool:
    """Whether L3 delivers lanes at the rate at which register tiles use them."""
    rows, _ = register_tile(machine, float32)
    return machine.vector_bytes * machine.fma_per_cycle / rows <= machine.caches[-1].bandwidth


def kc_of(machine: Machine) -> int:
    """Steps of a reduction in a part: each vector of sums is loaded and stored once per part,
    multiplied and added once per step."""
    return max(1, int(SELDOM * _moved(machine) * machine.fma_per_cycle))


def _moved(machine: Machine) -> float:
    """Cycles in which a vector is loaded and stored; one store in each."""
    return 1 / machine.loads_per_cycle + 1


def why_kc(machine: Machine) -> str:
    """Where ``kc_of`` comes from, in words."""
    return (
        f"loading and storing a vector of sums takes a {SELDOM}th of its arithmetic in a part:"
        f" {SELDOM} * {_moved(machine):g} cycles * {machine.fma_per_cycle} multiply-adds a cycle"
        f" = {kc_of(machine)}"
    )


def nearest(size: int, tile: int) -> int:
    """The multiple of ``tile`` nearest to ``size``, at least one."""
    return tile * max(1, round(size / tile))


# ---- Cache tiles of even numbers among threads.


AMPLE = 16  # iterations per thread of which one more does not matter


def sharers_of(planner: Planner, s: Statement, around: Sequence[str]) -> int:
    """How many threads have to share out what is inside parallel loops along the dims ``around`` of
    ``s``: 1 where these give each thread as many iterations as any other."""
    sizes = [hull_extent(s, dim) for dim in around]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return planner.threads
    found = prod(known)
    return 1 if found >= AMPLE * planner.threads else planner.threads // gcd(planner.threads, found)


def even(sharers: int, total: int | None, size: int, block: int) -> int:
    """Rows of a cache tile in whole register tiles of ``size`` rows: about ``block``, or fewer of a
    known ``total``, so that ``sharers`` threads have equal shares."""
    most = max(1, block // size)
    if total is None or sharers == 1:
        return size * most
    tiles = -(-total // size)
    parts = -(-tiles // most)
    parts = -(-parts // sharers) * sharers
    return size * max(1, -(-tiles // parts))


# ---- What of the operands is still in a cache when it is read again, and what to prefetch.


LEAST = 8  # lines of a row that are worth prefetching
SHARE = 0.7  # of L2, for the operands of a reduction


def in_one_part(
    scop: Scop,
    statement: Statement,
    stream: Sequence[str],
    machine: Machine,
    *,
    again: bool = True,
) -> bool:
    """Whether the reduction ``stream`` needs no blocking: its innermost dim is no longer than kc,
    or the lane operand of a tile stays in L2 until the next rows. Without ``again``, that operand
    is packed first, which is best done in small parts."""
    last, most = hull_extent(statement, stream[-1]), kc_of(machine)
    if last is not None and last <= most:
        return True
    sizes = [size for d in stream if (size := hull_extent(statement, d)) is not None]
    if len(sizes) < len(stream) or not again:
        return False
    lanes = MAX_VECTORS * machine.lanes(scop.tensor(statement.writes[0].tensor).dtype)
    size = max((scop.tensor(r.tensor).dtype.itemsize for r in statement.reads), default=0)
    return prod(sizes) * lanes * size <= machine.caches[1].size * SHARE


def rows_ahead(scop: Scop, statement: Statement, lane: str, stream: str, machine: Machine) -> int:
    """How many lines to prefetch of each row for a sum over a few long rows of memory: half of L1.
    0 where the caches hold the rows, or not as many lines whole pages apart."""
    size, near = hull_extent(statement, stream), machine.caches[:2][-1]
    held = machine.caches[0].size // 2 // machine.line
    if size is None or not 2 <= size <= held // LEAST:
        return 0
    for read in statement.reads:
        tensor = scop.tensor(read.tensor)
        along = any(mentions(i, (lane,)) for i in read.indices[-1:]) and not strided(read, lane)
        across = any(mentions(i, (stream,)) for i in read.indices[:-1]) if along else False
        sizes = [int(n.value) if isinstance(n, Literal) else 0 for n in tensor.shape]
        large = across and not read.may and prod(sizes) * tensor.dtype.itemsize > near.size
        if large and (size <= near.ways or stride(tensor, read, stream) % machine.page):
            return held
    return 0


def on_new_pages(
    scop: Scop, statement: Statement, lane: str, stream: Sequence[str], machine: Machine
) -> tuple[int, ...]:
    """The reads, by number, that move along ``lane`` and are on another page at each step of the
    reduction, where no hardware prefetcher follows. Constants are none: they can be packed."""
    found = []
    for number, read in enumerate(statement.reads):
        tensor = scop.tensor(read.tensor)
        across = moves(read, lane)
        known = not across or tensor.role == "constant"
        if not known and abs(stride(tensor, read, stream[-1])) >= machine.page:
            found.append(number)
    return tuple(found)


def compact_bytes(scop: Scop, read: Access, sizes: Mapping[str, int]) -> int:
    """Bytes of the distinct elements of ``read``, without gaps."""
    return scop.tensor(read.tensor).dtype.itemsize * prod(
        n for d, n in sizes.items() if moves(read, d)
    )


def footprint_bytes(scop: Scop, read: Access, sizes: Mapping[str, int], line: int) -> int:
    """Bytes of the cache lines, of ``line`` bytes, that ``read`` touches as the dims of ``sizes``
    run: in each row of memory the lines of its span, on average, or the whole row if the next one
    follows."""
    tensor = scop.tensor(read.tensor)
    total = apart = tensor.dtype.itemsize
    for number, index in reversed(list(enumerate(read.indices))):
        form, moving = to_affine(index), [d for d in sizes if mentions(index, (d,))]
        steps = {d: abs(form.coefficient(d)) if form else 1 for d in moving}
        span = sum(steps[d] * (sizes[d] - 1) for d in moving) + 1
        if number == len(read.indices) - 1:
            total = (span - 1) * apart + line
        elif moving:
            next_ = apart * min(steps.values())
            total = min(total, next_ or total) * min(span, prod(sizes[d] for d in moving))
        size = tensor.shape[number]
        apart *= int(size.value) if isinstance(size, Literal) else 0
    return total
