"""The cheapest register tile for a sum over a window whose sizes are known: closed forms.

    y[h, i, l] += x[h + r, i + s, l] * w[r, s, l]        rows i, lanes l, window r, s

Rows of a tile that is written out share what their windows have in common: n rows under k taps
load n + k - 1 vectors of x instead of n·k, and those of w once. A tile takes as long as its
multiply-adds, its loads, or the chain through one of its sums, whichever is longest; one that is
cut off takes as long as a whole one, and goes through memory. Lanes along what the window slides
over (channels first) have rows that share a part of it only: a gain where rows are whole in the
tile, and strips of an image, which is not read in order then, are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from weft.frontend.scalar_affine import to_affine
from weft.frontend.scalar_expr import Expr
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.tile_domain import WRITTEN_OUT
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.product_costs import BROADCAST, LOAD, extents
from weft.polyhedral.scop import Access, Scop, Statement

MAX_VECTORS = 4
SHIFTED = 2.0  # times a load whose vectors cross lines
ENDS = 2.0  # cycles for each accumulator before and after the sums
CUT = 2.0  # times as long as a whole tile does one take that is cut off


@dataclass(frozen=True, slots=True)
class WindowTile:
    """``rows`` of the dim ``row``, '' for one row, times ``lanes``."""

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
    """The best tile of ``statement`` with vectors along ``lane`` and rows along one of ``outer``,
    which sums up over ``stream``; None where a size is not known."""
    sizes = extents(statement)
    if sizes is None:
        return None
    vector = machine.lanes(scop.tensor(statement.writes[0].tensor).dtype)
    across = [r for r in statement.reads if _moves(r, lane)]
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
    """Whether rows along ``row`` use vectors of ``across`` again: the same ones or, where a row is
    ``whole`` in a tile so that memory is still read in order, those that their windows share."""
    if any(not _moves(read, row) for read in across):
        return True
    along = [i for read in across for i in read.indices if mentions(i, (row,))]
    return whole and all(mentions(i, stream) for i in along)


def _moves(read: Access, dim: str) -> bool:
    return any(mentions(i, (dim,)) for i in read.indices)


def _cycles(
    statement: Statement,
    sizes: Mapping[str, int],
    lane: str,
    stream: Sequence[str],
    tile: tuple[str, int, int],
    vector: int,
    machine: Machine,
) -> float:
    """Of all of ``statement`` in tiles of a row dim, rows, and vectors."""
    row, rows, vectors = tile
    steps = prod(sizes[d] for d in stream)
    inside = {d: sizes[d] for d in stream} | ({row: rows} if row else {})
    shared = rows * vectors * vector * steps <= WRITTEN_OUT
    loads = 0.0
    for read in statement.reads:
        number = _distinct(read, inside) if shared else _all(read, inside)
        if not any(mentions(i, (lane,)) for i in read.indices):
            loads += BROADCAST * number
        else:
            slides = mentions(read.indices[-1], (lane,)) and mentions(read.indices[-1], stream)
            loads += vectors * number * (SHIFTED if slides else 1.0)
    accumulators = rows * vectors
    arithmetic = accumulators * steps / machine.fma_per_cycle
    chain = machine.fma_latency * steps
    whole = max(arithmetic, loads / machine.loads_per_cycle, chain)
    whole += LOAD * loads + ENDS * accumulators
    across = ceil(sizes[lane] / (vectors * vector))
    down, left = divmod(sizes[row], rows) if row else (1, 0)
    others = prod(n for d, n in sizes.items() if d not in (*stream, row, lane))
    return whole * (down + CUT * (left > 0)) * across * others


def _distinct(read: Access, inside: Mapping[str, int]) -> int:
    """Elements that ``read`` loads as the dims ``inside`` run, each once."""
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
