"""Machines as data: what a scheduler needs to know of the processor it schedules for, and the
instructions that a point band may be mapped onto.

Records of real machines live in ``codegen/machines/`` and ``accel/machines/``.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.instruction import ACCUMULATOR, Instruction, Operand
from weft.ir.scalar_expr import Load, Var, literal
from weft.ir.scop import Access, Body, Statement, Update


@dataclass(frozen=True, slots=True)
class Cache:
    """One level: ``size`` and ``line`` in bytes, as one core sees it. ``bandwidth``: bytes per
    cycle to the level above (default: typical of L2 and L3); ``cores``: how many share it;
    ``ways``: its associativity. ``sequential_prefetcher``: hardware prefetchers serve a single
    sequential stream best without software prefetches. ``latency``: cycles until a line of it is
    there (default: between the 14 of an L2 and the 50 of an L3, Intel's optimization manual)."""

    size: int
    line: int = 64
    bandwidth: float = 24.0
    cores: int = 1
    ways: int = 8
    sequential_prefetcher: bool = False
    latency: float = 24.0


@dataclass(frozen=True, slots=True)
class Tlb:
    """A cache of ``entries`` translations of pages; any other one takes ``cycles``."""

    entries: int
    cycles: float


@dataclass(frozen=True, slots=True)
class Peaks:
    """What no program on one core exceeds: for lower bounds alone, never for an estimate.

    ``frequency``: Hz. Per cycle, in vector instructions: ``fma``, multiplications, with or without
    an addition; ``arithmetic``, of any kind; ``accesses``, loads or stores. ``bandwidths``: bytes
    per second out of L2, L3, …, memory, one way; (): not known, and then they bound nothing. The
    defaults are the greatest that were published: 6.2 GHz (Core i9-14900KS, Intel ARK), 4
    multiply-adds (Apple M1, Neoverse V2), 6 vector pipes (Cortex-X925), 3 loads and 2 stores
    (Golden Cove; Intel's optimization manual). Calibration replaces what it can measure.
    """

    frequency: float = 6.2e9
    fma: float = 4.0
    arithmetic: float = 6.0
    accesses: float = 5.0
    bandwidths: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU core with its caches, smallest first.

    ``vector_bytes`` and ``vector_registers`` describe the register file. ``fma_latency`` is in
    cycles; ``fma_per_cycle`` and ``loads_per_cycle`` count vector instructions. ``frequency`` is in
    cycles per second, ``memory_bandwidth`` in bytes per second for one core, ``barrier``, of all
    threads of a program, in seconds. The defaults are typical of servers: records are part of cache
    keys, so nothing is measured unasked. ``misses``: cache lines that a core can have in flight.

    What only ``polyhedral/cost`` reads: ``stores_per_cycle``, of vectors; ``issue``, instructions a
    cycle, of ``window`` that are in flight; ``mispredict``, cycles of a branch foreseen wrongly;
    ``memory_latency`` in seconds; ``shared_bandwidth``, ``memory_bandwidth`` of all cores together;
    ``wake``, until threads that slept run, in seconds (docs/decisions/043); ``page`` in bytes and
    ``tlbs``, smallest first; ``peaks``, for lower bounds. Defaults of a Skylake server, from
    Intel's optimization manual.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    caches: tuple[Cache, ...]
    fma_latency: int = 4
    fma_per_cycle: int = 2
    loads_per_cycle: int = 2
    frequency: float = 3.0e9
    memory_bandwidth: float = 12.0e9
    barrier: float = 2.0e-6
    misses: int = 24
    stores_per_cycle: int = 1
    issue: int = 4
    window: int = 224
    mispredict: float = 16.0
    memory_latency: float = 90e-9
    shared_bandwidth: float = 24.0e9
    wake: float = 40.0e-6
    page: int = 4096
    tlbs: tuple[Tlb, ...] = (Tlb(64, 1.0), Tlb(1536, 16.0))
    peaks: Peaks = Peaks()
    features: tuple[str, ...] = ()
    extensions: tuple[Instruction, ...] = ()

    @property
    def l2(self) -> int:
        """Bytes of L2, or of the only cache."""
        return self.caches[:2][-1].size

    def bandwidths(self) -> tuple[float, ...]:
        """Bytes per second out of each memory into the next smaller one: L2 into L1, …, main memory
        into the last cache."""
        inner = tuple(cache.bandwidth * self.frequency for cache in self.caches[1:])
        return (*inner, self.memory_bandwidth)

    def lanes(self, dtype: DType) -> int:
        """Elements of ``dtype`` in one vector register."""
        return max(1, self.vector_bytes // dtype.itemsize)

    def instructions(self, dtype: DType) -> tuple[Instruction, ...]:
        """What register tiles of ``dtype`` may be made of (``policy/instruction_choice.py``)."""
        own = tuple(x for x in self.extensions if x.dtype == dtype)
        fused = outer_product(self, dtype)
        other = outer_product(self, dtype, any_update=True)
        return (*own, fused, other) if dtype.is_float else (*own, other)


def outer_product(machine: Machine, dtype: DType, *, any_update: bool = False) -> Instruction:
    """``acc[row, lane] += a[row] * b[lane]``: vector multiply-adds of a broadcast element.

    With ``any_update``, any monoid and contribution, as multiplication and addition apart.
    """
    a, b = Load(0, (), dtype), Load(1, (), dtype)
    product, fold = (a & b, "or") if dtype.kind == "bool" else (a * b, "add")
    row, lane = Var("row"), Var("lane")
    step = Statement(
        "step",
        ("row", "lane"),
        (),
        (0, "row", 0, "lane", 0),
        writes=(Access(ACCUMULATOR, (row, lane)),),
        reads=(Access("a", (row,)), Access("b", (lane,))),
        body=Body((), (product,)),
        update=Update(monoid(fold, dtype), ()),
    )
    return Instruction(
        "vector outer product" if any_update else "multiply-add outer product",
        step,
        {"row": 1, "lane": machine.lanes(dtype)},
        {ACCUMULATOR: Operand((lane,)), "a": Operand((literal(0),)), "b": Operand((lane,))},
        machine.vector_registers,
        (2.0 if any_update else 1.0) / machine.fma_per_cycle,
        any_update,
    )


MASKS = 8  # mask registers, for vectors of bools
MAX_VECTORS = 3  # wider tiles gain nothing, and lose more lanes at diagonals and tails


def register_tile(machine: Machine, dtype: DType, vectors: int | None = None) -> tuple[int, int]:
    """Rows, and vectors in each, of an outer product's accumulators: the fewest loads per
    multiply-add among the tiles that leave registers for one row of operands and some broadcasts;
    with ``vectors``, among those of that width.

    8 rows of 3 vectors with 32 registers (measured: 91-94% of the register-only peak, as 6 x 4 and
    9 x 3; 12 x 2 and 14 x 2 reach 86-90%), 4 of 3 with 16.
    """
    # An element's size makes a vector's lanes, and leaves the tile's shape.
    registers = MASKS if dtype.kind == "bool" else machine.vector_registers
    free = registers - max(1, registers // 10)
    widths = range(1, MAX_VECTORS + 1) if vectors is None else (vectors,)
    tiles = [(max(1, (free - v) // v), v) for v in widths]
    return min(tiles, key=lambda tile: (tile[0] + tile[1]) / (tile[0] * tile[1]))
