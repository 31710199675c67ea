"""The cheapest register tile for a sum of elementwise products: lanes along a dim that operands
have in common.

    Y[i, j, g] += X[i, k, g] * W[k, j, g]       rows i and j, lanes g, stream k

Each lane sums up something of its own, as in batches and groups that lie innermost. What is loaded
are vectors, each for all rows that do not move it; nothing is broadcast or turned around. Closed
forms as in ``product_costs``, which say when this beats an outer product of copied operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import ceil, prod

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.lanes import jumps
from weft.polyhedral.policy.product_costs import BROADCAST, EDGE, LOAD, STEP, Choice, extents
from weft.polyhedral.scop import Access, Scop, Statement

MAX_ROWS = 16


def vertical(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Choice | None:
    """The best tile of rows among the dims ``free``, of two at most; None where no two operands lie
    along the lanes as the sums do, or a size is not known."""
    update, sizes = statement.update, extents(statement)
    if update is None or sizes is None or len(statement.writes) != 1:
        return None
    (target,) = statement.writes
    if target.guard or any(a.may for a in (target, *statement.reads)):
        return None
    moving = [d for d in free if _moves(target, d)]
    stream = [d for d in free if d not in moving]
    if not stream or not set(stream) <= set(update.dims):
        return None
    vector = machine.lanes(scop.tensor(target.tensor).dtype)
    free_sizes = {d: sizes[d] for d in free}
    found: list[Choice] = []
    for lane in moving:
        along = [a for a in (*statement.reads, target) if _moves(a, lane)]
        if len(along) > 2 and not any(jumps(a, lane) for a in along):
            tiles = _tiles(statement, moving, lane, free_sizes, machine, vector)
            found += (_costed(statement, t, stream, free_sizes, machine, vector) for t in tiles)
    return min(found, key=lambda c: c.cycles, default=None)


def _moves(access: Access, dim: str) -> bool:
    return any(mentions(i, (dim,)) for i in access.indices)


def _tiles(
    s: Statement,
    moving: Sequence[str],
    lane: str,
    sizes: dict[str, int],
    machine: Machine,
    vector: int,
) -> Iterator[Choice]:
    """Tiles whose sums leave registers for one row of operands and one more: of rows along which
    some operand stays the same."""
    reads = [r for r in s.reads if _moves(r, lane)]
    again = [d for d in moving if d != lane and any(not _moves(r, d) for r in reads)]
    lanes = (lane, min(vector, sizes[lane]))
    for count in (1, 2):
        for rows in combinations(again, count):
            first = range(1, min(MAX_ROWS, sizes[rows[0]]) + 1) if count == 2 else (1,)
            for outer in first:
                most = (machine.vector_registers - 1) // (outer + 1)
                for inner in range(1, min(most, MAX_ROWS, sizes[rows[-1]]) + 1):
                    yield Choice({rows[0]: outer} | {rows[-1]: inner}, lanes, 0.0)


def _costed(
    s: Statement,
    tile: Choice,
    stream: Sequence[str],
    sizes: dict[str, int],
    machine: Machine,
    vector: int,
) -> Choice:
    """``tile`` with the cycles of all of ``s``, within the loops around it."""
    lane, _ = tile.lanes
    sums = prod(tile.rows.values())
    loads = sum(
        (1.0 if _moves(r, lane) else BROADCAST)
        * prod(size for d, size in tile.rows.items() if _moves(r, d))
        for r in s.reads
    )
    arithmetic = sums * max(1.0, operations(s) - 1.0) / machine.fma_per_cycle
    step = max(arithmetic, loads / machine.loads_per_cycle, machine.fma_latency)
    step += STEP + LOAD * loads
    cycles = step * prod(sizes[d] for d in stream) + EDGE * sums
    cycles *= prod(ceil(sizes[d] / size) for d, size in (*tile.rows.items(), tile.lanes))
    inside = {*stream, *tile.rows, lane}
    return replace(tile, cycles=cycles * prod(n for d, n in sizes.items() if d not in inside))
