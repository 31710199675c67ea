"""Expand carried: a temporary that one turn of a loop leaves to the next gets an element per turn.

    last = x[0]                              last[0] = x[0]
    for i:                                   for i:
      here = x[i]                 →            here = x[i]
      x[i] = f(last, here)                     x[i] = f(last[i], here)
      last = here                              last[i + 1] = here

Turns no longer wait for one another's use of the memory: where what they leave does not depend on
what they were left, the loop may be distributed and run in vectors.
Also known as: scalar expansion with a shift; the vectorisation of first-order recurrences in LLVM;
array expansion (Feautrier 1988), of which ``expand`` does the case in which nothing is carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_times import schedule_map
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.bounds import Bounds, bounds
from weft.polyhedral.analysis.values_through import Pairs, Through, values_through
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, transformation

Uses = Mapping[tuple[str, int], Expr]  # a use, by statement and number → its new subscript


@transformation
def expand_carried(scheduled: Scheduled, tensor: str, loop: str) -> Scheduled:
    """``tensor`` gets a leading dimension: element 0 is what was there before ``loop``, element k
    what its turn k leaves, counted from 1; a turn reads what the one before it left.

    Raises ``IllegalScheduleError`` (WEFT-E0461) unless the tensor is a temporary with storage of
    its own that is written before it is read, each value goes from one turn to the same or the next
    one or comes from before the loop, and the values of the loop have closed bounds.
    """
    at = scheduled.loop(loop).at
    scop, old = scheduled.scop, scheduled.tensor(tensor)
    try:
        numbers, size = _numbered(scheduled, old, at)
    except _Refused as refused:
        raise IllegalScheduleError(
            "WEFT-E0461", f"{tensor} cannot be expanded along {loop}", why=str(refused)
        ) from None

    def used(s: Statement, accesses: tuple[Access, ...], first: int) -> Iterator[Access]:
        for number, access in enumerate(accesses, first):
            leading = numbers.get((s.name, number))
            yield access if leading is None else _under(access, leading)

    tensors = (replace(t, shape=(size, *t.shape)) if t is old else t for t in scop.tensors)
    statements = (
        replace(
            s,
            reads=tuple(used(s, s.reads, 0)),
            writes=tuple(used(s, s.writes, len(s.reads))),
        )
        for s in scop.statements
    )
    changed = replace(scop, tensors=tuple(tensors), statements=tuple(statements))
    return replace(scheduled, scop=changed)


class _Refused(Exception):
    """Why a tensor cannot be expanded."""


def _numbered(scheduled: Scheduled, tensor: Tensor, at: Mapping[str, Expr]) -> tuple[Uses, Expr]:
    """The new subscript of each use of ``tensor``, and the number of them that there are."""
    scop = scheduled.scop
    if tensor.role != "temp" or tensor.contracted:
        raise _Refused(f"{tensor.name} is no temporary with storage of its own")
    users = [(s, write) for s, _, write in accesses_of(scop, tensor.name)]
    if any(s.update is not None for s, write in users if write):
        raise _Refused(f"{tensor.name} is folded into")
    writers = [s for s, write in users if write and s.name in at]
    limits = bounds(scop, ((s, at[s.name]) for s in writers)) if writers else None
    if limits is None:
        raise _Refused("no turn writes it" if not writers else "its values have no closed bounds")
    through = values_through(scop, tensor.name, schedule_map(scop, scheduled.tree))
    if through.uninitialised:
        raise _Refused(f"{tensor.name} may be read before it is written")
    written = {
        s.name: _turn(s, at, limits) + 1 if s.name in at else literal(0) for s, w in users if w
    }
    numbers = dict(_reads(scop, tensor.name, through, written, at, limits))
    for s in scop.statements:
        for number, access in enumerate(s.writes, len(s.reads)):
            if access.tensor == tensor.name:
                numbers[s.name, number] = written[s.name]
    return numbers, limits.size + 1


def _turn(s: Statement, at: Mapping[str, Expr], limits: Bounds) -> Expr:
    """Which turn of the loop an instance of ``s`` is in, from 0."""
    return at[s.name] - limits.lower


def _reads(
    scop: Scop,
    tensor: str,
    through: Through,
    written: Mapping[str, Expr],
    at: Mapping[str, Expr],
    limits: Bounds,
) -> Iterator[tuple[tuple[str, int], Expr]]:
    """The subscript of each read: where all that it may see is written."""
    for s in scop.statements:
        uses = [number for number, access in enumerate(s.reads) if access.tensor == tensor]
        for k, number in enumerate(uses):
            seen = [p for use, p in through.seen if (use, p.first.name) == (k, s.name)]
            found = _where(s, seen, written, at, limits)
            if found is None:
                raise _Refused(f"what {s.name} reads was not left by the turn before it")
            yield (s.name, number), found


def _where(
    s: Statement,
    seen: list[Pairs],
    written: Mapping[str, Expr],
    at: Mapping[str, Expr],
    limits: Bounds,
) -> Expr | None:
    """The subscript at which ``s`` finds all that it sees, or None."""
    turn = _turn(s, at, limits) if s.name in at else None
    candidates = [literal(0)] if turn is None else [turn + 1, turn]
    with bounded(what="the analysis of private storage"):
        for candidate in candidates:
            if all(pairs.equal(candidate, written[pairs.second.name]) for pairs in seen):
                return candidate
    return None


def _under(access: Access, leading: Expr) -> Access:
    """``access`` with another subscript in front."""
    computed = (leading, *access.body_indices) if access.may else ()
    return replace(access, indices=(leading, *access.indices), body_indices=computed)
