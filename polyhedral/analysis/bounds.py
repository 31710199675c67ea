"""Closed bounds: the least and greatest value that expressions take over statements' instances.

A bound is one quasi-affine expression of the parameters (shapes admit nothing else), so it may be
loose where the exact bound is a minimum or maximum of several; isl proves that it is a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    affine_of,
    context_set,
    coordinate,
    domain_set,
    has_upper_bound,
    multi_aff,
    to_aff,
    tuple_space,
    without_parameters,
)
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr
from weft.ir.scop import Scop, Statement

Values = Iterable[tuple[Statement, Expr | Affine]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """All values lie in ``lower`` … ``upper``, both inclusive; ``size`` is their number, and, if it
    was asked for as a size of storage, not negative in the context even where there are none."""

    lower: Expr
    upper: Expr
    size: Expr


def bounds(
    scop: Scop, values: Values, *, from_zero: bool = False, stored: bool = True
) -> Bounds | None:
    """Bounds of all ``values``, or None where there is no closed form.

    The lower bound is constant where one exists; ``from_zero``, it is 0 then if none is negative.
    ``stored``: the size is one of storage; the number of a loop's iterations may have no closed
    form that is never negative where a number of the caller's is its bound. Raises
    BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="the bounds of index expressions"):
        taken = _taken(scop, values)
        if taken.is_empty():
            return Bounds(to_expr(Affine()), to_expr(Affine((), -1)), to_expr(Affine()))
        lower, upper = _lower(scop, taken, from_zero), _upper(scop, taken)
        if lower is None or upper is None:
            return None
        number = (upper - lower).plus(1)
        size = _not_negative(scop, number) if stored else number
        return None if size is None else Bounds(to_expr(lower), to_expr(upper), to_expr(size))


def _taken(scop: Scop, values: Values) -> isl.Set:
    """The set of all values, by parameters."""
    target = tuple_space(scop, "", 1)
    taken = isl.Set.empty(target)
    for statement, value in values:
        image = isl.Map.from_multi_aff(multi_aff(scop, statement, [value], target))
        taken = taken.union(image.intersect_domain(domain_set(scop, statement)).range())
    return taken.coalesce()


def _lower(scop: Scop, taken: isl.Set, from_zero: bool) -> Affine | None:
    least = without_parameters(taken).dim_min_val(0)
    if least.is_int():
        constant = least.to_python()
        return Affine((), min(0, constant) if from_zero else constant)
    upper = _upper(scop, taken.neg())
    return None if upper is None else upper.scaled(-1)


def _upper(scop: Scop, taken: isl.Set) -> Affine | None:
    """A bound that is exact for some parameters, a constant if possible, or else the sum of
    all of these."""
    if not has_upper_bound(taken):
        return None
    exact = (affine_of(aff, ()) for _, aff in taken.dim_max(0).get_pieces())
    candidates = sorted(dict.fromkeys(exact), key=lambda c: (len(c.terms), repr(c)))
    found = next((c for c in candidates if _holds(taken, c)), None)
    if found is not None:
        return found
    positive = [_not_negative(scop, c) for c in candidates]
    together = sum((c for c in positive if c is not None), Affine())
    return together if _holds(taken, together) else None


def _holds(taken: isl.Set, bound: Affine) -> bool:
    space = taken.get_space()
    beyond = coordinate(space).sub(to_aff(bound, ("value",), space)).add_constant_val(-1)
    return taken.add_constraint(isl.Constraint.inequality_from_aff(beyond)).is_empty()


def _not_negative(scop: Scop, size: Affine) -> Affine | None:
    """``size``, or somewhat more, so that it is at least 0 in the context."""
    point = tuple_space(scop, "", 0)
    context = isl.Set.universe(point).intersect_params(context_set(scop))
    least = context.min_val(to_aff(size, (), point))
    if least.is_int():
        return size.plus(max(0, -least.to_python()))
    return None
