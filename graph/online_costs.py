"""Whether sums of exponentials gain from blocks, and of which size: an analytical model of traffic.

Rows that are in memory anyway are read again and again if no cache holds one. Rows of scores, which
one product makes and another uses, go through memory unless L2 holds enough of them at a time
(``analysis/work``) or L3 all of them. A block takes a quarter of a cache: of L2, for the operands
that all rows read along it (in attention, keys and values), or else of L1, which keeps it from the
maximum to the sum.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from weft.graph.access_pattern import extent
from weft.graph.correlation import variables
from weft.graph.exponentials import Family, Sum
from weft.graph.fusion_rules import size_text
from weft.graph.online_blocks import Blocks
from weft.graph.whole_program import WholeProgram, computed, reduces, sources
from weft.ir.machine import Machine
from weft.ir.scalar_expr import Expr, Load, Var, walk
from weft.ir.tensor_expr import Compute, Operation, Tensor, constant_size
from weft.polyhedral.analysis.work import rows_in_cache

STEP = 64  # block sizes are multiples of this: a few vectors


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a family. ``alone``: operations that compute x for it alone, up to the first
    reduction, if one of the family's sums is a product with x as an operand. ``between``:
    operations that compute factors of its sums from others of its results."""

    alone: frozenset[Operation]
    between: frozenset[Operation]


def context_of(family: Family, program: WholeProgram) -> Context | None:
    """The context of ``family``; None if terms of one of its sums depend on another."""
    between = _between(family, program)
    if between is None:
        return None
    alone = _alone(family, program) if any(map(_is_product, family.sums)) else frozenset()
    return Context(alone, between)


def _is_product(s: Sum) -> bool:
    """Whether each exponential of a row contributes to several results."""
    rows = {n for index in s.at for n in variables(index)}
    own = {a.name for a in s.operation.axes} - rows
    return any(not own.isdisjoint(variables(e)) for e in s.along)


def _alone(family: Family, program: WholeProgram) -> frozenset[Operation]:
    own = set(family.operations)
    through = {o for s in family.sums for o in s.through}
    own |= program.only_for(own, through)
    m = family.maximum
    size = _elements(m.operation) * extent(m.axis.extent)
    found: set[Operation] = set()
    pending = list(computed(m.x))
    while pending:
        operation = pending.pop()
        if operation in program.final or not program.readers[operation] <= own | found:
            continue  # visited again after the last of its readers
        if _elements(operation) == size and operation not in found:
            found.add(operation)
            if not reduces(operation):
                pending += computed(operation.values[0])
    return frozenset(found)


def _between(family: Family, program: WholeProgram) -> frozenset[Operation] | None:
    known = dict.fromkeys(family.operations, True)
    for s in family.sums:
        if any(program.needs(o, known) for e in s.along for o in sources(e)):
            return None
    outside = [o for s in family.sums for e, _ in s.outside for o in sources(e)]
    found: set[Operation] = set()
    pending = [o for o in outside if program.needs(o, known)]
    while pending:
        operation = pending.pop()
        if operation in found or operation in family.operations:
            continue
        if not isinstance(operation, Compute) or operation.scan or reduces(operation):
            return None
        found.add(operation)
        inner = [o for v in operation.values for o in sources(v)]
        pending += [o for o in inner if program.needs(o, known)]
    return frozenset(found)


def _elements(operation: Compute) -> int:
    return prod(extent(a.extent) for a in operation.axes)


def blocks_for(
    family: Family, context: Context | None, machine: Machine, *, cut: bool = False
) -> tuple[Blocks | None, str]:
    """The blocks in which ``family`` moves fewer bytes, if there are any, and the reason, for
    people.

    ``cut``: constants rule some of x out, which is not computed if it is used where it is made.
    """
    if context is None:
        return None, "whole rows, since terms of one sum depend on another"
    m = family.maximum
    length = constant_size(m.axis.extent)
    if length is None:
        return None, "whole rows, since how long they are is not known"
    scores = _scores(family, context.alone)
    row, l2 = length * m.fold.dtype.itemsize, machine.l2
    if scores is None:
        why = f"each of {size_text(row)}" if 2 * row <= l2 else ""
    elif scores.rows is None:
        return None, "whole rows, since how many there are is not known"
    else:
        why = _stays(scores.rows, row, scores.shared * length, machine, cut=cut)
    if why:
        return None, f"whole rows, {why}, which stay in a cache"
    room = machine.caches[0].size // 4 // m.fold.dtype.itemsize
    if scores is not None:
        room = l2 // 4 // scores.shared
    size = _block(length, room)
    if size is None:
        return None, "whole rows, since one block is all of a row"
    blocks = Blocks(length, size)
    made = "" if scores is None else ", of scores that are made block by block"
    return blocks, (
        f"{blocks.count} blocks of {size} along {m.axis.name}, since rows of {size_text(row)} do "
        f"not stay in a cache of {size_text(l2)}: one pass for the maximum and "
        f"{len(family.sums)} sum{'s' * (len(family.sums) > 1)}{made}"
    )


@dataclass(frozen=True, slots=True)
class _Scores:
    """x, if it is a reduction: ``rows`` that read the same operands (None: unknown), ``shared``:
    bytes of these per element of a row."""

    rows: int | None
    shared: int


def _scores(family: Family, alone: Collection[Operation]) -> _Scores | None:
    """x as a reduction; None if it is none."""
    along = _along(family, alone)
    sums = [(o, name) for o, name in along.items() if reduces(o)]
    if not sums:
        return None
    shared, moved = 0, set[str]()
    for operation, name in sums:
        for load in _loads(operation.values[0], name):
            moved |= set(variables(load))
            shared += _bytes(load, {a.name for a in operation.axes})
    for s in family.sums:
        rows = {n for index in s.at for n in variables(index)}
        for load in (found for e in s.along for found in _loads(e, s.axis.name)):
            shared += _bytes(load, {*rows, s.axis.name})
    (operation, name), *_ = sums
    sizes = [constant_size(a.extent) for a in operation.axes if a.name not in {*moved, name}]
    known = [n for n in sizes if n is not None]
    return _Scores(prod(known) if len(known) == len(sizes) else None, max(shared, 1))


def _along(family: Family, alone: Collection[Operation]) -> dict[Compute, str]:
    """The operations that compute x, with the name of the loop along its rows."""
    found: dict[Compute, str] = {}
    pending: list[tuple[Expr, str]] = [(family.maximum.x, family.maximum.axis.name)]
    while pending:
        expr, name = pending.pop()
        for load in _loads(expr, name):
            source = load.source
            operation = source.operation if isinstance(source, Tensor) else None
            if isinstance(operation, Compute) and operation in alone and operation not in found:
                places = zip(operation.axes, load.indices, strict=True)
                axes = [a.name for a, i in places if isinstance(i, Var) and i.name == name]
                if len(axes) == 1:
                    found[operation] = axes[0]
                    pending.append((operation.values[0], axes[0]))
    return found


def _loads(expr: Expr, name: str) -> list[Load]:
    """The loads of ``expr`` that move with the loop ``name``."""
    return [n for n in walk(expr) if isinstance(n, Load) and name in variables(n)]


def _bytes(load: Load, without: Collection[str]) -> int:
    """Bytes that ``load`` reads in one iteration of the loops ``without``."""
    source = load.source
    assert isinstance(source, Tensor)
    turns = 1
    for size, index in zip(source.shape, load.indices, strict=True):
        if not set(variables(index)) <= set(without):
            turns *= extent(size)
    return turns * load.dtype.itemsize


def _stays(rows: int, row: int, held: int, machine: Machine, *, cut: bool) -> str:
    """Why scores stay in a cache between the products; '' if they do not. If L3 holds all of them,
    that is as fast as blocks, which rescale their sums, unless constants ``cut`` them: what is
    ruled out would still be stored and read."""
    if not cut and 2 * rows * row <= machine.caches[-1].size:
        return f"{size_text(rows * row)} in all"
    together = rows_in_cache(machine.l2, rows, 2 * row, held)
    return f"{together} at a time" if together else ""


def _block(length: int, room: int) -> int | None:
    """The block size of at most ``room`` elements and more than half of that with the smallest
    remainder; None if one block is the whole row."""
    most = max(room // STEP, 1) * STEP
    if length <= most:
        return None
    return min(range(most, most // 2, -STEP), key=lambda size: (length % size, -size))
