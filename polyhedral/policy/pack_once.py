"""Pack once: operands of a product of many rows are packed before the whole of it.

                                        for n: for k: for l < 64: P[n, k, l] = B[k, 64*n + l]
    for i: for j: for k:          →     for i_t: for j_r: for i_r: registers
      C[i, j] += A[i, k] * B[k, j]        C[i, j] += A[i, k] * P[j // 64, k, j % 64]

From then on they are read like packed constants: each tile of rows reads them as one stream, the
reduction needs no blocking, and sums begin in registers. Unpacked, each step would be on another
page, and vectors would straddle cache lines. What each block of rows would pack part by part is
better packed once, too. A streamed operand (``streamed_operand``) is not: its panels would go out
to memory and come in once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from weft.ir.machine import Machine
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, moves
from weft.polyhedral.policy.operand_panels import (
    far_copy,
    placement_cycles,
    steps_over_rows,
    worth_packing,
)
from weft.polyhedral.policy.pack_per_tile import interleaved, tensor_dims_along
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.product import Product, Tile, shape
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import compact_bytes, in_one_part
from weft.polyhedral.policy.stationary_operand import lane_operand_stationary
from weft.polyhedral.policy.streamed_operand import streamed_operand


def pack_once(planner: Planner, p: Product, *, many: bool) -> Iterator[Packing]:
    """The packings of ``p``, which has ``many`` rows, or few: then only operands that L2 holds and
    that are badly placed."""
    s, tile = planner.scop.statement(p.statement), shape(planner, p)
    # A streamed or stationary operand is packed where it comes in, or stays.
    elsewhere = streamed_operand(planner, p, tile) or lane_operand_stationary(planner, p)
    long = many and not in_one_part(planner.scop, s, p.stream, planner.machine)
    width = hull_extent(s, p.lanes) or tile[1]
    parts = worth_packing(planner.scop, p, tile, width, planner.machine) if many else ()
    for number, read in enumerate(s.reads):
        across, down = tensor_dims_along(read, (p.lanes,)), tensor_dims_along(read, p.rows)
        if planner.scop.tensor(read.tensor).role == "constant" or len(across) + len(down) != 1:
            continue
        maker, inner = planner.operands.get(read.tensor, ""), interleaved(p, s, read)
        asked = many and number in p.needs_packing
        wanted = asked or number in parts or _badly_placed(planner, p, number, tile, many=many)
        if not (across and not elsewhere and (long or wanted)) and not (down and wanted):
            continue
        if not planner.accepts(f"{p.statement}.pack_once_{read.tensor}", "yes", "no"):
            continue
        if across:
            yield Packing(p.statement, number, "", across[0], tile[1], maker, inner)
        else:
            size = 1 if p.instruction else tile[0][-1]
            yield Packing(p.statement, number, "", down[0], size, maker, inner)


def _badly_placed(planner: Planner, p: Product, number: int, tile: Tile, *, many: bool) -> bool:
    """Whether reading that operand in place takes longer than packing it. Where sizes are not
    known, of many rows it does if each step is in another row of memory."""
    scop, s, machine = planner.scop, planner.scop.statement(p.statement), planner.machine
    read, sizes = s.reads[number], extents(s)
    if number in p.needs_packing or not steps_over_rows(scop, p, read):
        return False
    if sizes is None:
        return many
    tensor = scop.tensor(read.tensor)
    if moves(read, p.lanes):
        again = prod(ceil(sizes[d] / n) for d, n in zip(p.rows, tile[0], strict=True)) - 1
        vectors = tile[1] * tensor.dtype.itemsize / machine.vector_bytes
        across = machine.accesses.split * ceil(vectors)
        cycles = placement_cycles(scop, s, read, p, machine, across)
    else:
        again = ceil(sizes[p.lanes] / tile[1]) - 1
        vectors = tile[0][-1] * tensor.dtype.itemsize / machine.vector_bytes
        cycles = placement_cycles(scop, s, read, p, machine, 0.0, page=machine.accesses.lone_page)
        cycles += _line_of_a_step(machine, p, sizes[p.stream[0]], tile, tensor.dtype.itemsize)
    return again * cycles > vectors * _moved(scop, s, machine)


def _line_of_a_step(machine: Machine, p: Product, steps: int, tile: Tile, size: int) -> float:
    """Cycles per step to bring the line into L1 of which a register tile uses a few elements of
    ``size`` bytes; 0 if L1 keeps all of a tile's lines for the next rows."""
    line, lanes = machine.line, tile[1] * size
    stays = steps * (line + lanes) <= machine.caches[0].size
    if stays or p.instruction is not None or tile[0][-1] * size >= line:
        return 0.0
    return line / machine.caches[:2][-1].bandwidth


def _moved(scop: Scop, s: Statement, machine: Machine) -> float:
    """Cycles for a vector that is packed before everything else and read again once other data may
    have evicted it."""
    sizes = extents(s) or {}
    held = sum(compact_bytes(scop, a, sizes) for a in (*s.writes, *s.reads, *s.reads))
    place = machine.moves.place
    return place if held <= machine.l2 else max(place, far_copy(machine))
