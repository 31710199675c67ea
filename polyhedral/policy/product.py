"""Updates that gain from sums in registers, and the register tiles that fit them.

C[i, j] += A[i, k] * B[k, j]      a product: reuse in two directions, rows i and lanes j
y[i] += x[i + k] * w[k]           a window: lanes i; what k brings is in the cache already
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.frontend.scalar_expr import Expr, Literal, Load, Var
from weft.polyhedral.analysis.linear import box, mentions
from weft.polyhedral.instruction import Instruction, with_rows
from weft.polyhedral.machine import Machine, register_tile
from weft.polyhedral.map_instruction import Assignment, map_instruction
from weft.polyhedral.policy.lanes import choose_lanes, jumps
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.scop import Scop, Statement, Update

TAPS = 16  # rows of memory that a window may come from
WINDOW = 4  # vectors of sums


@dataclass(frozen=True, slots=True)
class Product:
    """``rows`` (one, of a window none), ``lanes``: the dims of the register tile; ``outer``: more
    dims of the target; ``jumping``: the numbers of the reads that are not contiguous along the
    lanes and may be copied. ``instruction``: one that takes several steps of the innermost stream
    at once, so that operands have to be interleaved."""

    statement: str
    rows: tuple[str, ...]
    lanes: str
    stream: tuple[str, ...]
    outer: tuple[str, ...]
    jumping: tuple[int, ...]
    instruction: Instruction | None = None

    @property
    def depth(self) -> int:
        """Steps of the innermost stream that one instruction takes."""
        return self.instruction.depth if self.instruction else 1


def find_product(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """How ``statement``, whose dims ``free`` are open, is an outer product over a stream that may
    be reordered, its target contiguous along the lanes."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    dtype = scop.tensor(statement.writes[0].tensor).dtype
    for instruction in filter(None, map(with_rows, machine.instructions(dtype))):
        mapped = map_instruction(scop, statement, instruction, free, reasons=False)
        fitting = (a for a in mapped.assignments if _fits(statement, update, a))
        found = min(fitting, key=lambda a: _left_over(statement, a), default=None)
        if found is not None:
            names = [d for d in instruction.semantics.dims if d not in instruction.summed]
            (row,), (lanes,) = (found.dims[name] for name in names)
            jumping = dict.fromkeys(m.number for m in found.packs if m.number is not None)
            return Product(
                statement.name, (row,), lanes, _inner_last(found), found.outer, tuple(jumping),
                instruction if instruction.emission else None,
            )  # fmt: skip
    return None


def _fits(statement: Statement, update: Update, found: Assignment) -> bool:
    """Whether the target lies in memory as it should, streams may be reordered, and at least one
    issue of the instruction is full."""
    instruction = found.instruction
    if any(m.number is None for m in found.packs) or not found.streams:
        return False
    if not set(found.streams) <= set(update.dims) or len(instruction.summed) > 1:
        return False
    if instruction.emission and not all(isinstance(e, Load) for e in found.operands.values()):
        return False  # it takes its operands from memory as they are
    sizes = (size_of(statement, found.dims[name][0]) for name in instruction.summed)
    return all(size is None or size >= instruction.depth for size in sizes)


def _left_over(statement: Statement, found: Assignment) -> int:
    """Steps of the stream that make no full issue; where sizes are not known, none."""
    inner = [d for name in found.instruction.summed for d in found.dims[name]]
    return sum((size_of(statement, d) or 0) % found.instruction.depth for d in inner)


def _inner_last(found: Assignment) -> tuple[str, ...]:
    """The streams, the one that the instruction sums up over innermost."""
    inner = [d for name in found.instruction.summed for d in found.dims[name]]
    return (*(d for d in found.streams if d not in inner), *inner)


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
            if any((size_of(statement, d) or TAPS + 1) > TAPS for d in far):
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
    statement, machine = planner.scop.statement(p.statement), planner.machine
    dtype = planner.scop.tensor(statement.writes[0].tensor).dtype
    vector = machine.lanes(dtype)
    most, vectors = register_tile(machine, dtype) if p.rows else (1, WINDOW)
    if not whole:
        across = size_of(statement, p.lanes)
        if across is not None and across <= vector:
            vectors, vector = 1, 1 << (across - 1).bit_length()
        elif across is not None:
            vectors = _shared_out(-(-across // vector), vectors)
        most, _ = register_tile(machine, dtype, vectors)
    rows = tuple(_shared_out((not whole and size_of(statement, d)) or most, most) for d in p.rows)
    return rows, vectors * vector


def _shared_out(total: int, most: int) -> int:
    """``total`` in the fewest parts of ``most`` at most: what the largest of even parts has."""
    parts = max(1, -(-total // most))
    return max(1, -(-total // parts))


def size_of(statement: Statement, dim: str) -> int | None:
    """How many values ``dim`` has, where that is a constant."""
    match box(statement).get(dim):
        case Literal() as begin, Literal() as end:
            return max(1, int(end.value) - int(begin.value))
    return None


def from_first(statement: Statement, dim: str) -> Expr:
    """``dim`` counted from its first value, where that is a constant: tiles begin there."""
    match box(statement).get(dim):
        case Literal() as begin, _:
            return Var(dim) - begin
    return Var(dim)
