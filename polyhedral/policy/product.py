"""Updates that gain from sums in registers, and the register tiles that fit them.

C[i, j] += A[i, k] * B[k, j]      a product: reuse in two directions, rows i and lanes j
y[i] += x[i + k] * w[k]           a window: lanes i; what k brings is in the cache already
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.frontend.scalar_expr import Expr, Literal, Var
from weft.polyhedral.analysis.linear import box, linear, mentions
from weft.polyhedral.machine import MAX_VECTORS, Machine, register_tile
from weft.polyhedral.map_instruction import Assignment, map_instruction
from weft.polyhedral.policy.lanes import choose_lanes, jumps
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.policy.product_costs import Choice, cheapest, extents
from weft.polyhedral.scop import Scop, Statement

TAPS = 16  # rows of memory that a window may come from
WINDOW = 4  # vectors of sums
STREAM = 384  # steps of a stream that run at once, where it is cut
SHARE = 0.7  # of the second cache that a stream's operands may take


@dataclass(frozen=True, slots=True)
class Product:
    """``rows`` (one, of a window none), ``lanes``: the dims of the register tile; ``outer``: more
    dims of the target; ``jumping``: the numbers of the reads that are not contiguous along the
    lanes and may be copied; ``tile``: rows and lanes, where all sizes are known."""

    statement: str
    rows: tuple[str, ...]
    lanes: str
    stream: tuple[str, ...]
    outer: tuple[str, ...]
    jumping: tuple[int, ...]
    tile: tuple[tuple[int, ...], int] | None = None


def find_product(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """How ``statement``, whose dims ``free`` are open, is an outer product over a stream that may
    be reordered, its target contiguous along the lanes."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    tensor = scop.tensor(statement.writes[0].tensor)
    for instruction in machine.instructions(tensor.dtype):
        mapped = map_instruction(scop, statement, instruction, free).assignments
        fit = [a for a in mapped if set(a.streams) <= set(update.dims)]
        choices = [(cheapest(scop, statement, a, machine), a) for a in fit]
        known = [
            (c, a) for c, a in choices if c is not None and _stays(scop, statement, a, machine)
        ]
        if known:
            choice, best = min(known, key=lambda found: found[0].cycles)
            return _tiled(statement, best, choice)
        for found in fit:
            if all(misfit.number is not None for misfit in found.packs):
                return _product(statement, found)
    return None


def _product(statement: Statement, a: Assignment) -> Product:
    jumping = tuple(misfit.number for misfit in a.packs if misfit.number is not None)
    return Product(statement.name, (a.dims["row"],), a.dims["lane"], a.streams, a.outer, jumping)


def _tiled(statement: Statement, a: Assignment, choice: Choice) -> Product:
    outer = tuple(d for d in a.outer if d not in choice.rows)
    sizes = tuple(choice.rows.values()), choice.lanes[1]
    return replace(_product(statement, a), rows=tuple(choice.rows), outer=outer, tile=sizes)


def _stays(scop: Scop, statement: Statement, a: Assignment, machine: Machine) -> bool:
    """Whether the sums may lie as registers do. Where their elements jump along the lanes, blocks
    of them are transposed on the way from and to memory: once, if the stream is in one part."""
    contiguous = all(misfit.number is not None for misfit in a.packs)
    return contiguous or in_one_part(scop, statement, a.streams, machine)


def find_window(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """How ``statement`` sums up a window: vectors run best along its target, and what its stream
    brings in along the lanes is either near, or little."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    (target,) = statement.writes
    if target.guard or any(a.may for a in (target, *statement.reads)):
        return None
    moving = [d for d in free if any(mentions(i, (d,)) for i in target.indices)]
    stream = tuple(d for d in free if d not in moving)
    lanes = choose_lanes(scop, statement, free, machine)
    if (
        not stream
        or lanes is None
        or lanes.dim not in moving
        or not set(stream) <= set(update.dims)
    ):
        return None
    if jumps(target, lanes.dim):
        return None
    for read in statement.reads:
        along = [i for i in read.indices if mentions(i, stream)]
        if any(mentions(i, (lanes.dim,)) for i in read.indices):
            far = {d for i in along if not mentions(i, moving) for d in stream if mentions(i, (d,))}
            packed = scop.tensor(read.tensor).role == "constant"
            if not packed and any((size_of(statement, d) or TAPS + 1) > TAPS for d in far):
                return None
    outer = tuple(d for d in moving if d != lanes.dim)
    return Product(statement.name, (), lanes.dim, stream, outer, ())


def sums_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products and windows among the statements of ``group``."""
    found = [sum_of(planner, group, name) for name in group.names]
    return [p for p in found if p is not None]


def products_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products among the statements of ``group``."""
    return [p for p in sums_of(planner, group) if p.rows]


def sum_of(planner: Planner, group: Group, name: str) -> Product | None:
    """The statement ``name`` as an outer product, else as a window."""
    statement, free = planner.scop.statement(name), planner.free(group, name)
    product = find_product(planner.scop, statement, free, planner.machine)
    return product or find_window(planner.scop, statement, free, planner.machine)


def shape(planner: Planner, p: Product, *, whole: bool = False) -> tuple[tuple[int, ...], int]:
    """Rows and lanes of a register tile for ``p``.

    Where the product is smaller than the largest tile, or its edge would be mostly empty, the tiles
    are smaller and share it out evenly; ``whole``: whatever its size.
    """
    if p.tile is not None and not whole:
        return p.tile
    statement, machine = planner.scop.statement(p.statement), planner.machine
    dtype = planner.scop.tensor(statement.writes[0].tensor).dtype
    vector = machine.lanes(dtype)
    most, vectors = register_tile(machine, dtype) if p.rows else (1, WINDOW)
    if not whole:
        across = size_of(statement, p.lanes)
        if across is not None:
            vectors = _shared_out(-(-across // vector), vectors)
        most, _ = register_tile(machine, dtype, vectors)
    lanes = vectors * vector
    if not whole:
        lanes = min(lanes, size_of(statement, p.lanes) or lanes)
    rows = tuple(_shared_out((not whole and size_of(statement, d)) or most, most) for d in p.rows)
    return rows, lanes


def _shared_out(total: int, most: int) -> int:
    """``total`` in the fewest parts of ``most`` at most: what the largest of even parts has."""
    parts = max(1, -(-total // most))
    return max(1, -(-total // parts))


def in_one_part(scop: Scop, statement: Statement, stream: Sequence[str], machine: Machine) -> bool:
    """Whether all of ``stream`` runs at once: its innermost dim is short, or what it brings in
    along the lanes of a tile stays in the second cache until the next rows need it."""
    last = size_of(statement, stream[-1])
    if (last or STREAM + 1) <= STREAM:
        return True
    sizes = extents(statement)
    if sizes is None:
        return False
    size = scop.tensor(statement.writes[0].tensor).dtype.itemsize
    lanes = MAX_VECTORS * machine.vector_bytes // size
    return prod(sizes[d] for d in stream) * lanes * size <= machine.caches[1].size * SHARE


def size_of(statement: Statement, dim: str) -> int | None:
    """How many values ``dim`` has, where that is a constant."""
    match box(statement).get(dim):
        case Literal() as begin, Literal() as end:
            return max(1, int(end.value) - int(begin.value))
    return None


def turns_of(statement: Statement, value: Expr) -> tuple[int, int] | None:
    """First value and number of values of a loop along a dim, if both are constants."""
    form = linear(value, statement.dims)
    if form is None or not isinstance(form.rest, Literal) or len(form.coefficients) != 1:
        return None
    ((dim, step),) = form.coefficients.items()
    match box(statement).get(dim):
        case Literal() as begin, Literal() as end if step == 1:
            low = int(begin.value)
            return low + int(form.rest.value), max(1, int(end.value) - low)
    return None


def from_first(statement: Statement, dim: str) -> Expr:
    """``dim`` counted from its first value, where that is a constant: tiles begin there."""
    match box(statement).get(dim):
        case Literal() as begin, _:
            return Var(dim) - begin
    return Var(dim)
