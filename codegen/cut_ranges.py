"""Cut ranges: an innermost loop is cut where conditions on its variable change.

    for j in 0 .. M:                 for j in 0 .. 1: …guarded
      if j >= 1: A[j] = …      →     for j in 1 .. M: A[j] = …; B[j] = …
      B[j] = …

The middle, where all such conditions hold, is free of them; what is left at the ends is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.codegen.conditions import parts_of
from weft.codegen.cut_loop import bound_inside, cut_loop, side_of
from weft.codegen.loop_ir import For, If, Kernel, Stmt, walk
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.codegen.unswitch import decided
from weft.frontend.scalar_expr import Expr, Literal
from weft.polyhedral.analysis.linear import mentions


def cut_ranges(kernel: Kernel) -> Kernel:
    """``kernel`` with its innermost loops cut, simplified."""
    return simplify_kernel(replace(kernel, body=_cut(kernel.body)))


def _cut(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _cut)
    if not isinstance(stmt, For) or stmt.step != 1 or stmt.kind not in ("serial", "vector"):
        return stmt
    if any(isinstance(s, For) for s in walk(stmt.body)):
        return stmt
    if isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal):
        return stmt  # written out, and its variable may number registers
    conditions = list(dict.fromkeys(_conditions(stmt)))
    middle = stmt.body
    for condition in conditions:
        middle = decided(middle, condition, holds=True)
    return cut_loop(stmt, conditions, middle) or stmt


def _conditions(loop: For) -> Iterator[Expr]:
    """The conditions in ``loop`` that hold on one side of some value of its variable."""
    bound = bound_inside(loop)
    for stmt in walk(loop.body):
        if isinstance(stmt, If):
            for part in parts_of(stmt.condition):
                if not mentions(part, bound) and side_of(part, loop.var) is not None:
                    yield part
