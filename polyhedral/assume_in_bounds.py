"""Sizes for which an access would leave its tensor are excluded from a Scop's context.

    context n >= 0; y[i] = x[max(i - 1, 0)] for 0 <= i <= n    →    context n >= 1

What remains is what the code is proved for, and is checked when it is called.
"""

from __future__ import annotations

from dataclasses import replace

from weft.polyhedral.analysis.in_bounds import constraints_for, needs
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.scop import Scop


def assume_in_bounds(scop: Scop) -> Scop:
    """``scop`` with a context in which no access is out of bounds, if one conjunction says so.

    Otherwise, and where no sizes at all would be left, ``scop`` itself, whose bounds check fails
    with an explanation. Data-dependent accesses are checked when they happen.
    """
    with bounded(what="the choice of sizes"):
        found = constraints_for(scop, [need.sizes for need in needs(scop)])
    return replace(scop, context=tuple(dict.fromkeys((*scop.context, *found)))) if found else scop
