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
    sequential stream best without software prefetches. ``masked_loads``: these follow loads under a
    mask, too. ``latency``: cycles until a line of it is there (default: between the 14 of an L2 and
    the 50 of an L3, Intel's optimization manual). ``side_by_side``: as many long rows of memory
    beyond it are read faster together than one after the other. ``hints_beside_stores``: where
    results are stored meanwhile, software prefetches serve better all the same."""

    size: int
    line: int = 64
    bandwidth: float = 24.0
    cores: int = 1
    ways: int = 8
    sequential_prefetcher: bool = False
    masked_loads: bool = True
    latency: float = 24.0
    side_by_side: int = 1
    hints_beside_stores: bool = False

    @property
    def way(self) -> int:
        """Bytes of one way: lines so far apart map to one set."""
        return self.size // self.ways


@dataclass(frozen=True, slots=True)
class Tlb:
    """A cache of ``entries`` translations of pages; any other one takes ``cycles``."""

    entries: int
    cycles: float


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Cycles of one vector of what is not pipelined: ``division``, square ``root`` (AVX-512, single
    and double precision on average: Agner Fog, "Instruction tables", Skylake-X), and a mathematical
    ``function`` (measured: Weft's own polynomials)."""

    division: float = 8.0
    root: float = 12.0
    function: float = 12.0


@dataclass(frozen=True, slots=True)
class Loops:
    """What loops cost beside their bodies. In cycles: ``entry``, of a loop's bounds; ``step``, of a
    register tile's reduction; ``row``, of a row in a time tile, for its guards and bounds;
    ``piece``, of a row that starts and ends within a vector. ``control``: instructions of a turn,
    to count and jump back. ``foreseen``: turns of loops whose ends branch predictors foresee, if
    there are as many each time; ``surprise``: of the ends of others, the share that they do not.
    Measured: decisions 019 (``row``, ``piece``), 027 (``step``) and 051."""

    entry: float = 2.0
    step: float = 0.5
    row: float = 20.0
    piece: float = 30.0
    control: int = 2
    foreseen: int = 24
    surprise: float = 0.5


@dataclass(frozen=True, slots=True)
class Accesses:
    """What accesses cost by where they lie, measured (decisions 021, 027, 037 and 040).

    In loads of a vector: ``broadcast``, that of an element, which arithmetic takes as a memory
    operand; ``shifted``, a vector that slides along memory and often is on two lines. In cycles
    beside the load: ``delay``, of each load of a register tile's step; ``split``, a vector on two
    lines, ``near_split``, on two lines of L1, ``block_split``, a row of a matrix unit's register;
    ``lone``, an element whose line nothing else of the tile uses; ``strided``, an element of a
    vector without neighbours; ``conflict``, a row whose lines conflict misses evict; ``page``,
    a step on a page that the first TLB does not hold, ``lone_page``, where one line of the page is
    read, ``far_page``, on one that no TLB holds. These show beyond ``pages`` and ``far_pages``, not
    at a TLB's ``entries``: prefetchers hide the misses of shorter walks. ``gather``: instructions
    for each element of a vector that lies in no row."""

    broadcast: float = 0.5
    shifted: float = 2.0
    delay: float = 0.125
    split: float = 1.0
    near_split: float = 0.25
    block_split: float = 1.75
    lone: float = 3.0
    strided: float = 4.0
    conflict: float = 0.5
    page: float = 1.5
    lone_page: float = 4.0
    far_page: float = 12.0
    pages: int = 200
    far_pages: int = 1024
    gather: float = 2.0


@dataclass(frozen=True, slots=True)
class Moves:
    """Cycles to bring operands and sums into place, measured (decisions 021, 024, 027 and 029).

    An element: ``pack``, into a panel or a transposed block; ``scatter``, where its neighbours in
    memory go to other panels. A vector: ``copy``, as it lies, within L2; ``place``, into a panel,
    at the least; ``interleave``, of an instruction's words, from rows; ``transpose``, of sums;
    ``sums``, of a register tile, loaded and stored around its reduction, ``window_sums``, the same
    where they begin at a constant; ``through``, of sums in L1, loaded and stored in each step.
    ``transform``, ``turn``, ``weight``: a float32 of a correlation by fewer multiplications, in
    multiply-adds of vectors: transformed, stored and loaded in order; transposed; a weight out of
    main memory."""

    pack: float = 1.0
    scatter: float = 2.0
    copy: float = 10.0
    place: float = 8.0
    interleave: float = 4.0
    transpose: float = 4.0
    sums: float = 4.0
    window_sums: float = 2.0
    through: float = 3.0
    transform: float = 12.0
    turn: float = 25.0
    weight: float = 10.0


@dataclass(frozen=True, slots=True)
class Prefetchers:
    """What hardware prefetchers follow: ``stride``, the longest, in bytes (Intel's optimization
    manual: up to 2 KiB, by the instruction's address); ``streams``, rows of memory side by side
    (the same: one stream a page, 32 in all, of which operands and sums take a half). ``steps``: of
    a register tile's reduction, longer than a line takes from L2, by which software is ahead
    (measured: decision 021)."""

    stride: int = 2048
    streams: int = 16
    steps: int = 6


@dataclass(frozen=True, slots=True)
class Elements:
    """What vectors of a family of processors can do, in bytes. The narrowest elements that they
    ``gather`` and scatter, ``shift`` across a vector in one step, and ``mask`` fast, in vectors of
    ``masked`` at least; ``chunk``, within which they interleave elements; ``stream``, the shortest
    vectors with non-temporal stores. Defaults of x86-64, from Intel's instruction set reference:
    VPGATHERDD, VALIGND, masks of AVX-512, 128-bit lanes of VPUNPCK, MOVNTPS."""

    gather: int = 4
    shift: int = 4
    mask: int = 4
    masked: int = 64
    chunk: int = 16
    stream: int = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long threads wait awake, measured (decision 028). ``spins``: pauses of the processor,
    some 12 µs, longer than most gaps between two launches of one call. In nanoseconds: ``away``,
    between two polls this far apart another thread ran on the processor; ``idle``, workers without
    work poll, twice a wake-up on a busy host; ``patience``, threads of a launch, for each other."""

    spins: int = 500
    away: int = 300_000
    idle: int = 2_000_000
    patience: int = 20_000_000


WAITING = Waiting()  # of the threads of a process, which run code for any machine


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
    cycles per second, ``memory_bandwidth`` in bytes per second for one core. In seconds:
    ``barrier``, of all threads of a program, with the misses and the imbalance that follow it;
    ``launch``, on threads that are awake; ``wake``, until threads that slept run. ``operations`` a
    second, as ``codegen/kernel_work.py`` counts them, say what these are worth in work. All four
    are those of docs/decisions/043. ``page`` in bytes. ``misses``: cache lines that a core can have
    in flight. The defaults are typical of servers: records are part of cache keys, so nothing is
    measured unasked; docs/targets.md says what calibration measures.

    What only ``polyhedral/cost`` reads: ``stores_per_cycle``, of vectors; ``issue``, instructions a
    cycle, of ``window`` that are in flight; ``mispredict``, cycles of a branch foreseen wrongly;
    ``memory_latency`` in seconds; ``shared_bandwidth``, ``memory_bandwidth`` of all cores together;
    ``overlap``, of transfers between different memories, a share: on Intel's cores these add up, on
    AMD's all overlap (Hofmann, Alappat, Hager, Fey, Wellein, "Bridging the architecture gap",
    2020); ``tlbs``, smallest first; ``peaks``, for lower bounds. Defaults of a Skylake server, from
    Intel's optimization manual.

    By subject: ``arithmetic``, ``loops``, ``accesses``, ``moves``, ``prefetchers``, ``elements``.
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
    barrier: float = 1.25e-6
    misses: int = 24
    stores_per_cycle: int = 1
    issue: int = 4
    window: int = 224
    mispredict: float = 16.0
    memory_latency: float = 90e-9
    shared_bandwidth: float = 24.0e9
    overlap: float = 0.5
    launch: float = 0.625e-6
    wake: float = 40.0e-6
    operations: float = 6.5536e9
    page: int = 4096
    tlbs: tuple[Tlb, ...] = (Tlb(64, 1.0), Tlb(1536, 16.0))
    peaks: Peaks = Peaks()
    arithmetic: Arithmetic = Arithmetic()
    loops: Loops = Loops()
    accesses: Accesses = Accesses()
    moves: Moves = Moves()
    prefetchers: Prefetchers = Prefetchers()
    elements: Elements = Elements()
    features: tuple[str, ...] = ()
    extensions: tuple[Instruction, ...] = ()

    @property
    def l2(self) -> int:
        """Bytes of L2, or of the only cache."""
        return self.caches[:2][-1].size

    @property
    def chain(self) -> int:
        """Loads in the time that one operation waits for the one before."""
        return self.fma_latency * self.loads_per_cycle

    @property
    def line(self) -> int:
        """Bytes of a cache line."""
        return self.caches[0].line

    @property
    def grain(self) -> int:
        """Operations that are worth a thread which is awake."""
        return self.work(self.launch)

    def work(self, seconds: float) -> int:
        """Operations of ``codegen/kernel_work.py`` that one thread does in so many ``seconds``."""
        return round(seconds * self.operations)

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


# What code is made for where nobody says: a server with AVX2, of so many cores.
CORES = 8
TYPICAL = Machine("typical", 32, 16, (Cache(32 << 10), Cache(1 << 20), Cache(16 << 20)))


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
