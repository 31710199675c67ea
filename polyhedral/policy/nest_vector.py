"""The loops of one statement that nothing else shares: which runs innermost, as a vector.

A loop is worth a vector if it moves through memory by one element (or not at all) in most accesses:
each access costs 1 for a whole vector where it is contiguous, nothing where it is invariant, and
one load for each lane where it jumps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.machine import Machine
from weft.polyhedral.scop import Access, Scop, Statement

JUMP = 1.5  # cost of one lane of an access that is not contiguous, in contiguous vectors


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector loop along ``dim``; ``cost`` of the accesses of one vector of ``lanes`` elements."""

    dim: str
    lanes: int
    cost: float


def free_dims(statement: Statement, above: Sequence[Mapping[str, Expr]]) -> tuple[str, ...]:
    """The dims, in textual order, that the loops ``above`` leave open."""
    left = [p for p in statement.position if isinstance(p, str)]
    for at in above:
        form = linear(at[statement.name], left)
        if form is not None and len(form.coefficients) == 1:
            ((dim, factor),) = form.coefficients.items()
            if factor in (1, -1):
                left.remove(dim)
    return tuple(left)


def choose_lanes(
    scop: Scop, statement: Statement, dims: Sequence[str], machine: Machine
) -> Lanes | None:
    """The best of ``dims`` to run as a vector; None if scalars are no slower."""
    lanes = min(machine.lanes(scop.tensor(w.tensor).dtype) for w in statement.writes)
    accesses = (*statement.reads, *statement.writes)
    found = [
        Lanes(dim, lanes, sum(_cost(access, dim, lanes) for access in accesses)) for dim in dims
    ]
    best = min(reversed(found), key=lambda x: x.cost, default=None)
    if best is None or lanes == 1 or best.cost >= lanes * len(accesses):
        return None
    return best


def _cost(access: Access, dim: str, lanes: int) -> float:
    if access.may:
        return lanes * JUMP
    if not any(mentions(i, (dim,)) for i in access.indices):
        return 0.0
    *outer, last = access.indices
    if any(mentions(i, (dim,)) for i in outer):
        return lanes * JUMP
    form = linear(last, (dim,))
    contiguous = form is not None and form.coefficients.get(dim) in (1, -1)
    return 1.0 if contiguous else lanes * JUMP


def strides_last(statement: Statement, dims: Sequence[str]) -> tuple[str, ...]:
    """``dims`` ordered so that those in the leading indices of the accesses come first."""

    def depth(dim: str) -> tuple[float, int]:
        places = [
            k / len(access.indices)
            for access in (*statement.writes, *statement.reads)
            for k, index in enumerate(access.indices)
            if mentions(index, (dim,))
        ]
        return (sum(places) / len(places) if places else 1.0, list(dims).index(dim))

    return tuple(sorted(dims, key=depth))


def variable(dim: str) -> Expr:
    return Var(dim)
