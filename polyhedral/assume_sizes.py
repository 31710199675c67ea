"""Sizes that keep a loop program in bounds: what its author takes for granted, made explicit.

    for t in range(steps): … f[t] …      f of T elements       assume steps <= T

Of each access that could leave its tensor, the sizes for which it does not, wherever it is
performed at all. An access that stays inside for small arrays only is a mistake in the program, not
an assumption: nothing is assumed then, and the bounds check explains. What is assumed is what the
code is proved for, and is checked when it is called.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    constraints_of,
    context_set,
    parameter_is_bounded,
    tensor_box,
)
from weft.ir.scalar_expr import Var, walk
from weft.ir.scop import Constraint, Scop


def assume_sizes(scop: Scop) -> Scop:
    """``scop`` with a context in which no access is out of bounds, if conjunctions say so that
    bound no size of a tensor from above by a number. Otherwise ``scop`` itself.

    Data-dependent accesses are checked when they happen.
    """
    found: dict[Constraint, None] = {}
    with bounded(what="the choice of sizes"):
        context = context_set(scop)
        for statement in scop.statements:
            for access in (*statement.reads, *statement.writes):
                if access.may:
                    continue
                touched = access_map(scop, statement, access)
                outside = touched.subtract_range(tensor_box(scop, access.tensor))
                if outside.is_empty():
                    continue
                needed = _needed(touched.domain().params(), outside.domain().params())
                if needed is None:
                    return scop
                found |= dict.fromkeys(constraints_of(isl.BasicSet.from_params(needed), ()))
        if not found:
            return scop
        assumed = replace(scop, context=tuple(dict.fromkeys((*scop.context, *found))))
        return assumed if _as_large(assumed, context) else scop


def _needed(performed: isl.Set, bad: isl.Set) -> isl.BasicSet | None:
    """One conjunction that excludes ``bad`` and little else where the access is ``performed``."""
    good = performed.subtract(bad).coalesce()
    simple = good.gist(performed).coalesce()
    if good.is_empty() or simple.n_basic_set() != 1:
        return None
    one = simple.get_basic_sets()[0]
    return one if isl.Set.from_basic_set(one).is_disjoint(bad) else None


def _as_large(scop: Scop, context: isl.Set) -> bool:
    """Whether every size of a tensor may still be as large as in ``context``."""
    assumed = context_set(scop)
    sizes = {
        node.name
        for tensor in scop.tensors
        for size in tensor.shape
        for node in walk(size)
        if isinstance(node, Var)
    }
    return not assumed.is_empty() and all(
        parameter_is_bounded(context, k) or not parameter_is_bounded(assumed, k)
        for k, name in enumerate(scop.parameters)
        if name in sizes
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
        context = context_set(scop)
        good = context
        for statement in scop.statements:
            for access in (*statement.reads, *statement.writes):
                if not access.may:
                    touched = access_map(scop, statement, access)
                    outside = touched.subtract_range(tensor_box(scop, access.tensor))
                    if not outside.is_empty():
                        good = good.subtract(outside.params())
        good = good.coalesce()
        if good.is_equal(context) or good.is_empty() or good.n_basic_set() != 1:
            return scop
        found = isl.BasicSet.from_params(good.gist(context).get_basic_sets()[0])
        return replace(scop, context=(*scop.context, *constraints_of(found, ())))
