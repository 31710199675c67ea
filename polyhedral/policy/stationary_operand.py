"""Rows or lanes of a matrix unit's blocks that stay in the second cache while all others go by.

    for i_t: for j_t:                            for j_t:        as many panels as stay there
      for j_r: for i_r: blocks over k      →       for i_r:      a strip of rows comes in
        C[i, j] += A[i, k] * B[k, j]                 for j_r: blocks over k

Blocks take all steps at once, so that how many rows and lanes stay is decided by how many steps
there are. Lanes that stay bring rows in once for so many of them: strips of these lie one after the
other, as processors foresee. Panels that have to be made are made where they stay, all in the same
memory; before everything else, they would go out to the last cache and come in once more.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, prod

from weft.polyhedral.analysis.linear import known_extent, mentions, moves
from weft.polyhedral.policy.cache_tiles import TOGETHER, kc_of
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import SHARE, in_one_part
from weft.polyhedral.policy.weight_stationary import compact_bytes

STAYS = 0.5  # of the second cache; the rest is for what goes by
MADE = 3  # times that a panel which is made before everything else goes out and comes in


def stationary_extent(planner: Planner, p: Product) -> int:
    """How many rows, or lanes, of all steps of ``p`` stay; 0 where ``p`` is not in blocks of a
    unit, or its steps do not run at once or are not known."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    sizes = extents(s)
    if p.instruction is None or p.instruction.unit is None or sizes is None or p.outer:
        return 0
    if p.statement in planner.row_tiles or not in_one_part(scop, s, p.stream, machine):
        return 0
    each = max(scop.tensor(r.tensor).dtype.itemsize for r in s.reads)
    return max(1, int(STAYS * machine.l2 / (each * prod(sizes[d] for d in p.stream))))


def lane_operand_stationary(planner: Planner, p: Product) -> bool:
    """Whether less comes from beyond the second cache if lanes stay there than if rows do, or both,
    and threads may share lanes out."""
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


# ---- Rows of a product that stay in the first cache while the lanes of a cache tile go by.
#
#     for j_r: for i_r: registers over k     →     for i_r: for j_r: registers over k
#       C[i, j] += A[i, k] * B[k, j]
#
# Where the lanes of one register tile, over all steps, stay in the first cache, all rows go by
# for each of these, as in Goto and van de Geijn (2008). Register tiles of several vectors bring
# in more than that cache holds. Their lanes come from the second one in any order, so that for a
# few rows all of a cache tile go by: rows come from there once for these, rather than once for
# each register tile.


GONE = 1.5  # times the first cache: what is as large is no longer there when rows come again


def ir_jr_order(
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
        down = moves(read, *p.rows)
        in_place = number not in copied and not planner.prepared(s, number)
        if down and in_place and not mentions(read.indices[-1], p.stream):
            return False  # each step brings in a line
    part = kc_of(machine)
    steps = known_extent(s, p.stream[0]) or part
    steps = steps if whole else min(steps, part)
    size = max((scop.tensor(r.tensor).dtype.itemsize for r in s.reads), default=0)
    register, cache = (steps * n * size for n in lanes)
    return register >= GONE * machine.caches[0].size and cache <= SHARE * machine.l2
