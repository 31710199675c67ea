"""Sizes of cache tiles of a product, from the record of the machine.

    C[i, j] += A[i, k] * B[k, j]      rows i, lanes j, stream k

What Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008) found by
hand and Low et al. ("Analytical modeling is enough for high-performance BLIS", 2016) by formulas,
for register tiles as wide as several vectors, whose lanes come from the second cache:

* ``steps``: each part of the stream brings the sums into registers and back, which is to take
  little beside the part's arithmetic;
* ``width``: while a tile's lanes are used, rows come from beyond the second cache, which is to
  take little beside the arithmetic of those lanes;
* ``rows``: the sums of a tile and the lanes of a part share the second cache with what else goes
  through it;
* where the last cache is slow, or few rows would be left, rows stay in the second one as well, and
  are twice as many as the lanes, which are copied, so that little comes from beyond it;
* ``shared_rows``: the same where other statements use the sums of a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, isqrt, prod, sqrt

from weft.ir.dtypes import float32
from weft.ir.machine import Machine, register_tile
from weft.ir.scop import Statement
from weft.polyhedral.analysis.linear import known_extent
from weft.polyhedral.policy.planner import Planner

SELDOM = 128  # of the time of its arithmetic, what it may take to bring sums into registers
HIDDEN = 16  # the same of operands that arrive while others are computed with
SUMS = 0.5  # of the second cache, for the sums of a tile and the lanes of a part
TOGETHER = 0.75  # of the second cache, for sums, lanes and rows
IN_PLACE = 0.28  # of the second cache, for a square tile of what is updated in place


@dataclass(frozen=True, slots=True)
class CacheTiles:
    """Numbers of elements, at least 1: see above; ``square``: a side of tiles that are updated in
    place."""

    steps: int
    width: int
    rows: int
    shared_rows: int
    square: int


def cache_tiles(machine: Machine, itemsize: int) -> CacheTiles:
    """Sizes for operands and sums of ``itemsize`` bytes."""
    steps = kc_of(machine)
    last = machine.caches[-1]
    width = HIDDEN * machine.vector_bytes * machine.fma_per_cycle / last.bandwidth
    rows = SUMS * machine.l2 / (width * itemsize) - steps
    shared = rows / 2
    if rows < width or not l3_feeds_rows(machine, itemsize):
        # The root of steps * (rows + width) + rows * width = elements, where rows = 2 * width.
        elements = TOGETHER * machine.l2 / itemsize
        width = (sqrt(9 * steps**2 + 8 * elements) - 3 * steps) / 4
        rows = shared = 2 * width
    return CacheTiles(
        steps,
        max(1, int(width)),
        max(1, int(rows)),
        max(1, int(shared)),
        max(1, isqrt(int(IN_PLACE * machine.l2 / itemsize))),
    )


def l3_feeds_rows(machine: Machine, itemsize: int) -> bool:
    """Whether the last cache hands out rows at twice the rate at which register tiles use them."""
    _, vectors = register_tile(machine, float32)
    return 2 * itemsize * machine.fma_per_cycle / vectors <= machine.caches[-1].bandwidth


def l3_feeds_lanes(machine: Machine) -> bool:
    """Whether the last cache hands out lanes at the rate at which register tiles use them."""
    rows, _ = register_tile(machine, float32)
    return machine.vector_bytes * machine.fma_per_cycle / rows <= machine.caches[-1].bandwidth


def kc_of(machine: Machine) -> int:
    """Steps of a stream that run at once, where it is cut: a vector of sums is loaded and stored
    once for each part of it, and multiplied and added once for each step."""
    moved = 1 / machine.loads_per_cycle + 1  # cycles; one store in each
    return max(1, int(SELDOM * moved * machine.fma_per_cycle))


def nearest(size: int, tile: int) -> int:
    """The multiple of ``tile`` nearest to ``size``, at least one."""
    return tile * max(1, round(size / tile))


# ---- Tiles for the caches that come out even among threads.


AMPLE = 16  # iterations for each thread, one more of which is nothing


def sharers_of(planner: Planner, s: Statement, around: Sequence[str]) -> int:
    """How many threads have to share out what is inside of parallel loops along the dims
    ``around`` of ``s``: 1 where each thread has as many iterations of these as any other."""
    sizes = [known_extent(s, dim) for dim in around]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return planner.threads
    found = prod(known)
    return 1 if found >= AMPLE * planner.threads else planner.threads // gcd(planner.threads, found)


def even(sharers: int, total: int | None, size: int, block: int) -> int:
    """Rows of a cache tile, in whole register tiles of ``size`` rows: about ``block``, or less of a
    known ``total``, so that ``sharers`` threads have equal shares of it."""
    most = max(1, block // size)
    if total is None or sharers == 1:
        return size * most
    tiles = -(-total // size)
    parts = -(-tiles // most)
    parts = -(-parts // sharers) * sharers
    return size * max(1, -(-tiles // parts))
