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
* where the last cache is slow, rows stay in the second one as well, and are twice as many as the
  lanes, which are copied, so that little comes from beyond it;
* ``shared_rows``: the same where other statements use the sums of a tile;
* copied operands have their shares of what a core has of the last cache. Where that is slow, rows
  and one panel of lanes stay in the second one, in parts of so many steps that least comes from
  beyond it: lanes once for each tile of rows, sums twice for each part.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, sqrt

from weft.dtypes import float32
from weft.polyhedral.machine import Machine, register_tile

SELDOM = 128  # of the time of its arithmetic, what it may take to bring sums into registers
HIDDEN = 16  # the same of operands that arrive while others are computed with
SUMS = 0.5  # of the second cache, for the sums of a tile and the lanes of a part
COPIED_ROWS, COPIED_LANES = 0.35, 0.28  # of a core's part of the last cache
TOGETHER = 0.75  # of the second cache, for sums, lanes and rows
WIDER = 1.125  # times as many rows, rather than one more tile, for which all lanes are copied again
IN_PLACE = 0.28  # of the second cache, for a square tile of what is updated in place


@dataclass(frozen=True, slots=True)
class CacheTiles:
    """Numbers of elements, at least 1: see above; ``square``: a side of tiles that are updated in
    place."""

    steps: int
    width: int
    rows: int
    shared_rows: int
    copied_steps: int
    copied_rows: int
    copied_width: int
    square: int


def cache_tiles(machine: Machine, itemsize: int) -> CacheTiles:
    """Sizes for operands and sums of ``itemsize`` bytes."""
    steps = steps_at_once(machine)
    last = machine.caches[-1]
    width = HIDDEN * machine.vector_bytes * machine.fma_per_cycle / last.bandwidth
    rows = SUMS * machine.near / (width * itemsize) - steps
    shared = rows / 2
    if not rows_from_last(machine, itemsize):
        # The root of steps * (rows + width) + rows * width = elements, where rows = 2 * width.
        elements = TOGETHER * machine.near / itemsize
        width = (sqrt(9 * steps**2 + 8 * elements) - 3 * steps) / 4
        rows = shared = 2 * width
    copied, copied_steps = last.size / last.cores / (steps * itemsize), steps
    copied_rows, copied_width = COPIED_ROWS * copied, COPIED_LANES * copied
    if not lanes_from_last(machine):
        # The least of lanes / rows + 2 * sums / steps, where rows * steps = elements.
        elements = TOGETHER * machine.near / itemsize
        copied_steps = max(1, int(sqrt(2 * elements)))
        copied_width = register_tile(machine, float32)[1] * machine.vector_bytes / itemsize
        copied_rows = elements / copied_steps - 2 * copied_width
    return CacheTiles(
        steps,
        max(1, int(width)),
        max(1, int(rows)),
        max(1, int(shared)),
        copied_steps,
        max(1, int(copied_rows)),
        max(1, int(copied_width)),
        max(1, isqrt(int(IN_PLACE * machine.near / itemsize))),
    )


def rows_from_last(machine: Machine, itemsize: int) -> bool:
    """Whether the last cache hands out rows at twice the rate at which register tiles use them."""
    _, vectors = register_tile(machine, float32)
    return 2 * itemsize * machine.fma_per_cycle / vectors <= machine.caches[-1].bandwidth


def lanes_from_last(machine: Machine) -> bool:
    """Whether the last cache hands out lanes at the rate at which register tiles use them."""
    rows, _ = register_tile(machine, float32)
    return machine.vector_bytes * machine.fma_per_cycle / rows <= machine.caches[-1].bandwidth


def steps_at_once(machine: Machine) -> int:
    """Steps of a stream that run at once, where it is cut: a vector of sums is loaded and stored
    once for each part of it, and multiplied and added once for each step."""
    moved = 1 / machine.loads_per_cycle + 1  # cycles; one store in each
    return max(1, int(SELDOM * moved * machine.fma_per_cycle))


def copied_part(
    tiles: CacheTiles, steps: int | None, rows: int | None, size: int
) -> tuple[int, int]:
    """How many of ``steps`` and ``rows`` go together, rows in tiles of ``size``, where both parts
    stay near: parts of about the same size, with more rows the fewer steps there are."""
    part = _equal(steps, tiles.copied_steps) if steps else tiles.copied_steps
    most = tiles.copied_rows * tiles.copied_steps // part
    if rows:
        most = size * _equal(-(-rows // size), max(1, int(WIDER * most) // size))
    return part, most


def _equal(total: int, most: int) -> int:
    """The size of as few equal parts of ``total`` as have at most ``most`` each."""
    return -(-total // -(-total // most))


def nearest(size: int, tile: int) -> int:
    """The multiple of ``tile`` nearest to ``size``, at least one."""
    return tile * max(1, round(size / tile))
