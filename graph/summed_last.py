"""A correlation on a copy of x in which the loops of its sum are contiguous.

    S[n, o, i] = Σ_{c, k} x(n, c, i + k) * w(o, c, k)
    →
    X[n, p, c] = x(n, c, p)
    T[n, i, o] = Σ_{c, k} X[n, i + k, c] * w(o, c, k)
    S[n, o, i] = T[n, i, o]

Then no slide steps through contiguous memory, and whatever is done along one has vectors along the
loops that do not slide. T is a correlation as S was, along the same loops.
"""

from __future__ import annotations

from dataclasses import replace

from weft.frontend.scalar_expr import Expr, rewrite, substitute
from weft.frontend.scalar_simplify import simplify
from weft.frontend.tensor_expr import Compute, Reduce, Tensor
from weft.graph.correlation import Correlation, positioned, variables
from weft.graph.places import Names, places_of, tensor_of


def summed_last(c: Correlation) -> Tensor:
    """T, for ``c``."""
    own = places_of(c, Names(c))
    summed = {axis.name for axis in c.fold.axes}
    order = sorted(own.axes, key=lambda name: name in summed)
    value = simplify(substitute(positioned(c.x, own.places), own.shifted))
    copy = tensor_of(f"{c.operation.name}_turned", [own.axes[n] for n in order], value)
    moving = set(variables(c.x))
    loops = sorted(c.operation.axes, key=lambda axis: axis.name not in moving)
    product = copy[tuple(own.read[n] for n in order)] * c.w
    total = replace(c.fold, values=(product,), condition=None)
    return tensor_of(f"{c.operation.name}_last", loops, total)


def turned_back(c: Correlation, sums: Tensor) -> Compute:
    """The operation of ``c``, from T."""
    assert isinstance(sums.operation, Compute)
    total = sums[sums.operation.axes]

    def change(node: Expr) -> Expr | None:
        return total if isinstance(node, Reduce) else None

    return replace(c.operation, values=(rewrite(c.operation.values[0], change),))
