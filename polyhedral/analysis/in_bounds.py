"""For which sizes accesses stay inside their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from weft.frontend.scalar_expr import Expr
from weft.polyhedral.named_isl import access_map, constraints_of, context_set, tensor_box
from weft.polyhedral.scop import Constraint, Scop


@dataclass(frozen=True, slots=True)
class Need:
    """``sizes`` for which an access stays inside its tensor along an axis of ``length``, wherever
    it is performed at all; ``performed``: whether it is for any of them."""

    sizes: isl.Set
    length: Expr
    performed: bool


def needs(scop: Scop) -> Iterator[Need]:
    """One for each access and axis along which it leaves its tensor for some sizes.

    Data-dependent accesses are left out: they are checked when they happen.
    """
    for statement in scop.statements:
        for access in (*statement.reads, *statement.writes):
            if access.may:
                continue
            touched = access_map(scop, statement, access)
            if touched.range().is_subset(tensor_box(scop, access.tensor)):
                continue
            performed = touched.domain().params()
            for axis, length in enumerate(scop.tensor(access.tensor).shape):
                outside = touched.subtract_range(tensor_box(scop, access.tensor, axis))
                bad = outside.domain().params()
                good = performed.subtract(bad)
                if good.is_empty():
                    yield Need(context_set(scop).subtract(bad).coalesce(), length, False)
                elif not bad.is_empty():
                    yield Need(good.coalesce().gist(performed).coalesce(), length, True)


def constraints_for(scop: Scop, sizes: Sequence[isl.Set]) -> tuple[Constraint, ...]:
    """What the context says not yet of what is in all of ``sizes``; nothing where they have nothing
    in common, or more than one conjunction has to say it."""
    if not sizes:
        return ()
    context = context_set(scop)
    common = reduce(isl.Set.intersect, sizes)
    found = common.gist(context).coalesce()
    if common.is_disjoint(context) or found.n_basic_set() != 1:
        return ()
    return constraints_of(isl.BasicSet.from_params(found.get_basic_sets()[0]), ())
