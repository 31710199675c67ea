"""Packing operands of a product: when it pays, and whether once or for each cache tile.

    for j_t: for k_t:                         for j_t: for k_t:
                                          →     for n: for k: for l < 48: P[n, k, l] = B[k, …]
      for j_r: for i_r: … B[k, j] …             for j_r: for i_r: … P[j_r, k, l] …

In place, the steps of the reduction are rows of memory apart. Rows on more pages than the TLB holds
are looked up again by every register tile, and a vector that straddles two cache lines is two
accesses. A panel is contiguous in the order of reading, on few pages, and is packed once for all
rows of a cache tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod
from types import MappingProxyType

from weft.ir.machine import Machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal
from weft.ir.schedule_tree import MarkedTile, Tree, marked_tiles
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import hull_extent, linear, mentions, moves
from weft.polyhedral.policy.cache_tiles import (
    compact_bytes,
    footprint_bytes,
    in_one_part,
    l3_feeds_lanes,
)
from weft.polyhedral.policy.loop_orders import lane_operand_stationary, streamed_operand
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.product import Product, Tile, shape
from weft.polyhedral.policy.product_costs import extents, stride
from weft.polyhedral.transform.cache_read import copy_operand
from weft.polyhedral.transform.scheduled import Scheduled


def worth_packing(
    scop: Scop, p: Product, tile: Tile, width: int, machine: Machine
) -> tuple[int, ...]:
    """The reads of ``p``, by number, for which packing pays, in register tiles of shape ``tile``
    where ``width`` lanes share a packed panel; none where sizes are unknown."""
    s = scop.statement(p.statement)
    rows, lanes = tile
    sizes = [hull_extent(s, d) or 1 for d in p.rows]
    down = prod(ceil(n / size) for n, size in zip(sizes, rows, strict=True))
    found = []
    for number, read in enumerate(s.reads):
        if number in p.needs_packing or not steps_over_rows(scop, p, read):
            continue
        size = scop.tensor(read.tensor).dtype.itemsize
        if moves(read, p.lanes):
            again, vectors = down - 1, ceil(lanes * size / machine.vector_bytes)
            across = machine.accesses.split * vectors
        else:
            again, vectors = ceil(width / lanes) - 1, ceil(rows[-1] * size / machine.vector_bytes)
            across = 0.0
        copy = vectors * (1 / machine.loads_per_cycle + 1)
        if again * placement_cycles(scop, s, read, p, machine, across) > copy:
            found.append(number)
    return tuple(found)


def steps_over_rows(scop: Scop, p: Product, read: Access) -> bool:
    """Whether ``read`` is an A or a B whose steps along the reduction are rows of memory apart: it
    moves along the lanes or one dim of rows, and the reduction does not move its last index."""
    if p.window or len(p.stream) != 1 or scop.tensor(read.tensor).role == "constant":
        return False
    moving = [sum(mentions(i, (d,)) for i in read.indices) for d in (p.lanes, *p.rows, *p.stream)]
    inside, stream = moving[:-1], moving[-1]
    return sum(inside) == stream == 1 and not mentions(read.indices[-1], p.stream)


def placement_cycles(
    scop: Scop,
    s: Statement,
    read: Access,
    p: Product,
    machine: Machine,
    across: float,
    *,
    page: float | None = None,
) -> float:
    """Cycles of one step of a register tile that are due to where the elements of ``read`` lie;
    ``across``: what vectors on two lines add; ``page``: what a miss of the first TLB adds, if
    not the usual."""
    steps, apart = hull_extent(s, p.stream[0]), stride(scop.tensor(read.tensor), read, p.stream[0])
    if steps is None or apart == 1:
        return 0.0
    pages, costs = steps * min(apart, machine.page) / machine.page, machine.accesses
    found = across if apart % machine.line else 0.0
    if pages > costs.far_pages:
        return found + costs.far_page
    return found + ((page or costs.page) if pages > costs.pages else 0.0)


# ---- Strided packing: operands whose elements lie a stride apart are copied without the gaps.
#
#     for i: for j: for k:                      for k: for i: T[k, i] = A[k, 2*i]
#       C[i, j] += A[k, 2*i] * B[k, j]    →     for i: for j: for k:
#                                                 C[i, j] += T[k, i] * B[k, j]
#
# Where the lane operand is streamed (``streamed_operand``), the rows are read again for each of its
# panels, and a cache line of which half is used still takes a whole line of space and bandwidth.
# The copy is made once, of contiguous lines. Done where the panels are so many that the bytes saved
# outweigh those of the copy, and L3 is slow: with a fast one, copies took up to 1.15 times as long.


# times the bytes of a copy move: its lines are read for ownership, written, and read again
WRITTEN = 3


def strided_packing(planner: Planner, p: Product) -> Scheduled:
    """The program with contiguous copies of the strided operands of ``p`` for which they pay."""
    now = planner.now
    if (
        p.tile is None
        or l3_feeds_lanes(planner.machine)
        or streamed_operand(planner, p, p.tile) is None
    ):
        return now
    for number, read in enumerate(now.scop.statement(p.statement).reads):
        s = now.scop.statement(p.statement)
        if _pays(now.scop, s, read, p, planner.machine.line):
            now = copy_operand(now, s.name, number, _dims(s, read), "dense")
    return now


def _pays(scop: Scop, s: Statement, read: Access, p: Product, line: int) -> bool:
    sizes, tensor = extents(s), scop.tensor(read.tensor)
    if sizes is None or p.tile is None or tensor.role != "input" or not _has_gaps(s, read):
        return False
    dims = _dims(s, read)
    if p.lanes in dims:
        return False
    dense = prod(sizes[d] for d in dims) * tensor.dtype.itemsize
    touched = footprint_bytes(scop, read, {d: sizes[d] for d in dims}, line)
    panels = ceil(sizes[p.lanes] / p.tile[1])
    return panels * dense + WRITTEN * dense + touched < panels * touched


def _dims(s: Statement, read: Access) -> tuple[str, ...]:
    """The dims along which ``read`` moves, as its indices have them."""
    return tuple(dict.fromkeys(d for i in read.indices for d in s.dims if mentions(i, (d,))))


def _has_gaps(s: Statement, read: Access) -> bool:
    """Whether ``read`` skips elements along its last index, and reads none twice."""
    if read.may or read.guard or not read.indices:
        return False
    moving = [[d for d in s.dims if mentions(i, (d,))] for i in read.indices]
    every = [d for dims in moving for d in dims]
    if len(every) != len({*every}) or any(len(dims) > 1 for dims in moving):
        return False
    form = linear(read.indices[-1], s.dims)
    return form is not None and any(abs(c) > 1 for c in form.coefficients.values())


# ---- Aligned copies: inputs that register tiles load again and again, copied to a line's start.
#
#     for i_r: for j_r:                            every tile of rows loads each vector of B:
#       for k: for 8 rows i: for 48 lanes j        two lines instead of one, where B does not
#         C[i, j] += A[i, k] * B[k, j]             begin at a cache line (large NumPy arrays)
#
# Callers may put arguments anywhere. If the rows of one are whole lines, aligning its first element
# aligns all of its vectors: the argument is copied, as it lies, unless it is aligned already
# (``program.Aligned``). That costs less than one more load for each of its lines.


TRANSFERS = 4  # transfers of a line copied beyond L2: read, read for ownership, written, read again


def worth_aligning(scop: Scop, tree: Tree, machine: Machine) -> frozenset[str]:
    """The inputs of ``scop`` for which an aligned copy pays."""
    found = set[str]()
    for tile in marked_tiles(tree).values():
        statement = scop.statement(tile.statement)
        for read in statement.reads:
            if scop.tensor(read.tensor).role == "input":
                placement_cycles = _waits(scop, tile, read, machine)
                if placement_cycles > _copied(scop, tile, read, machine):
                    found.add(read.tensor)
    return frozenset(found)


def _waits(scop: Scop, tile: MarkedTile, read: Access, machine: Machine) -> float:
    """Extra cycles, over all tiles, for a vector of ``read`` on two lines: along the lanes or, on a
    matrix unit, the reduction. 0 where sizes are unknown, or it would not be aligned in an aligned
    copy."""
    statement, tensor = scop.statement(tile.statement), scop.tensor(read.tensor)
    sizes = extents(statement)
    inside, payload = [loop.at[tile.statement] for loop in tile.loops], tile.payload
    unit = payload.instruction is not None and payload.instruction.unit is not None
    along = [*inside[tile.streams - 1 : tile.streams], inside[-1]] if unit else inside[-1:]
    dims = [d for d in statement.dims if any(mentions(at, (d,)) for at in along)]
    if sizes is None or not any(_in_lines(tensor, read, d, machine.line) for d in dims):
        return 0.0
    beside = [d for d in statement.dims if not moves(read, d)]
    held = zip(inside[tile.streams :], (*payload.rows, payload.lanes), strict=True)
    at_once = prod(size for at, size in held if mentions(at, beside))
    tiles = {d: n for d, n in sizes.items() if any(mentions(at, (d,)) for at in inside)}
    near = compact_bytes(scop, read, tiles) <= machine.caches[0].size  # until the next rows
    costs = machine.accesses
    far = costs.block_split if unit else costs.split
    return prod(sizes[d] for d in beside) / at_once * (costs.near_split if near else far)


def far_copy(machine: Machine) -> float:
    """Cycles to copy a vector to and from L3."""
    return TRANSFERS * machine.vector_bytes / machine.caches[-1].bandwidth


def _copied(scop: Scop, tile: MarkedTile, read: Access, machine: Machine) -> float:
    """Cycles for each vector of ``read`` that is copied."""
    sizes = extents(scop.statement(tile.statement)) or {}
    near = compact_bytes(scop, read, sizes) <= machine.l2
    copy = machine.moves.copy
    return copy if near else max(copy, far_copy(machine))


def _in_lines(tensor: Tensor, read: Access, dim: str, line_bytes: int) -> bool:
    """Whether ``dim`` moves ``read`` along rows that are whole cache lines, from the start of
    one."""
    line = line_bytes // tensor.dtype.itemsize
    if not read.indices or read.may or any(mentions(i, (dim,)) for i in read.indices[:-1]):
        return False
    last, row = to_affine(read.indices[-1]), tensor.shape[-1]
    along = last is not None and last.terms == ((dim, 1),) and last.constant % line == 0
    return along and isinstance(row, Literal) and int(row.value) % line == 0


# ---- Pack once: operands of a product of many rows are packed before the whole of it.
#
#                                         for n: for k: for l < 64: P[n, k, l] = B[k, 64*n + l]
#     for i: for j: for k:          →     for i_t: for j_r: for i_r: registers
#       C[i, j] += A[i, k] * B[k, j]        C[i, j] += A[i, k] * P[j // 64, k, j % 64]
#
# From then on they are read like packed constants: each tile of rows reads them as one stream, the
# reduction needs no blocking, and sums begin in registers. Unpacked, each step would be on another
# page, and vectors would straddle cache lines. What each block of rows would pack part by part is
# better packed once, too. A streamed operand (``streamed_operand``) is not: its panels would go out
# to memory and come in once more.


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


# ---- Pack per tile: which operands are packed for each cache tile, and in which order.


NO_ROWS: Mapping[int, int] = MappingProxyType({})


def pack_per_tile(
    planner: Planner,
    p: Product,
    loop: str,
    tile: Tile,
    *,
    again: bool = False,
    in_rows: Mapping[int, int] = NO_ROWS,
) -> Iterator[Packing]:
    """The packings of ``p`` in register tiles of shape ``tile``: an operand that needs packing, or
    any with ``again``, is packed inside ``loop``, once per cache tile; constants once, before
    everything. ``in_rows``: numbers of the reads to keep as rows of memory, and the length to pad
    their rows to (0: they are as they should be)."""
    s = planner.scop.statement(p.statement)
    rows, lanes = tile
    for number, read in enumerate(s.reads):
        across, down = tensor_dims_along(read, (p.lanes,)), tensor_dims_along(read, p.rows)
        inner = interleaved(p, s, read)
        if len(across) + len(down) != 1 and (across or not down or not inner):
            continue
        role = planner.scop.tensor(read.tensor).role
        if p.window and role not in ("constant", "input"):
            continue  # their panels are made before everything else, when nothing is in these yet
        constant = role == "constant"
        if not constant and planner.prepared(s, number):
            continue
        dim = (*across, *down)[0]
        if number in in_rows:
            if in_rows[number]:
                yield Packing(p.statement, number, "", across[0], in_rows[number])
            continue
        maker = planner.operands.get(read.tensor, "")
        if across and maker:
            yield Packing(p.statement, number, loop, dim, lanes, maker)
            continue  # computed tile by tile, so that the next rows find it in L2
        spread = planner.row_tiles.get(p.statement) and role == "input" and across
        made = "" if constant or p.window or spread else loop
        if across and (constant or number in p.needs_packing or again):
            # Windows lie across panels: what slides is contiguous as it is.
            width = 1 if inner and _slides(s, read.indices[dim], p.lanes) else lanes
            yield Packing(p.statement, number, made, dim, width, inner=inner)
        elif down and p.instruction and (constant or number in p.needs_packing):
            yield Packing(p.statement, number, made, dim, 1, inner=inner)
        elif down and (constant or number in p.needs_packing):
            yield Packing(p.statement, number, made, dim, rows[-1])


def _slides(s: Statement, index: Expr, dim: str) -> bool:
    """Whether ``index`` moves with other dims besides ``dim``, as under a window."""
    return any(mentions(index, (d,)) for d in s.dims if d != dim)


def interleaved(p: Product, s: Statement, read: Access) -> tuple[tuple[int, int], ...]:
    """The innermost panels of ``read``: steps that one instruction takes, side by side. That is a
    word; or, for a row of a matrix unit's register, all its steps, if rows and steps have known
    numbers. (Otherwise no block transpose applies: the copy stores element by element, and LLVM
    takes minutes.)"""
    along = tensor_dims_along(read, p.stream[-1:])
    rows = (
        p.instruction is not None and p.instruction.unit and not tensor_dims_along(read, (p.lanes,))
    )
    known = rows and all(hull_extent(s, d) is not None for d in (*p.rows, p.stream[-1]))
    steps = p.instruction.depth if p.instruction and known else p.word
    return ((along[0], steps),) if p.word > 1 and len(along) == 1 else ()


def tensor_dims_along(access: Access, moving: Sequence[str]) -> list[int]:
    """The dimensions of the tensor in which ``access`` moves along any of ``moving``."""
    return [d for d, i in enumerate(access.indices) if mentions(i, moving)]
