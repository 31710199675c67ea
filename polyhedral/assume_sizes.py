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

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from weft.frontend.scalar_expr import Expr, Var, walk
from weft.polyhedral.analysis.in_bounds import constraints_for, needs
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.named_isl import context_set, parameter_is_bounded
from weft.polyhedral.scop import Scop


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
    names = {node.name for size in sizes for node in walk(size) if isinstance(node, Var)}
    before = after = context_set(scop)
    for each in assumed:
        after = after.intersect(each)
    return any(
        parameter_is_bounded(after, k) and not parameter_is_bounded(before, k)
        for k, name in enumerate(scop.parameters)
        if name in names
    )
