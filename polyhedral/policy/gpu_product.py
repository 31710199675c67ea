"""Products by the warps of a GPU, by its tensor cores or as tiles of its threads: which statement,
which of its loops, tiles of which size.

    for n, i, j, k: C[n, i, j] += A[n, i, k] * B[n, k, j]      rows = i, lanes = j, stream = k
    →
    grid n, i // 128, j // 128:  a tile of 128 × 128 of the block's warps

What an instruction of the GPU can compute the mapper says (``map_instruction``), of loops that are
independent; nothing is asked of names. Further loops that move what the rows move become rows, too:
the pixels of a convolution. Of all tiles that fit into shared memory the cheapest is taken
(``gpu_tile_costs``), of equals one whose lanes are neighbours in the result.

An instruction that takes its factors in the type of its sums and rounds them (tf32) is left to
schedules by hand: nobody who wrote float32 asked for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from weft.ir.errors import BudgetError
from weft.ir.gpu import Gpu
from weft.ir.instruction import ROW, Instruction
from weft.ir.isl_context import derived
from weft.ir.scalar_expr import Literal, Load, walk
from weft.ir.schedule_tree import RegisterTile
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import dims_moving, hull_extent, moves, stride
from weft.polyhedral.map_instruction import Assignment, map_instruction
from weft.polyhedral.policy.gpu_tile_costs import (
    TiledProduct,
    TilePrice,
    TileStep,
    resident,
    tile_price,
    wave,
)

SIDES = (128, 64, 32)  # rows, or lanes, of a tile
PART, NARROW = 64, 32  # rows of a warp's part, and rows or lanes of a narrow one
LINE = 64  # bytes of a row that a step copies
STAGES = (4, 3, 2)
OPEN = 4096  # turns of a loop whose size is not known


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """``statement`` as a tile: ``sizes`` of the loops over its row dims, in order, and at last of
    that over its lane dim; ``streams``, the innermost last."""

    statement: str
    sizes: Mapping[str, int]
    streams: tuple[str, ...]
    payload: RegisterTile
    price: TilePrice

    @property
    def lane(self) -> str:
        """The dim along the lanes of the tile."""
        *_, lane = self.sizes
        return lane


def gpu_product(
    scop: Scop, statement: Statement, gpu: Gpu, free: Sequence[str], independent: Sequence[str]
) -> GpuProduct | None:
    """How warps of ``gpu`` compute ``statement``, of whose ``free`` dims some are loops that
    are ``independent``; None where they do not. Asked again and again as loops are shared."""
    sources = scop, statement, gpu
    dims = (*free, "of which", *independent)
    return derived(lambda: _cheapest(*sources, free, independent), "product", dims, *sources)


def _cheapest(
    scop: Scop, statement: Statement, gpu: Gpu, free: Sequence[str], independent: Sequence[str]
) -> GpuProduct | None:
    found: list[tuple[TilePrice, bool, int, GpuProduct]] = []
    for instruction in gpu.instructions:
        for assignment in _assignments(scop, statement, instruction, free):
            for made in _tiles(scop, statement, gpu, assignment, independent):
                (target,) = statement.writes
                jumps = stride(target.indices, scop.tensor(target.tensor).shape, made.lane) != 1
                found.append((made.price, jumps, len(found), made))
    return min(found, key=lambda x: x[:3])[-1] if found else None


def _assignments(
    scop: Scop, statement: Statement, instruction: Instruction, free: Sequence[str]
) -> Sequence[Assignment]:
    """How ``instruction`` computes ``statement``: asked again and again as loops are shared."""
    sources = scop, statement, instruction
    return derived(lambda: tuple(_mapped(*sources, free)), "assignments", tuple(free), *sources)


def _mapped(
    scop: Scop, statement: Statement, instruction: Instruction, free: Sequence[str]
) -> Iterator[Assignment]:
    factors = [node.dtype for node in walk(instruction.value) if isinstance(node, Load)]
    if instruction.dtype in factors and instruction.rounds:
        return
    try:
        mapped = map_instruction(scop, statement, instruction, free, reasons=False)
    except BudgetError:
        return
    for found in mapped.assignments:
        if all(isinstance(value, Load) for value in found.operands.values()):
            yield found


def _tiles(
    scop: Scop, statement: Statement, gpu: Gpu, found: Assignment, independent: Sequence[str]
) -> Iterator[GpuProduct]:
    """The tiles of one assignment."""
    own, update = found.instruction, statement.update
    assert update is not None, "what was mapped is an update"
    (row,), (lane,) = found.dims[ROW], found.dims[own.across[0]]
    inner = found.dims[own.summed[0]]
    streams = [d for d in update.dims if d in (*found.streams, *inner)]
    streams.sort(key=inner.__contains__)
    results = [d for d in statement.dims if d not in update.dims]
    if not {row, lane} <= {*independent} or not {*results} <= {*independent}:
        return
    rows = [d for d in results if d != lane and _moved(statement, d) == _moved(statement, row)]
    work = _Work(scop, statement, gpu, own, rows, lane, streams)
    if work.many < own.rows or work.extents[lane] < own.lanes or work.depth < own.depth:
        return
    for down in SIDES:
        for across in SIDES:
            sizes = _split(rows, work.extents, down)
            tile = work.tile(sizes, across)
            if tile is not None:
                every = {**sizes, lane: across}
                price = tile_price(gpu, work.tiled(sizes, tile))
                yield GpuProduct(statement.name, every, tuple(streams), tile, price)


@dataclass(slots=True)
class _Work:
    """``statement`` by ``own``, over the dims ``rows``, ``lane`` and ``streams``, of which the
    innermost is the instruction's."""

    scop: Scop
    statement: Statement
    gpu: Gpu
    own: Instruction
    rows: Sequence[str]
    lane: str
    streams: Sequence[str]
    extents: Mapping[str, int] = field(init=False)
    size: int = field(init=False)  # bytes of an element that is multiplied
    outside: int = field(init=False)  # products, each of all rows, lanes and streams
    operands: tuple[int, int] = field(init=False)  # bytes of one product's, by rows and by lanes

    def __post_init__(self) -> None:
        self.extents = {d: extent(self.statement, d) for d in self.statement.dims}
        self.size = self.scop.tensor(self.statement.reads[0].tensor).dtype.itemsize
        inside = {*self.rows, self.lane, *self.streams}
        self.outside = prod(n for d, n in self.extents.items() if d not in inside)
        self.operands = self._bytes(self.rows[-1], inside), self._bytes(self.lane, inside)

    @property
    def many(self) -> int:
        """All rows."""
        return prod(self.extents[d] for d in self.rows)

    @property
    def depth(self) -> int:
        """Turns of the innermost stream."""
        return self.extents[self.streams[-1]]

    def tile(self, sizes: Mapping[str, int], across: int) -> RegisterTile | None:
        """Rows of ``sizes`` by lanes ``across``, in as many stages as fit into what a kernel may
        declare; None where two do not."""
        down = prod(sizes.values())
        warps = (down // (PART if down > PART else NARROW), across // NARROW)
        for stages in STAGES:
            if self._held(down, across, stages) <= self.gpu.shared_memory:
                rows, depth = tuple(sizes.values()), LINE // self.size
                return RegisterTile(rows, across, self.own, warps=warps, depth=depth, stages=stages)
        return None

    def _held(self, down: int, across: int, stages: int) -> int:
        """Bytes of shared memory."""
        return stages * (down + across) * (LINE + _gap(self.own))

    def tiled(self, sizes: Mapping[str, int], tile: RegisterTile) -> TiledProduct:
        """What is priced: blocks of ``tile``."""
        down, across = prod(tile.rows), tile.lanes
        blocks = prod(ceil(self.extents[d] / sizes[d]) for d in self.rows)
        columns = ceil(self.extents[self.lane] / across)
        turns = prod(self.extents[d] for d in self.streams[:-1])
        held = self._held(down, across, tile.stages)
        assert self.own.warp is not None, "a warp computes it"
        threads = prod(tile.warps) * self.own.warp.threads
        most = resident(self.gpu, held, threads, down * across)
        (target,) = self.statement.writes
        stored = min(down, self.many) * min(across, self.extents[self.lane])
        return TiledProduct(
            blocks,
            columns,
            self.outside,
            self._step(tile),
            turns * ceil(self.depth / tile.depth),
            tile.stages,
            stored * self.scop.tensor(target.tensor).dtype.itemsize,
            most,
            wave(most * self.gpu.multiprocessors, blocks, columns),
            ceil(self.operands[0] / blocks),
            ceil(self.operands[1] / columns),
        )

    def _step(self, tile: RegisterTile) -> TileStep:
        down, across, depth = prod(tile.rows), tile.lanes, tile.depth
        copied = (down + across) * depth
        (rows, lanes) = tile.warps
        loaded = loaded_elements(self.own, down * lanes, across * rows) * depth
        units = down * across * depth / self.own.per_cycle
        return TileStep(units, copied * self.size, (copied + loaded) * self.size)

    def _bytes(self, dim: str, inside: Collection[str]) -> int:
        """Of the operand that moves with ``dim``: of its tensor, for one product, or what the loops
        ``inside`` one touch where that is less, or the tensor's size is not known."""
        (read, *_) = (a for a in self.statement.reads if moves(a, dim))
        moving = dims_moving(read, self.statement.dims)
        touched = prod(self.extents[d] for d in moving if d in inside) * self.size
        shape = self.scop.tensor(read.tensor).shape
        whole = self.size
        for n in shape:
            if not isinstance(n, Literal):
                return touched
            whole *= int(n.value)
        return min(touched, ceil(whole / prod(self.extents[d] for d in moving if d not in inside)))


def extent(statement: Statement, dim: str) -> int:
    """Turns of a loop over ``dim``, or what is taken for them where they are not known."""
    return hull_extent(statement, dim) or OPEN


def _gap(own: Instruction) -> int:
    """Bytes between rows of operands that several threads have copies of."""
    assert own.warp is not None, "a warp computes it"
    return own.warp.line if any(own.operands[name].copies > 1 for name in own.tensors) else 0


def loaded_elements(own: Instruction, rows: int, lanes: int) -> int:
    """Elements that all lanes load for one step of so many ``rows`` and ``lanes`` of fragments."""
    left, right = (own.operands[name].copies for name in own.tensors)
    return rows * left + lanes * right


def _moved(statement: Statement, dim: str) -> frozenset[int]:
    """Which accesses ``dim`` moves, by number."""
    return frozenset(k for k, access in enumerate(statement.accesses) if moves(access, dim))


def _split(rows: Sequence[str], extents: Mapping[str, int], size: int) -> dict[str, int]:
    """``size`` rows over the dims ``rows``, in order: as many as there are of the last, and so
    on, in powers of 2."""
    sizes: dict[str, int] = {}
    for dim in reversed(rows):
        last = dim == rows[0]
        sizes[dim] = size if last else min(size, 1 << (extents[dim] - 1).bit_length())
        size //= sizes[dim]
    return {dim: sizes[dim] for dim in rows}
