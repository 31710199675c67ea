"""A stationary operand: rows or lanes of a matrix unit's blocks that stay in L2 while the others
pass.

    for i_t: for j_t:                            for j_t:        as many panels as L2 holds
      for j_r: for i_r: blocks over k      →       for i_r:      a strip of rows comes in
        C[i, j] += A[i, k] * B[k, j]                 for j_r: blocks over k

Blocks take the whole reduction at once, so its length decides how many rows or lanes stay. With
stationary lanes, each strip of rows comes in once per block of lanes, and strips are contiguous in
memory, as hardware prefetchers want. Panels that have to be packed are packed where they stay, into
one buffer; packed before everything else, they would go out to L3 and come in again.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, prod

from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.cache_tiles import TOGETHER, kc_of
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import SHARE, compact_bytes, in_one_part

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
