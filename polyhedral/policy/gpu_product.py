"""Products by the warps of a GPU, by its tensor cores or as tiles of its threads: which statement,
which of its loops, tiles of which size.

    for n, i, j, k: C[n, i, j] += A[n, i, k] * B[n, k, j]      rows = i, lanes = j, stream = k
    →
    grid n, i // 128, j // 128:  a tile of 128 × 128 of the block's warps

What an instruction of the GPU can compute the mapper says (``map_instruction``), of loops that are
independent; nothing is asked of names. Further loops that move what the rows move become rows, too:
the pixels of a convolution. Of all tiles that fit into shared memory the cheapest is taken, of
equals one whose lanes are neighbours in the result:

    waves of blocks × steps × max(multiply-adds / rate, bytes that a step copies / rate of L2,
                                  bytes that lanes load into fragments / rate of shared memory)

with rates of one multiprocessor; a block runs alone on it, and fewer than a wave leave others idle.

An instruction that takes its factors in the type of its sums and rounds them (tf32) is left to
schedules by hand: nobody who wrote float32 asked for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from weft.ir.errors import BudgetError
from weft.ir.gpu import Gpu
from weft.ir.instruction import ROW, Instruction
from weft.ir.isl_context import derived
from weft.ir.scalar_expr import Load, walk
from weft.ir.schedule_tree import RegisterTile
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, moves, stride
from weft.polyhedral.map_instruction import Assignment, map_instruction

SIDES = (128, 64, 32)  # rows, or lanes, of a tile
PART, NARROW = 64, 32  # rows of a warp's part, and rows or lanes of a narrow one
LINE = 64  # bytes of a row that a step copies
STAGES = (4, 3, 2)
OPEN = 4096  # turns of a loop whose size is not known


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """``statement`` as a tile: ``sizes`` of the loops over its row dims, in order, and at last of
    that over its lane dim; ``streams``, the innermost last; its price in ``cycles``."""

    statement: str
    sizes: Mapping[str, int]
    streams: tuple[str, ...]
    payload: RegisterTile
    cycles: float

    @property
    def lane(self) -> str:
        """The dim along the lanes of the tile."""
        *_, lane = self.sizes
        return lane


def gpu_product(
    scop: Scop, statement: Statement, gpu: Gpu, free: Sequence[str], independent: Sequence[str]
) -> GpuProduct | None:
    """How warps of ``gpu`` compute ``statement``, of whose ``free`` dims some are loops that
    are ``independent``; None where they do not."""
    found: list[tuple[float, bool, int, GpuProduct]] = []
    for instruction in gpu.instructions:
        for assignment in _assignments(scop, statement, instruction, free):
            for made in _tiles(scop, statement, gpu, assignment, independent):
                (target,) = statement.writes
                jumps = stride(target.indices, scop.tensor(target.tensor).shape, made.lane) != 1
                found.append((made.cycles, jumps, len(found), made))
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
    streams = [d for d in update.dims if d in (*found.streams, *found.dims[own.summed[0]])]
    inner = found.dims[own.summed[0]]
    streams.sort(key=inner.__contains__)
    results = [d for d in statement.dims if d not in update.dims]
    if not {row, lane} <= {*independent} or not {*results} <= {*independent}:
        return
    rows = [d for d in results if d != lane and _moved(statement, d) == _moved(statement, row)]
    extents = {d: extent(statement, d) for d in statement.dims}
    many = prod(extents[d] for d in rows)
    if many < own.rows or extents[lane] < own.lanes or extents[inner[0]] < own.depth:
        return
    outside = prod(extents[d] for d in results if d not in (*rows, lane))
    size = scop.tensor(statement.reads[0].tensor).dtype.itemsize
    depth = LINE // size
    steps = prod(extents[d] for d in streams if d not in inner) * ceil(extents[inner[0]] / depth)
    for down in SIDES:
        sizes = _split(rows, extents, down)
        for across in SIDES:
            copied = (down + across) * depth * size
            held = copied + (down + across) * _gap(own)
            stages = next((s for s in STAGES if s * held <= gpu.shared_memory), None)
            if stages is None:
                continue
            blocks = outside * prod(ceil(extents[d] / sizes[d]) for d in rows)
            blocks *= ceil(extents[lane] / across)
            rate = gpu.cache_rate / gpu.multiprocessors
            warps = (down // (PART if down > PART else NARROW), across // NARROW)
            loaded = loaded_elements(own, down * warps[1], across * warps[0]) * depth * size
            step = max(
                down * across * depth / own.per_cycle, copied / rate, loaded / gpu.shared_rate
            )
            price = ceil(blocks / gpu.multiprocessors) * steps * step
            payload = RegisterTile(
                tuple(sizes.values()), across, own, warps=warps, depth=depth, stages=stages
            )
            every = {**sizes, lane: across}
            yield GpuProduct(statement.name, every, tuple(streams), payload, price)


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
