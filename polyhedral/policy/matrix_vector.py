"""Products with few rows (matrix-vector products): an operand that is read once, in memory order.

                                                parallel j_t:           sums that stay in L1
    for k: for j: y[j] += x[k] * B[k, j]   →      for k_t:              a few steps
                                                    for j_r: registers

No other rows of y reuse B, so holding it in registers gains nothing: what counts is bandwidth. A
few rows of B are read side by side from end to end, on several pages at a time, as hardware
prefetchers follow. A register tile over all steps would go down a column, a page for each step; one
step after the other would take the sums through L1 each time.

Constants that L2 does not hold are packed into such rows, if they are laid out otherwise.
"""

from __future__ import annotations

from math import prod

from weft.ir.machine import Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.lanes import choose_lanes, known_range, strided
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product import TAPS, WINDOW, Product, Tile
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import compact_bytes

HELD = 0.5  # of L1, for the sums of a strip


def read_once(planner: Planner, p: Product, tile: Tile) -> bool:
    """Whether ``p`` is bound by memory: only one register ``tile`` uses what is read along the
    lanes, its steps are rows of memory apart, and its arrival takes longer than the arithmetic."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    if len(p.stream) != 1 or (hull_extent(s, p.stream[0]) or TAPS + 1) <= TAPS:
        return False
    rows = [hull_extent(s, d) for d in p.rows]
    if any(n is None or n > size for n, size in zip(rows, tile[0], strict=True)):
        return False
    if p.rows and not _bound_by_memory(planner.machine, prod(tile[0])):
        return False
    lying = (n not in p.needs_packing and _in_rows(scop, r, p) for n, r in enumerate(s.reads))
    return any(lying) or bool(streamed_weights(planner, p, tile[1]))


def streamed_weights(planner: Planner, p: Product, lanes: int) -> dict[int, int]:
    """The constants of a product of one row that the L2 caches of all threads do not hold, by
    number of the read: they, too, are read fastest as rows of memory. For each, the length of a row
    in elements, whole register tiles and whole lines; 0 where the rows lie so already."""
    s, sizes = planner.scop.statement(p.statement), extents(planner.scop.statement(p.statement))
    found: dict[int, int] = {}
    for number, read in enumerate(s.reads):
        tensor = planner.scop.tensor(read.tensor)
        moved = [d for d in (p.lanes, *p.stream) if moves(read, d)]
        if sizes is None or tensor.role != "constant" or len(moved) < 2 or p.rows or p.instruction:
            continue
        if compact_bytes(planner.scop, read, sizes) > planner.machine.l2 * planner.threads:
            line = planner.machine.line // tensor.dtype.itemsize
            size = tensor.shape[-1]
            whole = isinstance(size, Literal) and int(size.value) % line == 0
            lies = whole and mentions(read.indices[-1], (p.lanes,)) and not strided(read, p.lanes)
            part = -(-lanes // line) * line
            found[number] = 0 if lies else -(-sizes[p.lanes] // part) * part
    return found


def _bound_by_memory(machine: Machine, rows: int) -> bool:
    """Whether a vector of an operand takes longer to arrive from L3 than ``rows`` take to use
    one."""
    each = 1 / machine.fma_per_cycle + machine.moves.through / machine.prefetchers.streams
    return rows * each <= machine.vector_bytes / machine.caches[-1].bandwidth


def _in_rows(scop: Scop, read: Access, p: Product) -> bool:
    """Whether ``read`` moves along rows of memory with lanes, and across them with the stream."""
    across = any(mentions(i, p.stream) for i in read.indices[:-1])
    along = across and not mentions(read.indices[-1], p.stream)
    moves = along and mentions(read.indices[-1], (p.lanes,)) and not strided(read, p.lanes)
    return moves and scop.tensor(read.tensor).role != "constant"


def strip_width(planner: Planner, p: Product, tile: Tile) -> int:
    """How many lanes have their sums in L1, in whole register tiles."""
    rows, lanes = tile
    (target,) = planner.scop.statement(p.statement).writes
    each = prod(rows) * lanes * planner.scop.tensor(target.tensor).dtype.itemsize
    return lanes * max(1, int(planner.machine.caches[0].size * HELD) // each)


def _in_pages(planner: Planner, s: Statement, lane: str) -> bool:
    """Whether several rows of ``lane`` lie in a page."""
    size = planner.scop.tensor(s.writes[0].tensor).dtype.itemsize
    page = planner.machine.page
    return (hull_extent(s, lane) or page) * size < page


def _shared(planner: Planner, group: Group, s: Statement) -> bool:
    """Whether the loops around have iterations for all threads, each with sums of its own."""
    folds = s.update.dims if s.update else ()
    around = [at[s.name] for at in group.above]
    turns = [found[1] for found in (known_range(s, at) for at in around) if found is not None]
    apart = len(turns) == len(around) and not any(mentions(at, folds) for at in around)
    return apart and prod(turns) >= planner.threads


def find_matrix_vector(planner: Planner, group: Group) -> Product | None:
    """How the only statement of ``group`` is a sum over rows of memory that nothing else reads."""
    (name,) = group.names
    s, free = planner.scop.statement(name), planner.free(group, name)
    if s.update is None or len(s.writes) != 1 or not planner.spreads(group):
        return None
    (target,) = s.writes
    every = (target, *s.reads)
    if target.guard or any(a.may for a in every) or target.tensor in {r.tensor for r in s.reads}:
        return None
    lanes = choose_lanes(planner.scop, s, free, planner.machine)
    moving = [d for d in free if moves(target, d)]
    if lanes is None or lanes.dim not in moving or strided(target, lanes.dim):
        return None
    stream, outer = (tuple(d for d in free if (d in moving) == m) for m in (False, True))
    if not set(stream) <= set(s.update.dims):
        return None
    vector = planner.machine.lanes(planner.scop.tensor(target.tensor).dtype)
    tile = (), min(WINDOW * vector, hull_extent(s, lanes.dim) or WINDOW * vector)
    rest = tuple(d for d in outer if d != lanes.dim)
    if group.above and _in_pages(planner, s, lanes.dim) and _shared(planner, group, s):
        return None
    p = Product(name, (), lanes.dim, stream, rest, (), tile=tile, window=True)
    return p if read_once(planner, p, tile) else None
