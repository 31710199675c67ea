"""Sizes that keep a loop program in bounds: what its author takes for granted, made explicit.

    for t in range(steps): … f[t] …      f of T elements       assume steps <= T

Of each access that could leave its tensor, the sizes for which it does not, wherever it is
performed at all. An access that stays inside small arrays only is a mistake in the program, not
an assumption: nothing is assumed then, and the bounds check explains.

    for i in range(S - 4): for p in range(F): x[i + p]     x of S elements: assume F <= 5
    for i in range(S): x[2 * i]                            a mistake: S <= 1

What is assumed is what the code is proved for, and is checked when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    constraints_of,
    context_set,
    parameter_is_bounded,
    tensor_box,
)
from weft.ir.scalar_expr import Expr, variable_names
from weft.ir.scop import Constraint, Scop


def assume_sizes(scop: Scop) -> Scop:
    """``scop`` with a context in which no access is out of bounds, if one conjunction says so.
    Otherwise ``scop`` itself; and where a number would bound a size from above because what has
    this size is left, or because of several accesses that alone bound none.

    Data-dependent accesses are checked when they happen.
    """
    every = [size for tensor in scop.tensors for size in tensor.shape]
    with bounded(what="the choice of sizes"):
        found = list(needs(scop))
        if any(not n.performed or _limit(scop, [n.sizes], [n.length]) for n in found):
            return scop
        unlimited = [n.sizes for n in found if not _limit(scop, [n.sizes], every)]
        if _limit(scop, unlimited, every):
            return scop
        assumed = constraints_for(scop, [n.sizes for n in found])
    return replace(scop, context=tuple(dict.fromkeys((*scop.context, *assumed))))


def _limit(scop: Scop, assumed: Sequence[isl.Set], sizes: Sequence[Expr]) -> bool:
    """Whether a number bounds a parameter in ``sizes`` that is open but for what is ``assumed``."""
    names = {name for size in sizes for name in variable_names(size)}
    before = after = context_set(scop)
    for each in assumed:
        after = after.intersect(each)
    return any(
        parameter_is_bounded(after, k) and not parameter_is_bounded(before, k)
        for k, name in enumerate(scop.parameters)
        if name in names
    )


# ---- Sizes for which an access would leave its tensor are excluded from a Scop's context.
#
#     context n >= 0; y[i] = x[max(i - 1, 0)] for 0 <= i <= n    →    context n >= 1
#
# What remains is what the code is proved for, and is checked when it is called.


def assume_in_bounds(scop: Scop) -> Scop:
    """``scop`` with a context in which no access is out of bounds, if one conjunction says so.

    Otherwise, and where no sizes at all would be left, ``scop`` itself, whose bounds check fails
    with an explanation. Data-dependent accesses are checked when they happen.
    """
    with bounded(what="the choice of sizes"):
        found = constraints_for(scop, [need.sizes for need in needs(scop)])
    return replace(scop, context=tuple(dict.fromkeys((*scop.context, *found)))) if found else scop


# ---- For which sizes accesses stay inside their tensors.


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
        for access in statement.accesses:
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
