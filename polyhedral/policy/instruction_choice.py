"""Which instruction computes a sum: the one that takes least, by what the records say.

What an instruction does in a cycle are the points of one issue over its cycles. Those that do no
less than vector multiply-adds are asked before these, the others after them. Of those that fit, the
cycles of whole tiles decide where sizes are known (``product_costs``), else those of the issues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, prod

from weft.ir.dtypes import DType
from weft.ir.errors import BudgetError
from weft.ir.instruction import Instruction, with_rows
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Load
from weft.ir.schedule_tree import RegisterTile
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, is_box
from weft.polyhedral.map_instruction import Assignment, map_instruction


def alternatives(machine: Machine, dtype: DType) -> Iterator[list[Instruction]]:
    """Instructions row by row: those that do no less in a cycle than multiply-adds, which differ in
    what their operands may be; these; and those that do less."""
    rows = [i for i in map(with_rows, machine.instructions(dtype)) if i is not None]
    left = [i for i in rows if i.emission is not None]
    own = (i for i in rows if i.emission is None)
    for plain in sorted(own, key=lambda i: i.per_cycle, reverse=True):
        yield [i for i in left if i.per_cycle >= plain.per_cycle]
        yield [plain]
        left = [i for i in left if i.per_cycle < plain.per_cycle]
    yield left


def fitting(
    scop: Scop, statement: Statement, instructions: Iterable[Instruction], free: Sequence[str]
) -> list[Assignment]:
    """The ways in which one of ``instructions`` computes ``statement`` that make register tiles."""
    mapped = (map_instruction(scop, statement, i, free, reasons=False) for i in instructions)
    return [a for m in mapped for a in m.assignments if not unfit(statement, a)]


def unfit(statement: Statement, found: Assignment) -> str:
    """What stands against register tiles of ``found``, or '': streams have to be reordered, and at
    least one issue is full."""
    own, update = found.instruction, statement.update
    assert update is not None, "what was mapped is an update"
    if not found.streams or not set(found.streams) <= set(update.dims):
        return "no loop around an issue adds to the same elements, in any order"
    if len(own.summed) > 1:
        return f"an issue sums up over {' and '.join(own.summed)}, tiles over one dim"
    if own.emission and not all(isinstance(e, Load) for e in found.operands.values()):
        return "it takes its operands from memory as they are"
    if own.unit and not is_box(statement):
        return "its tiles have all steps for all of their rows and lanes"
    for name in own.summed:
        (dim, *_) = found.dims[name]
        size = hull_extent(statement, dim)
        if size is not None and size < own.depth:
            return f"an issue sums up {own.depth} steps of {dim}, which has {size}"
    return ""


def least(statement: Statement, fit: Iterable[Assignment]) -> Assignment | None:
    """The one whose issues take least; of one instruction's, what leaves the fewest steps over."""
    each = groupby(fit, key=lambda a: a.instruction)
    firsts = [min(same, key=lambda a: _left_over(statement, a)) for _, same in each]
    return min(firsts, key=lambda a: _issue_cycles(statement, a), default=None)


def _left_over(statement: Statement, found: Assignment) -> int:
    """Steps of the stream that make no full issue; where sizes are not known, none."""
    inner = [d for name in found.instruction.summed for d in found.dims[name]]
    return sum((hull_extent(statement, d) or 0) % found.instruction.depth for d in inner)


def _issue_cycles(statement: Statement, found: Assignment) -> float:
    """Cycles of all issues, for each value of the dims whose sizes are not known."""
    own = found.instruction
    extents = {dim: own.extents[name] for name, dims in found.dims.items() for dim in dims}
    sizes = [(hull_extent(statement, d), extents.get(d, 1)) for d in statement.dims]
    return own.cycles * prod(ceil(n / e) if n is not None else 1 / e for n, e in sizes)


@dataclass(frozen=True, slots=True)
class Unused:
    """An instruction that does not compute ``statement``, and ``why``."""

    statement: str
    instruction: str
    why: str


def unused(
    scop: Scop, statement: Statement, machine: Machine, tile: RegisterTile | None
) -> list[Unused]:
    """Why each of the target's instructions for sums of such a dtype, but that of ``tile``, is not
    what computes ``statement``, once for all of one name and shape."""
    if statement.update is None or len(statement.writes) != 1:
        return []
    dtypes = statement.update.monoid.dtypes
    used = _known_as(tile.instruction) if tile and tile.instruction else None
    found: dict[tuple[str, int, int], str] = {}
    for own in machine.extensions:
        sums = own.semantics.update
        if not own.any_update and (sums is None or sums.monoid.dtypes != dtypes):
            continue
        refusal = _refusal(scop, statement, own)
        if _known_as(own) != used and (_known_as(own) not in found or not refusal):
            why = refusal or _slower(scop, statement, own, machine, tile)
            found[_known_as(own)] = why
    shapes = [name for name, _, _ in {*found, *([used] if used else [])}]
    return [
        Unused(statement.name, name if shapes.count(name) == 1 else f"{name} of {n} lanes", why)
        for (name, n, _), why in found.items()
    ]


def _known_as(own: Instruction) -> tuple[str, int, int]:
    return own.name, own.lanes, own.depth


def _refusal(scop: Scop, statement: Statement, own: Instruction) -> str:
    """Why no register tile of ``own`` computes ``statement``, or ''."""
    refusals: list[str] = []
    for each in (with_rows(own), own):
        if each is not None:
            try:
                mapped = map_instruction(scop, statement, each)
            except BudgetError as error:
                return error.what
            against = [unfit(statement, a) for a in mapped.assignments]
            if not all(against):
                return ""
            refusals += against or mapped.refusals
    return refusals[0] if refusals else f"{statement.name} has too few dims for it"


def _slower(
    scop: Scop, statement: Statement, own: Instruction, machine: Machine, tile: RegisterTile | None
) -> str:
    """Why ``own`` was not chosen, although it could be."""
    if tile is None:
        return f"the schedule has no register tile of {statement.name}"
    dtype = scop.tensor(statement.writes[0].tensor).dtype
    plain = next(i for i in machine.instructions(dtype) if i.emission is None)
    other = tile.instruction or plain
    if own.per_cycle < other.per_cycle:
        name = tile.instruction.name if tile.instruction else "multiply-adds"
        return f"{own.per_cycle:g} steps in a cycle, {name} {other.per_cycle:g}"
    return "another tile takes less time, with its edges and what is copied for it"
