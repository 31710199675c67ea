"""Instruction mapping: which dims of a statement are an instruction's, and what stands against it.

    C[i, j] += A[i, k] * B[k, j]   is   acc[row, lane] += a[row] * b[lane]   over streams:

        row = i, lane = j, stream = k                as it lies in memory
        row = j, lane = i, stream = k                A and C change by jumps along i

The instruction's own semantics are a statement too (``machine.Instruction``). An assignment gives
each of the instruction's dims a dim of the statement; it is one if

1. the instances left over, the streams, leave the updated element where it is, and there are some;
2. every operand changes along the same dims as some operand of the instruction, or along none;
3. the update is the instruction's: its monoid and its product, or anything for an instruction that
   takes any update.

Operands that do not lie in memory as the instruction wants are reported, not refused: code for them
is right and slow, and packing makes it fast. In the spirit of Exo's ``replace`` and TVM's tensor
intrinsics, without a schedule to start from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from weft.frontend.scalar_expr import Apply, Expr, Load, walk
from weft.polyhedral.analysis.linear import linear
from weft.polyhedral.machine import Instruction
from weft.polyhedral.scop import Access, Scop, Statement


@dataclass(frozen=True, slots=True)
class Misfit:
    """Read ``number`` (None: the target) does not lie in memory as it should along ``dim``."""

    number: int | None
    tensor: str
    dim: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """``dims``: the instruction's dims -> the statement's; ``streams`` are stepped over inside,
    ``outer`` dims tell tiles apart. ``packs``: operands that would need packing, and the target if
    it is scattered."""

    instruction: Instruction
    dims: Mapping[str, str]
    streams: tuple[str, ...]
    outer: tuple[str, ...]
    packs: tuple[Misfit, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """``assignments``, those with the fewest packs first, inner dims before outer ones;
    ``refusals``: what stood against the others, each a sentence."""

    assignments: tuple[Assignment, ...]
    refusals: tuple[str, ...]


def map_instruction(
    scop: Scop, statement: Statement, instruction: Instruction, free: Sequence[str] | None = None
) -> Mapped:
    """Every way in which ``instruction`` computes ``statement``.

    ``free``: the dims that may be assigned or streamed, by default all; the others are fixed by
    loops outside. Whether a register tile may stand where it is put, with respect to what else the
    program does to its elements, is ``register_tile.check_register_tiles``' question.
    """
    reason = _unsuitable(statement, instruction)
    if reason:
        return Mapped((), (reason,))
    names = instruction.semantics.dims
    dims = tuple(statement.dims if free is None else free)
    moving = [d for d in dims if any(_moves(w, d) for w in statement.writes)]
    streams = tuple(d for d in dims if d not in moving)
    if not streams:
        return Mapped((), (f"{statement.name} updates each element once: there is no stream",))
    if len(moving) < len(names):
        found = ", ".join(moving) or "none"
        return Mapped(
            (),
            (
                f"{statement.name} updates elements along {len(moving)} dims ({found}), "
                f"{instruction.name} needs {len(names)}",
            ),
        )
    assignments: list[Assignment] = []
    refusals: list[str] = []
    for chosen in permutations(moving, len(names)):
        given = dict(zip(names, chosen, strict=True))
        against = next(_against(statement, instruction, given), "")
        if against:
            shown = ", ".join(f"{name} = {dim}" for name, dim in given.items())
            refusals.append(f"{shown}: {against}")
            continue
        outer = tuple(d for d in moving if d not in chosen)
        packs = tuple(_misfits(scop, statement, instruction, given))
        assignments.append(Assignment(instruction, given, streams, outer, packs))
    inner = {dim: -place for place, dim in enumerate(dims)}
    assignments.sort(key=lambda a: (len(a.packs), [inner[d] for d in a.dims.values()]))
    return Mapped(tuple(assignments), tuple(refusals))


def _unsuitable(statement: Statement, instruction: Instruction) -> str:
    """What stands against ``statement`` whatever the assignment, or ''."""
    update, own = statement.update, instruction.semantics
    assert own.update is not None, "an instruction accumulates"
    if update is None:
        return f"{statement.name} is no update of an element (+=, max, …)"
    if any(a.may for a in (*statement.writes, *statement.reads)):
        return f"{statement.name} accesses elements that depend on data"
    if any(w.guard for w in statement.writes):
        return f"{statement.name} writes under a condition of its own"
    if instruction.any_update:
        return ""
    if update.monoid.dtypes != own.update.monoid.dtypes:
        return f"{statement.name} is not of {own.update.monoid.dtypes[0]}"
    if update.monoid.name != own.update.monoid.name:
        return f"{instruction.name} folds with {own.update.monoid.name}, not {update.monoid.name}"
    if len(statement.body.results) != 1 or _product(statement.body.results[0]) is None:
        return f"what {statement.name} adds is not a product"
    return ""


def _product(value: Expr) -> tuple[Expr, Expr] | None:
    """The factors of ``value``, its sign left out."""
    match value:
        case Apply("mul", (left, right)):
            return left, right
        case Apply("neg", (inner,)):
            return _product(inner)
    return None


def _against(
    statement: Statement, instruction: Instruction, given: Mapping[str, str]
) -> Iterator[str]:
    """What stands against one assignment."""
    own = instruction.semantics
    shapes = {_along(read, own.dims) for read in own.reads}
    back = {dim: name for name, dim in given.items()}
    seen: set[frozenset[str]] = set()
    for read in statement.reads:
        along = frozenset(back[d] for d in _along(read, tuple(back)))
        if along and along not in shapes:
            both = " and ".join(given[name] for name in own.dims if name in along)
            yield f"{read.tensor} changes along {both}, so nothing of it is used twice"
        seen.add(along)
    for shape in sorted(shapes - seen, key=sorted):
        missing = ", ".join(given[name] for name in own.dims if name in shape)
        yield f"no operand changes along {missing} alone"
    if not instruction.any_update:
        yield from _factors(statement, shapes, back)


def _factors(
    statement: Statement, shapes: Collection[frozenset[str]], back: Mapping[str, str]
) -> Iterator[str]:
    """Each factor of the product has to be made of operands of one shape."""
    for factor in _product(statement.body.results[0]) or ():
        found = frozenset[str]()
        for node in walk(factor):
            if isinstance(node, Load) and isinstance(node.source, int):
                read = statement.reads[node.source]
                found |= frozenset(back[d] for d in _along(read, tuple(back)))
        if found and found not in shapes:
            yield "a factor of the product changes along both rows and lanes"


def _along(access: Access, dims: Sequence[str]) -> frozenset[str]:
    return frozenset(d for d in dims if _moves(access, d))


def _moves(access: Access, dim: str) -> bool:
    return any(
        split is None or bool(split.coefficients.get(dim))
        for split in (linear(index, (dim,)) for index in access.indices)
    )


def _misfits(
    scop: Scop, statement: Statement, instruction: Instruction, given: Mapping[str, str]
) -> Iterator[Misfit]:
    """Operands that are not contiguous along the dims that want it."""
    numbered = [(None, w) for w in statement.writes]
    for name, layout in instruction.layouts.items():
        for number, access in (*numbered, *enumerate(statement.reads)):
            moves = layout == "contiguous" and _moves(access, given[name])
            if moves and not _contiguous(scop, access, given[name]):
                yield Misfit(number, access.tensor, given[name])


def _contiguous(scop: Scop, access: Access, dim: str) -> bool:
    """Whether neighbours along ``dim`` are so in memory: only the last index moves, by 1."""
    indices = access.indices[scop.tensor(access.tensor).contracted :]
    steps = []
    for index in indices:
        split = linear(index, (dim,))
        steps.append(None if split is None else split.coefficients.get(dim, 0))
    return bool(steps) and steps[-1] == 1 and not any(steps[:-1])
