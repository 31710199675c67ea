"""Sums of products that gain from register tiles, and the shape of the tiles.

C[i, j] += A[i, k] * B[k, j]      outer product: reuse along rows i and lanes j
y[i] += x[i + k] * w[k]           window: lanes i; the taps k read what L1 holds already
y[i, j, g] += x[i, k, g] * w[k, j, g]      vertical: all operands are vectors along g
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.ir.dtypes import DType
from weft.ir.instruction import Instruction
from weft.ir.machine import Machine, register_tile
from weft.ir.plan import Option
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.map_instruction import Assignment, map_instruction
from weft.polyhedral.policy.cache_tiles import in_one_part
from weft.polyhedral.policy.instruction_choice import alternatives, fitting, least, unfit
from weft.polyhedral.policy.lanes import choose_lanes, strided, sum_dims
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product_costs import CANDIDATES, MAX_VECTORS, Choice, cheapest
from weft.polyhedral.policy.window_costs import vertical, window_tile

TAPS = 16  # steps of a window that are rows of memory of their own
WINDOW = 4  # vectors of sums

Tile = tuple[tuple[int, ...], int]  # rows, by dim, and lanes


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products and its register tile. ``rows`` (none in most windows) and ``lanes``: the
    dims of the tile; ``stream``: the dims of the reduction, innermost last; ``outer``: further dims
    of the target. ``needs_packing``: numbers of the reads that are strided along the lanes and may
    be packed. ``tile``: its shape, where all sizes are known, and ``cycles``, what it is
    estimated to take; ``others``: the next best. ``instruction``: one that takes
    several steps of the innermost reduction at once, for which operands are interleaved.
    ``window``: no outer product."""

    statement: str
    rows: tuple[str, ...]
    lanes: str
    stream: tuple[str, ...]
    outer: tuple[str, ...]
    needs_packing: tuple[int, ...]
    instruction: Instruction | None = None
    tile: Tile | None = None
    cycles: float | None = None
    window: bool = False
    others: tuple[Product, ...] = ()

    def __str__(self) -> str:
        """``fma i 8 j 48``: the instruction, and the tile along its dims."""
        rows, lanes = self.tile or ((1,) * len(self.rows), 1)
        sizes = zip((*self.rows, self.lanes), (*rows, lanes), strict=True)
        name = self.instruction.name if self.instruction else "fma"
        return " ".join([name, *(f"{dim} {n}" for dim, n in sizes)])

    @property
    def moving(self) -> tuple[str, ...]:
        """The dims of the sums: outer ones, rows, lanes."""
        return (*self.outer, *self.rows, self.lanes)

    @property
    def word(self) -> int:
        """Steps of the innermost reduction that are side by side in panels."""
        return self.instruction.word if self.instruction else 1


def find_product(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """``statement``, of which the dims ``free`` are open, as an outer product: its reduction may be
    reordered, and its target is contiguous along the lanes. None where it is none."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    for instructions in alternatives(machine, scop.tensor(statement.writes[0].tensor).dtype):
        fit = fitting(scop, statement, instructions, free)
        known = _priced(scop, statement, fit, machine)
        if known:
            best, *others = (_tiled(statement, a, choice) for choice, a in known)
            return replace(best, others=tuple(others))
        still = (a for a in fit if all(m.number is not None for m in a.packs))
        first = least(statement, still)
        if first is not None:
            return _product(statement, first)
    return None


def _priced(
    scop: Scop, statement: Statement, fit: Sequence[Assignment], machine: Machine
) -> list[tuple[Choice, Assignment]]:
    """The best register tiles where sizes are known, the cheapest first."""
    found = [
        (choice, a)
        for a in fit
        if _stays(scop, statement, a, machine)
        for choice in cheapest(scop, statement, a, row_and_lane(a), machine)
    ]
    return sorted(found, key=lambda pair: pair[0].cycles)[:CANDIDATES]


def sum_cycles(scop: Scop, statement: Statement, machine: Machine) -> float | None:
    """Cycles of all of ``statement`` in its best register tiles of multiply-adds; None where there
    are none, or a size is not known."""
    upright = vertical(scop, statement, statement.dims, machine)
    found = [_product_cycles(scop, statement, machine), upright.cycles if upright else None]
    return min((cycles for cycles in found if cycles is not None), default=None)


def _product_cycles(scop: Scop, statement: Statement, machine: Machine) -> float | None:
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    for instructions in alternatives(machine, scop.tensor(statement.writes[0].tensor).dtype):
        fit = fitting(scop, statement, instructions, statement.dims)
        if fit:
            known = _priced(scop, statement, fit, machine)
            own = known and known[0][1].instruction.emission is None
            return known[0][0].cycles if own else None
    return None


def row_and_lane(found: Assignment) -> tuple[str, str]:
    """The dims of the statement along the rows and along the lanes."""
    row, lane = _results(found)
    return row, lane


def _results(found: Assignment) -> list[str]:
    """The dims of the statement that index an issue's results, the lanes last."""
    own = found.instruction
    names = [d for d in own.semantics.dims if d not in own.summed]
    return [dim for name in names for dim in found.dims[name]]


def _product(statement: Statement, found: Assignment) -> Product:
    *rows, lane = _results(found)
    needs_packing = dict.fromkeys(m.number for m in found.packs if m.number is not None)
    instruction = found.instruction if found.instruction.emission else None
    return Product(
        statement.name,
        tuple(rows),
        lane,
        _inner_last(found),
        found.outer,
        tuple(needs_packing),
        instruction,
    )


def _tiled(statement: Statement, found: Assignment, choice: Choice) -> Product:
    outer = tuple(d for d in found.outer if d not in choice.rows)
    sizes = tuple(choice.rows.values()), choice.lanes[1]
    p = _product(statement, found)
    needs_packing = tuple(n for n in p.needs_packing if n not in choice.mixed)
    return replace(
        p,
        rows=tuple(choice.rows),
        outer=outer,
        tile=sizes,
        cycles=choice.cycles,
        needs_packing=needs_packing,
    )


def _stays(scop: Scop, statement: Statement, found: Assignment, machine: Machine) -> bool:
    """Whether the sums may be laid out as registers are. Where the target is strided along the
    lanes, blocks of it are transposed when loaded and stored: once, if the reduction is not
    blocked."""
    contiguous = all(misfit.number is not None for misfit in found.packs)
    return contiguous or in_one_part(scop, statement, _inner_last(found), machine)


def _inner_last(found: Assignment) -> tuple[str, ...]:
    """The reduction dims, those that the instruction itself sums over innermost."""
    inner = [d for name in found.instruction.summed for d in found.dims[name]]
    return (*(d for d in found.streams if d not in inner), *inner)


def find_row(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """``statement`` as one row of a product, by an instruction whose operands need no packing at
    run time: they lie as it takes them, in rows that registers interleave, or are constants. None
    where it is none; packing others would take longer than it saves."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    dtype = scop.tensor(statement.writes[0].tensor).dtype
    constant = {
        n for n, r in enumerate(statement.reads) if scop.tensor(r.tensor).role == "constant"
    }
    every = machine.instructions(dtype)
    plain = max(i.per_cycle for i in every if i.emission is None)
    fit = [
        a
        for instruction in every
        if instruction.emission and not instruction.unit and instruction.per_cycle >= plain
        for a in map_instruction(scop, statement, instruction, free, reasons=False).assignments
        if not unfit(statement, a)
        and {m.number for m in a.packs} <= constant | _in_rows(statement, a)
    ]
    first = least(statement, fit)
    if first is None:
        return None
    p = _product(statement, first)
    return replace(p, needs_packing=tuple(n for n in p.needs_packing if n in constant))


def _in_rows(statement: Statement, found: Assignment) -> set[int]:
    """The numbers of the reads that registers interleave: contiguous along the lanes."""
    *_, lane = _results(found)
    numbers = {m.number for m in found.packs if m.number is not None}
    return {n for n in numbers if not strided(statement.reads[n], lane)}


def find_window(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """``statement`` as a sum over a window: vectors run along its target, and what the taps bring
    in is in L1 already, or few rows of memory. None where it is none."""
    dims = sum_dims(statement, free)
    if dims is None:
        return None
    moving, stream = dims
    lanes = choose_lanes(scop, statement, free, machine)
    if lanes is None or lanes.dim not in moving or strided(statement.writes[0], lanes.dim):
        return None
    for read in statement.reads:
        along = [i for i in read.indices if mentions(i, stream)]
        if moves(read, lanes.dim):
            far = {d for i in along if not mentions(i, moving) for d in stream if mentions(i, (d,))}
            packed = scop.tensor(read.tensor).role == "constant"
            if not packed and any((hull_extent(statement, d) or TAPS + 1) > TAPS for d in far):
                return None
    outer = tuple(d for d in moving if d != lanes.dim)
    needs_packing = tuple(
        n for n, r in enumerate(statement.reads) if _again(scop, r, lanes.dim, outer)
    )
    found = Product(statement.name, (), lanes.dim, stream, outer, needs_packing, window=True)
    return _with_rows(scop, statement, found, machine)


def _with_rows(scop: Scop, statement: Statement, p: Product, machine: Machine) -> Product:
    """The window ``p`` in tiles of several rows, where these reuse vectors of an operand."""
    best = window_tile(scop, statement, p.lanes, p.outer, p.stream, machine)
    if best is None or not best.row:
        return p
    outer = tuple(d for d in p.outer if d != best.row)
    return replace(p, rows=(best.row,), outer=outer, tile=((best.rows,), best.lanes))


def _again(scop: Scop, read: Access, lane: str, outer: Sequence[str]) -> bool:
    """Whether all iterations of ``outer`` read the same elements, strided along the lanes."""
    known = all(isinstance(size, Literal) for size in scop.tensor(read.tensor).shape)
    return known and strided(read, lane) and not moves(read, *outer)


def sums_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products and windows among the statements of ``group``."""
    found = [sum_of(planner, group, name) for name in group.names]
    return [p for p in found if p is not None]


def products_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products among the statements of ``group``."""
    return [p for p in sums_of(planner, group) if not p.window]


def find_vertical(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """``statement``, with no loop around it yet, as products of vectors summed lane by lane; None
    where it is none, or an outer product takes less time."""
    dims = sum_dims(statement, free) if set(free) == set(statement.dims) else None
    best = vertical(scop, statement, free, machine) if dims is not None else None
    if dims is None or best is None:
        return None
    other = _product_cycles(scop, statement, machine)
    if other is not None and other <= best.cycles:
        return None
    moving, stream = dims
    return Product(
        statement.name,
        tuple(best.rows),
        best.lanes[0],
        stream,
        tuple(d for d in moving if d not in best.rows and d != best.lanes[0]),
        (),
        tile=(tuple(best.rows.values()), best.lanes[1]),
        window=True,
    )


def sum_of(planner: Planner, group: Group, name: str) -> Product | None:
    """The statement ``name`` as an outer product, else as a window, else as a vertical sum; as the
    last also where that takes less time than an outer product of multiply-adds."""
    free = planner.free(group, name)
    best = planner.once(_best_sum, name, free)
    whole = len(free) == len(planner.scop.statement(name).dims)
    if best is None or not best.others or not whole:
        planner.decisions.lacks(f"{name}.register_tile", _no_choice(name, best, whole=whole))
        return best
    known = {str(p): p for p in reversed((best, *best.others))}
    options = tuple(Option(text, p.cycles) for text, p in reversed(known.items()))
    return known[str(planner.decisions.choose(f"{name}.register_tile", options, str(best)))]


def _no_choice(name: str, best: Product | None, *, whole: bool) -> str:
    """Why the register tile of the statement ``name`` is no decision."""
    if best is None:
        return f"{name} is no sum that a register tile serves"
    if best.tile is None:
        why = "where sizes are open"
    else:
        why = "as it has one form alone" if whole else "in a part of the loops, at a diagonal say"
    return (
        f"the register tile of {name} follows from the machine {why}: it is tensorize in a script"
    )


def _best_sum(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    for find in (find_product, find_row, find_window, find_vertical):
        found = find(scop, statement, free, machine)
        if found is not None:
            better = None
            if not found.window and found.instruction is None:
                better = find_vertical(scop, statement, free, machine)
            return better or found
    return None


def shape(planner: Planner, p: Product, *, whole: bool = False) -> Tile:
    """The register tile of ``p``: rows by dim, and lanes.

    If the product is smaller than the largest tile, or would leave edge tiles mostly empty, its
    tiles are smaller and of even size; with ``whole``, its size plays no part.
    """
    if p.tile is not None and not whole:
        return p.tile
    if p.instruction and p.instruction.unit:
        return _two_by_two(p.instruction)
    statement, machine = planner.scop.statement(p.statement), planner.machine
    dtype = planner.scop.tensor(statement.writes[0].tensor).dtype
    vector = machine.lanes(dtype)
    most, vectors = register_tile(machine, dtype) if p.rows else (1, WINDOW)
    if not whole:
        across = hull_extent(statement, p.lanes)
        if across is not None:
            even = _shared_out(-(-across // vector), vectors)
            vectors = _vectors(machine, dtype, across, even) if p.rows else even
        most, _ = register_tile(machine, dtype, vectors)
    lanes = vectors * vector
    if not whole:
        lanes = min(lanes, hull_extent(statement, p.lanes) or lanes)
    rows = tuple(
        _shared_out((not whole and hull_extent(statement, d)) or most, most) for d in p.rows
    )
    return rows, lanes


def _vectors(machine: Machine, dtype: DType, lanes: int, even: int) -> int:
    """The vectors of a tile for so many ``lanes``: ``even`` parts, or a number that leaves none
    over, if its tiles load no more for a multiply-add."""
    whole, rest = divmod(lanes, machine.lanes(dtype))

    def loads(vectors: int) -> float:
        rows, _ = register_tile(machine, dtype, vectors)
        return (rows + vectors) / (rows * vectors)

    fitting = [] if rest else [v for v in range(1, MAX_VECTORS + 1) if whole % v == 0]
    return min((v for v in fitting if loads(v) <= loads(even)), key=loads, default=even)


def _two_by_two(instruction: Instruction) -> tuple[tuple[int], int]:
    """A tile of 2 x 2 blocks of a matrix unit, so that each operand is used twice."""
    (lane,) = instruction.across
    return (2 * instruction.rows,), 2 * instruction.extents[lane]


def _shared_out(total: int, most: int) -> int:
    """The largest of the even parts of ``total``, in as few parts of ``most`` as possible."""
    parts = max(1, -(-total // most))
    return max(1, -(-total // parts))
