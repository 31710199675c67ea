"""Updates with reuse in two directions, and the register tiles that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.frontend.scalar_expr import Literal
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.machine import Machine, register_tile
from weft.polyhedral.map_instruction import map_instruction
from weft.polyhedral.policy.planner import Group, Planner
from weft.polyhedral.scop import Scop, Statement


@dataclass(frozen=True, slots=True)
class Product:
    """``rows``, ``lanes``: the dims of the register tile; ``outer``: further dims of the target;
    ``jumping``: the numbers of the reads that are not contiguous along the lanes."""

    statement: str
    rows: str
    lanes: str
    stream: tuple[str, ...]
    outer: tuple[str, ...]
    jumping: tuple[int, ...]


def find_product(
    scop: Scop, statement: Statement, free: Sequence[str], machine: Machine
) -> Product | None:
    """How ``statement``, whose dims ``free`` are open, is an outer product over a stream that may
    be reordered, its target contiguous along the lanes."""
    update = statement.update
    if update is None or len(statement.writes) != 1:
        return None
    dtype = scop.tensor(statement.writes[0].tensor).dtype
    for instruction in machine.instructions(dtype):
        for found in map_instruction(scop, statement, instruction, free).assignments:
            numbers = [misfit.number for misfit in found.packs]
            jumping = tuple(n for n in numbers if n is not None)
            if len(jumping) == len(numbers) and set(found.streams) <= set(update.dims):
                rows, lanes = found.dims["row"], found.dims["lane"]
                return Product(statement.name, rows, lanes, found.streams, found.outer, jumping)
    return None


def products_of(planner: Planner, group: Group) -> list[Product]:
    """The outer products among the statements of ``group``."""
    found = [product_of(planner, group, name) for name in group.names]
    return [p for p in found if p is not None]


def product_of(planner: Planner, group: Group, name: str) -> Product | None:
    statement = planner.scop.statement(name)
    return find_product(planner.scop, statement, planner.free(group, name), planner.machine)


def shape(planner: Planner, p: Product, *, whole: bool = False) -> tuple[int, int]:
    """Rows and lanes of a register tile for ``p``.

    Where the product is smaller than the largest tile, or its edge would be mostly empty, the tiles
    are smaller and share it out evenly; ``whole``: whatever its size.
    """
    statement, machine = planner.scop.statement(p.statement), planner.machine
    dtype = planner.scop.tensor(statement.writes[0].tensor).dtype
    vector = machine.lanes(dtype)
    rows, vectors = register_tile(machine, dtype)
    if whole:
        return rows, vectors * vector
    across, down = size_of(statement, p.lanes), size_of(statement, p.rows)
    if across is not None:
        if across <= vector:
            vectors, vector = 1, 1 << (across - 1).bit_length()
        else:
            vectors = _shared_out(-(-across // vector), vectors)
        rows, _ = register_tile(machine, dtype, vectors)
    return rows if down is None else _shared_out(down, rows), vectors * vector


def _shared_out(total: int, most: int) -> int:
    """``total`` in the fewest parts of ``most`` at most: what the largest of even parts has."""
    parts = max(1, -(-total // most))
    return max(1, -(-total // parts))


def size_of(statement: Statement, dim: str) -> int | None:
    """How many values ``dim`` has from 0 on, where that is a constant."""
    match box(statement).get(dim):
        case Literal(0), Literal() as end:
            return max(1, int(end.value))
    return None
