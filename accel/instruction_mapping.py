"""Instruction mappings: which instruction computes a piece of work, and which loops are inside it.

    InstructionMapping ::= work, compute, given: instruction's dim → statement's, sizes, operands

``polyhedral.map_instruction`` finds all mappings of a reduction; without one, any loops may be
inside, and channels are tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from weft.accel.capabilities import Capabilities, Compute
from weft.accel.instruction_selection import is_elementwise
from weft.accel.mismatches import place_of, sum_mismatch
from weft.accel.work import Work, widened
from weft.ir.dtypes import DType
from weft.ir.instruction import Instruction, Operand
from weft.ir.scalar_expr import Cast, Expr, Load, Var, literal
from weft.ir.scop import Access, Statement
from weft.polyhedral.map_instruction import map_instruction

Given = Mapping[str, str]  # the instruction's dims → the statement's


@dataclass(frozen=True, slots=True)
class InstructionMapping:
    """``compute``: None if there is no reduction; ``like``: an instruction whose results have the
    layout of the work's. ``sizes``: of the instruction's dims. ``operands``: the read and the
    stored dtype of each operand of the instruction."""

    work: Work
    compute: Compute | None
    like: Compute
    given: Given
    sizes: Mapping[str, int]
    operands: tuple[tuple[int, DType], ...] = ()

    @property
    def blocks(self) -> dict[str, int]:
        """The extents of the statement's dims inside of the instruction."""
        return {dim: self.sizes[name] for name, dim in self.given.items()}

    @property
    def extents(self) -> dict[str, int]:
        """The extents of the loops over instructions."""
        blocks = self.blocks
        return {d: -(-n // blocks.get(d, 1)) for d, n in self.work.extents.items()}


def instruction_mappings(
    work: Work, found: Capabilities, reasons: dict[str, None]
) -> Iterator[InstructionMapping]:
    """All of them; ``reasons`` collects why others fail."""
    if work.start is None:
        shapes: dict[tuple[int, ...], Compute] = {}
        for compute in found.computes:
            if is_elementwise(compute) and compute.target.group == 1:
                shapes.setdefault(tuple(_inner(compute).values()), compute)
        for like in shapes.values():
            for given in _elementwise(work, _inner(like)):
                yield InstructionMapping(work, None, like, given, _inner(like))
        if not shapes:
            reasons["no operation computes element by element"] = None
        return
    for compute in found.computes:
        if compute.step.update is None:
            continue
        if compute.first is not None:
            name = place_of(compute)
            reasons[f"{name} begins anew, and nothing like it adds to what is there"] = None
            continue
        one = _as_wide(work, compute)
        mapped = map_instruction(one.scop, one.statement, _instruction(compute))
        if not mapped.assignments:
            reasons[sum_mismatch(one, compute, mapped.refusals)] = None
        for each in mapped.assignments:
            operands = [_read_of(each.operands[name]) for name in _names(compute)]
            if None in operands:
                reasons[sum_mismatch(one, compute, ())] = None
                continue
            given = {name: dims[0] for name, dims in each.dims.items()}
            reads = tuple(o for o in operands if o is not None)
            yield InstructionMapping(one, compute, compute, given, compute.extents, reads)


def _as_wide(work: Work, compute: Compute) -> Work:
    """A minimum or maximum in the type of ``compute``."""
    update, own = work.statement.update, compute.step.update
    assert update is not None and own is not None, "both fold"
    wide, narrow = own.monoid.dtypes[0], update.monoid.dtypes[0]
    same = update.monoid.name == own.monoid.name and update.monoid.name in ("min", "max")
    fits = wide.kind == narrow.kind == "int" and wide.bits > narrow.bits
    return widened(work, wide) if same and fits else work


def _elementwise(work: Work, sizes: Mapping[str, int]) -> Iterator[Given]:
    """Dims for the elements of memories, without a reduction: channels first."""
    wide = [name for name, size in sizes.items() if size > 1]
    ranked = sorted(work.statement.dims, key=lambda d: -work.extents[d])
    tried: list[Given] = []
    for first in [*work.statement.dims[1:2], *ranked]:
        others = [d for d in work.statement.dims if d != first]
        given = dict(zip(reversed(wide), [first, *others], strict=False))
        if given not in tried:
            tried.append(given)
            yield given


def _inner(compute: Compute) -> dict[str, int]:
    return {
        d: n
        for d, n in compute.extents.items()
        if any(Var(d) == i for i in compute.step.writes[0].indices)
    }


def _names(compute: Compute) -> tuple[str, ...]:
    return tuple(read.tensor for read in compute.step.reads)


def _read_of(expr: Expr) -> tuple[int, DType] | None:
    """The read of an operand, and its stored dtype."""
    match expr:
        case Load(source=int() as number):
            return number, expr.dtype
        case Cast(Load(source=int() as number)) if expr.dtype.is_integer:
            return number, expr.dtype
    return None


def _instruction(compute: Compute) -> Instruction:
    """``compute`` for ``map_instruction``, without dims of extent 1."""
    unit = {d for d, n in compute.extents.items() if n == 1}
    own = compute.step

    def without(access: Access) -> Access:
        kept = tuple(i for i in access.indices if not (isinstance(i, Var) and i.name in unit))
        return replace(access, indices=kept)

    step: Statement = replace(
        own,
        dims=tuple(d for d in own.dims if d not in unit),
        position=(),
        writes=tuple(map(without, own.writes)),
        reads=tuple(map(without, own.reads)),
    )
    accesses = (*step.writes, *step.reads)
    places = {a.tensor: Operand(a.indices or (literal(0),), a.tensor) for a in accesses}
    extents = {d: n for d, n in compute.extents.items() if d not in unit}
    return Instruction(compute.operation.name, step, extents, places, 0, 1.0)
