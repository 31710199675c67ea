"""Sizes for which an access would leave its tensor are excluded from a Scop's context.

    context n >= 0; y[i] = x[max(i - 1, 0)] for 0 <= i <= n    →    context n >= 1

What remains is what the code is proved for, and is checked when it is called.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from weft.polyhedral.isl_context import bounded
from weft.polyhedral.named_isl import access_map, constraints_of, context_set, tensor_box
from weft.polyhedral.scop import Scop


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
