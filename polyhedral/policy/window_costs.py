"""The cheapest register tile for a sum over a window of known sizes: an analytical model.

    y[h, i, l] += x[h + r, i + s, l] * w[r, s, l]        rows i, lanes l, taps r, s

Unrolled rows of a tile share what their windows overlap in: n rows under k taps load n + k - 1
vectors of x instead of n·k, and each tap once. A tile takes as long as its multiply-adds, its loads
or the latency of one of its sums, whichever is longest; an edge tile as long as a whole one, and
through memory. If the window slides along the lanes (channels first), rows share only a part of it:
a gain if the tile has whole rows; strips of an image, which are not read in order, gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, prod

from weft.ir.machine import Machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import mentions, moves
from weft.polyhedral.analysis.tile_domain import WRITTEN_OUT
from weft.polyhedral.cost.operation_counts import computing, operation_counts
from weft.polyhedral.policy.lanes import strided, sum_dims
from weft.polyhedral.policy.product_costs import MAX_ROWS, MAX_VECTORS, Choice, extents

CUT = 2.0  # times the cycles of a whole tile, for one at the edge


@dataclass(frozen=True, slots=True)
class WindowTile:
    """A tile of ``lanes`` times ``rows`` of the dim ``row`` ('': one row), and the cycles of all
    tiles."""

    row: str
    rows: int
    lanes: int
    cycles: float


def window_tile(
    scop: Scop,
    statement: Statement,
    lane: str,
    outer: Sequence[str],
    stream: Sequence[str],
    machine: Machine,
) -> WindowTile | None:
    """The best tile of ``statement``, vectors along ``lane``, rows along one of ``outer``, reduced
    over ``stream``; None where a size is not known."""
    sizes = extents(statement)
    if sizes is None:
        return None
    vector = machine.lanes(scop.tensor(statement.writes[0].tensor).dtype)
    across = [r for r in statement.reads if moves(r, lane)]
    found = (
        WindowTile(row, rows, min(vectors * vector, sizes[lane]), cycles)
        for row, rows, vectors in _tiles(sizes, lane, outer, vector, machine)
        if not row or _shared(across, row, stream, whole=vectors * vector >= sizes[lane])
        if (
            cycles := _cycles(statement, sizes, lane, stream, (row, rows, vectors), vector, machine)
        )
    )
    return min(found, key=lambda tile: tile.cycles, default=None)


def _tiles(
    sizes: Mapping[str, int], lane: str, outer: Sequence[str], vector: int, machine: Machine
) -> Iterator[tuple[str, int, int]]:
    free = machine.vector_registers - max(1, machine.vector_registers // 10)
    for vectors in range(1, min(MAX_VECTORS, ceil(sizes[lane] / vector)) + 1):
        yield "", 1, vectors
        for row in reversed(outer):  # of two that are alike, the nearer in memory
            for rows in range(2, min((free - vectors) // vectors, sizes[row]) + 1):
                yield row, rows, vectors


def _shared(across: Sequence[Access], row: str, stream: Sequence[str], *, whole: bool) -> bool:
    """Whether rows along ``row`` reuse vectors of ``across``: the same ones or, where the tile has
    whole rows, so that memory is still read in order, those that their windows share."""
    if any(not moves(read, row) for read in across):
        return True
    along = [i for read in across for i in read.indices if mentions(i, (row,))]
    return whole and all(mentions(i, stream) for i in along)


def _cycles(
    statement: Statement,
    sizes: Mapping[str, int],
    lane: str,
    stream: Sequence[str],
    tile: tuple[str, int, int],
    vector: int,
    machine: Machine,
) -> float:
    """Cycles of all of ``statement`` in tiles of (row dim, rows, vectors)."""
    row, rows, vectors = tile
    steps = prod(sizes[d] for d in stream)
    inside = {d: sizes[d] for d in stream} | ({row: rows} if row else {})
    shared = rows * vectors * vector * steps <= WRITTEN_OUT
    accesses, loads = machine.accesses, 0.0
    for read in statement.reads:
        number = _distinct(read, inside) if shared else _all(read, inside)
        if not moves(read, lane):
            loads += accesses.broadcast * number
        else:
            slides = mentions(read.indices[-1], (lane,)) and mentions(read.indices[-1], stream)
            loads += vectors * number * (accesses.shifted if slides else 1.0)
    accumulators = rows * vectors
    arithmetic = accumulators * steps / machine.fma_per_cycle
    chain = machine.fma_latency * steps
    whole = max(arithmetic, loads / machine.loads_per_cycle, chain)
    whole += accesses.delay * loads + machine.moves.window_sums * accumulators
    across = ceil(sizes[lane] / (vectors * vector))
    down, left = divmod(sizes[row], rows) if row else (1, 0)
    others = prod(n for d, n in sizes.items() if d not in (*stream, row, lane))
    return whole * (down + CUT * (left > 0)) * across * others


def _distinct(read: Access, inside: Mapping[str, int]) -> int:
    """Distinct elements that ``read`` touches as the dims ``inside`` run."""
    return prod(_span(index, inside) for index in read.indices)


def _span(index: Expr, inside: Mapping[str, int]) -> int:
    form = to_affine(index)
    if form is None:
        return _all_of([index], inside)
    moving = [(abs(form.coefficient(d)), n) for d, n in inside.items() if form.coefficient(d)]
    steps = sum(c * (n - 1) for c, n in moving) + 1
    return min(steps, prod(n for _, n in moving))


def _all(read: Access, inside: Mapping[str, int]) -> int:
    return _all_of(read.indices, inside)


def _all_of(indices: Sequence[Expr], inside: Mapping[str, int]) -> int:
    return prod(n for d, n in inside.items() if any(mentions(i, (d,)) for i in indices))


# ---- Vertical sums: the cheapest register tile where lanes run along a dim that operands share.
#
#     Y[i, j, g] += X[i, k, g] * W[k, j, g]       rows i and j, lanes g, reduction k
#
# Each lane has a sum of its own, as in batches and groups that are innermost. Only vectors are
# loaded, each once for all rows that do not move it; nothing is broadcast or transposed. The model
# of ``product_costs`` says when this beats an outer product of packed operands.


def vertical(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Choice | None:
    """The best tile of one or two dims of rows among ``free``; None where no two operands are
    contiguous along the lanes as the sums are, or a size is not known."""
    dims, sizes = sum_dims(statement, free), extents(statement)
    if dims is None or sizes is None:
        return None
    (moving, stream), (target,) = dims, statement.writes
    vector = machine.lanes(scop.tensor(target.tensor).dtype)
    free_sizes = {d: sizes[d] for d in free}
    found: list[Choice] = []
    for lane in moving:
        along = [a for a in (*statement.reads, target) if moves(a, lane)]
        if len(along) > 2 and not any(strided(a, lane) for a in along):
            tiles = _vertical_tiles(statement, moving, lane, free_sizes, machine, vector)
            found += (_costed(statement, t, stream, free_sizes, machine) for t in tiles)
    return min(found, key=lambda c: c.cycles, default=None)


def _vertical_tiles(
    s: Statement,
    moving: Sequence[str],
    lane: str,
    sizes: dict[str, int],
    machine: Machine,
    vector: int,
) -> Iterator[Choice]:
    """Tiles whose sums leave registers for one row of operands and one more, with rows along which
    some operand is reused."""
    reads = [r for r in s.reads if moves(r, lane)]
    again = [d for d in moving if d != lane and any(not moves(r, d) for r in reads)]
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
) -> Choice:
    """``tile`` with the cycles of all of ``s``."""
    lane, _ = tile.lanes
    sums = prod(tile.rows.values())
    loads = sum(
        (1.0 if moves(r, lane) else machine.accesses.broadcast)
        * prod(size for d, size in tile.rows.items() if moves(r, d))
        for r in s.reads
    )
    each = max(computing(operation_counts(s), machine), 1 / machine.fma_per_cycle)
    arithmetic = sums * each
    step = max(arithmetic, loads / machine.loads_per_cycle, machine.fma_latency)
    step += machine.loops.step + machine.accesses.delay * loads
    cycles = step * prod(sizes[d] for d in stream) + machine.moves.sums * sums
    cycles *= prod(ceil(sizes[d] / size) for d, size in (*tile.rows.items(), tile.lanes))
    inside = {*stream, *tile.rows, lane}
    return replace(tile, cycles=cycles * prod(n for d, n in sizes.items() if d not in inside))
