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
* copied operands have their shares of what a core has of the last cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from weft.polyhedral.machine import Machine

SELDOM = 128  # of the time of its arithmetic, what it may take to bring sums into registers
HIDDEN = 16  # the same of operands that arrive while others are computed with
SUMS = 0.5  # of the second cache, for the sums of a tile and the lanes of a part
COPIED_ROWS, COPIED_LANES = 0.35, 0.28  # of a core's part of the last cache
IN_PLACE = 0.28  # of the second cache, for a square tile of what is updated in place


@dataclass(frozen=True, slots=True)
class CacheTiles:
    """Numbers of elements, at least 1: see above; ``square``: a side of tiles that are updated in
    place."""

    steps: int
    width: int
    rows: int
    copied_rows: int
    copied_width: int
    square: int


def cache_tiles(machine: Machine, itemsize: int) -> CacheTiles:
    """Sizes for operands and sums of ``itemsize`` bytes."""
    steps = steps_at_once(machine)
    last = machine.caches[-1]
    width = HIDDEN * machine.vector_bytes * machine.fma_per_cycle / last.bandwidth
    rows = SUMS * machine.near / (width * itemsize) - steps
    copied = last.size / last.cores / (steps * itemsize)
    return CacheTiles(
        steps,
        max(1, int(width)),
        max(1, int(rows)),
        max(1, int(COPIED_ROWS * copied)),
        max(1, int(COPIED_LANES * copied)),
        max(1, isqrt(int(IN_PLACE * machine.near / itemsize))),
    )


def steps_at_once(machine: Machine) -> int:
    """Steps of a stream that run at once, where it is cut: a vector of sums is loaded and stored
    once for each part of it, and multiplied and added once for each step."""
    moved = 1 / machine.loads_per_cycle + 1  # cycles; one store in each
    return max(1, int(SELDOM * moved * machine.fma_per_cycle))


def nearest(size: int, tile: int) -> int:
    """The multiple of ``tile`` nearest to ``size``, at least one."""
    return tile * max(1, round(size / tile))
