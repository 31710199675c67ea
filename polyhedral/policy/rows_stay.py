"""Rows of a product that stay in the first cache while the lanes of a cache tile go by.

    for j_r: for i_r: registers over k     →     for i_r: for j_r: registers over k
      C[i, j] += A[i, k] * B[k, j]

Where the lanes of one register tile, over all steps, stay in the first cache, all rows go by for
each of these, as in Goto and van de Geijn (2008). Register tiles of several vectors bring in more
than that cache holds. Their lanes come from the second one in any order, so that for a few rows all
of a cache tile go by: rows come from there once for these, rather than once for each register tile.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.policy.cache_tiles import steps_at_once
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.reuse import SHARE
from weft.polyhedral.policy.sizes import size_of

GONE = 1.5  # times the first cache: what is as large is no longer there when rows come again


def rows_stay(
    planner: Planner,
    p: Product,
    lanes: tuple[int, int],
    copied: Collection[int],
    *,
    whole: bool,
) -> bool:
    """Whether all ``lanes`` of a cache tile (the second number) go by for a few rows of ``p``: they
    stay in the second cache, but those of a register tile (the first number) not in the first. That
    the rows do is not asked for: of a register tile they are a fraction of its lanes. ``copied``:
    the reads, by number, that come from panels; ``whole``: all of the stream at once."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    if p.window or len(p.stream) != 1:
        return False
    for number, read in enumerate(s.reads):
        down = any(mentions(index, p.rows) for index in read.indices)
        in_place = number not in copied and not planner.prepared(s, number)
        if down and in_place and not mentions(read.indices[-1], p.stream):
            return False  # each step brings in a line
    part = steps_at_once(machine)
    steps = size_of(s, p.stream[0]) or part
    steps = steps if whole else min(steps, part)
    size = max((scop.tensor(r.tensor).dtype.itemsize for r in s.reads), default=0)
    register, cache = (steps * n * size for n in lanes)
    return register >= GONE * machine.caches[0].size and cache <= SHARE * machine.near
