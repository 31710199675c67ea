"""Does one issue of an instruction read what it updates?

    for i, j, k:  Y[i, j] += Y[i, k] * X[k, j]      as      acc[lane] += a[0] * b[lane]

An issue takes its operands before it updates anything. With ``lane = j``, the one of Y[0, 0:8] at
``k = 1`` takes one Y[0, 1] for all lanes; in the loops, the lanes behind ``j = 1`` read it after it
was updated, those before it earlier. With ``lane = i`` it reads elements of column k and updates
those of column j, each lane in a row of its own: that is right.

``map_instruction`` looks at what dims move, not at which elements two accesses share. Wherever a
schedule puts a tile, ``register_tile`` asks about that one; here no position is known, so all are
asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from weft.frontend.scalar_expr import Expr, Var, literal
from weft.polyhedral.analysis.moves import known_extent
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.map_instruction import Assignment
from weft.polyhedral.named_isl import access_map, constrained, sample
from weft.polyhedral.schedule_verifier import for_parameters, instance
from weft.polyhedral.scop import Access, Constraint, Scop, Statement

AGAIN = " again"  # behind the names of the second instance's dims


def issue_conflict(scop: Scop, statement: Statement, found: Assignment) -> str:
    """Two instances that one issue may have, of which one updates what the other reads, in words;
    '' where there are none."""
    together = list(_together(statement, found))
    for write in statement.writes:
        for read in statement.reads:
            if read.tensor == write.tensor:
                conflict = _meeting(scop, statement, (write, read), together)
                if conflict:
                    return conflict
    return ""


def _together(statement: Statement, found: Assignment) -> Iterator[Constraint]:
    """What holds of two instances in one issue, wherever that begins."""
    inside = {d for dims in found.dims.values() for d in dims}
    for dim in statement.dims:
        if dim not in inside:
            yield Constraint(Var(dim) - Var(dim + AGAIN), equality=True)
    for own, dims in found.dims.items():
        away = _counted(statement, dims, "") - _counted(statement, dims, AGAIN)
        farthest = found.instruction.extents[own] - 1
        yield from (Constraint(farthest - away), Constraint(farthest + away))


def _counted(statement: Statement, dims: Sequence[str], suffix: str) -> Expr:
    """The number of a point of ``dims``, the last one fastest: ``14 * h + w``."""
    number: Expr = literal(0)
    for dim in dims:
        number = number * (known_extent(statement, dim) or 1) + Var(dim + suffix)
    return number


def _meeting(
    scop: Scop,
    statement: Statement,
    accesses: tuple[Access, Access],
    together: Sequence[Constraint],
) -> str:
    write, read = accesses
    with bounded(what="the check of what an issue reads and updates"):
        updates = access_map(scop, statement, write)
        pairs = updates.apply_range(access_map(scop, statement, read).reverse())
        # One instance may read what it updates itself: it does so first in any case.
        others = pairs.subtract(isl.Map.identity(pairs.get_space())).wrap().flatten()
        names = (*statement.dims, *(d + AGAIN for d in statement.dims))
        near = constrained(others.get_space(), names, together)
        point = sample(others.intersect(isl.Set.from_basic_set(near)))
    if point is None:
        return ""
    parameters, values = point
    first, second = values[: len(statement.dims)], values[len(statement.dims) :]
    return (
        f"one issue may update an element of {write.tensor} for {instance(statement, first)} "
        f"and read it for {instance(statement, second)}{for_parameters(parameters)}"
    )
