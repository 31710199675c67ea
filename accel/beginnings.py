"""Which instructions begin a sum: those that add what another one adds, but not to what was there.

A machine without an instruction that fills its accumulators may have a flag that says not to add;
that makes two operations of one.
"""

from __future__ import annotations

from weft.accel.abilities import Compute
from weft.frontend.scalar_expr import Apply, Literal, Var


def begins(compute: Compute) -> float | None:
    """The number that ``compute`` sums up from, whatever its target held; without a sum there is
    nothing to begin with but 0."""
    if compute.step.update is None:
        return 0
    match compute.first:
        case Literal(value=int() | float() as value):
            return value
    return None


def alike(compute: Compute, other: Compute) -> bool:
    """Whether ``other`` adds what ``compute`` adds, to the same memory."""

    def form(each: Compute) -> object:
        number: dict[str, int] = {}
        for access in (*each.step.writes, *each.step.reads):
            for index in access.indices:
                if isinstance(index, Var):
                    number.setdefault(index.name, len(number))
        places = tuple(
            tuple(number[i.name] if isinstance(i, Var) else -1 for i in access.indices)
            for access in (*each.step.writes, *each.step.reads)
        )
        memories = tuple((a.memory, a.group) for a in (each.target, *each.operands))
        return places, {number[d]: n for d, n in each.extents.items() if d in number}, memories

    summed = compute.step.update is not None and (
        other.step.update is None
        or other.step.update.monoid.combined == compute.step.update.monoid.combined
    )
    if not summed or form(compute) != form(other) or other.words != compute.words:
        return False
    if other.step.update is None and not _only_adds(compute):
        return False
    return other.copies == compute.copies and (other.step.body.results == compute.step.body.results)


def _only_adds(compute: Compute) -> bool:
    """Whether each turn adds one value, and what it adds to 0 stays what it is."""
    update = compute.step.update
    if update is None or update.dims:
        return False
    match update.monoid.combined[0]:
        case Apply("add", (Var(), Var())):
            return True
    return False
