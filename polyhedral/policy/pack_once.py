"""Operands of a product of many rows come from panels that are made once, before all of it.

                                        for n: for k: for l < 64: P[n, k, l] = B[k, 64*n + l]
    for i: for j: for k:          →     for i_t: for j_r: for i_r: registers
      C[i, j] += A[i, k] * B[k, j]        C[i, j] += A[i, k] * P[j // 64, k, j % 64]

From then on they are what constants are: each tile of rows reads them as one stream, all steps run
at once, and sums begin in registers. In rows of memory, steps would be on other pages, and vectors
on two lines. What blocks of rows would copy part by part is better copied once, too; what comes in
part by part for all rows (``streamed_operand``) is not: it would go out and come in once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

from weft.ir.machine import Machine
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import known_extent, mentions
from weft.polyhedral.policy.operand_panels import (
    ACROSS,
    placement_cycles,
    steps_over_rows,
    worth_packing,
)
from weft.polyhedral.policy.pack_per_tile import interleaved
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.product import Product, shape
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import in_one_part
from weft.polyhedral.policy.stationary_operand import lane_operand_stationary
from weft.polyhedral.policy.streamed_operand import streamed_operand
from weft.polyhedral.policy.weight_stationary import compact_bytes

NEAR = 8.0  # cycles for a vector that is copied: more than it takes, since it may lie well already
TRANSFERS = 4  # of a line from and to a cache further away: read, taken over, written, read again
ALONE = 4.0  # cycles of a step on one of many pages, where only a line of it is read

Tile = tuple[tuple[int, ...], int]  # rows and lanes


def pack_once(planner: Planner, p: Product, *, many: bool) -> Iterator[Packing]:
    """The panels of ``p``, which has ``many`` rows, or few: then of what lies badly in a cache that
    is near, alone."""
    s, tile = planner.scop.statement(p.statement), shape(planner, p)
    # Else they are copied where they come in, or stay.
    near = streamed_operand(planner, p, tile) is None and not lane_operand_stationary(planner, p)
    long = many and not in_one_part(planner.scop, s, p.stream, planner.machine)
    width = known_extent(s, p.lanes) or tile[1]
    parts = worth_packing(planner.scop, p, tile, width, planner.machine) if many else ()
    for number, read in enumerate(s.reads):
        across, down = _along(s, number, (p.lanes,)), _along(s, number, p.rows)
        if planner.scop.tensor(read.tensor).role == "constant" or len(across) + len(down) != 1:
            continue
        maker, inner = planner.operands.get(read.tensor, ""), interleaved(p, s, read)
        jumps = many and number in p.needs_packing
        wanted = jumps or number in parts or _lies_badly(planner, p, number, tile, many=many)
        if across and near and (long or wanted):
            yield Packing(p.statement, number, "", across[0], tile[1], maker, inner)
        elif down and wanted:
            size = 1 if p.instruction else tile[0][-1]
            yield Packing(p.statement, number, "", down[0], size, maker, inner)


def _along(s: Statement, number: int, moving: Sequence[str]) -> list[int]:
    return [d for d, index in enumerate(s.reads[number].indices) if mentions(index, moving)]


def _lies_badly(planner: Planner, p: Product, number: int, tile: Tile, *, many: bool) -> bool:
    """Whether to read that operand where it lies takes longer than to copy it; where sizes are not
    known, of many rows it does if each step is in another row of memory."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    read, sizes = s.reads[number], extents(s)
    if number in p.needs_packing or not steps_over_rows(scop, p, read):
        return False
    if sizes is None:
        return many
    tensor = scop.tensor(read.tensor)
    if _along(s, number, (p.lanes,)):
        again = prod(ceil(sizes[d] / n) for d, n in zip(p.rows, tile[0], strict=True)) - 1
        vectors = tile[1] * tensor.dtype.itemsize / machine.vector_bytes
        across = ACROSS * ceil(vectors)
        cycles = placement_cycles(scop, s, read, p, machine, across)
    else:
        again = ceil(sizes[p.lanes] / tile[1]) - 1
        vectors = tile[0][-1] * tensor.dtype.itemsize / machine.vector_bytes
        cycles = placement_cycles(scop, s, read, p, machine, 0.0, page=ALONE)
        cycles += _line_of_a_step(machine, p, sizes[p.stream[0]], tile, tensor.dtype.itemsize)
    return again * cycles > vectors * _moved(scop, s, machine)


def _line_of_a_step(machine: Machine, p: Product, steps: int, tile: Tile, size: int) -> float:
    """Cycles for the line that each step brings into the first cache for a few elements of ``size``
    bytes: where all lines of a register tile stay there, the next rows find theirs."""
    line, lanes = machine.caches[0].line, tile[1] * size
    stays = steps * (line + lanes) <= machine.caches[0].size
    if stays or p.instruction is not None or tile[0][-1] * size >= line:
        return 0.0
    return line / machine.caches[:2][-1].bandwidth


def _moved(scop: Scop, s: Statement, machine: Machine) -> float:
    """Cycles for a vector that is copied before everything else, and read again by the time that
    something else may have taken its place."""
    sizes = extents(s) or {}
    held = sum(compact_bytes(scop, a, sizes) for a in (*s.writes, *s.reads, *s.reads))
    far = TRANSFERS * machine.vector_bytes / machine.caches[-1].bandwidth
    return NEAR if held <= machine.l2 else max(NEAR, far)
