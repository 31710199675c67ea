"""Cut ranges: an innermost loop is cut where conditions on its variable change.

    for j in 0 .. M:                 for j in 0 .. 1: …guarded
      if j >= 1: A[j] = …      →     for j in 1 .. M: A[j] = …; B[j] = …
      B[j] = …

The middle, where all such conditions hold, is free of them; what is left at the ends is short.
Also known as: loop peeling, index-set splitting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.codegen.conditions import parts_of
from weft.codegen.loop_ir import Block, For, If, Kernel, Let, Stmt, walk
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.codegen.unswitch import decided
from weft.frontend.scalar_expr import Apply, Expr, Literal, Load, apply
from weft.frontend.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import linear, mentions


@dataclass(frozen=True, slots=True)
class _Cut:
    """``condition`` holds from ``value`` on (``lower``), or below it."""

    condition: Expr
    lower: bool
    value: Expr


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
    cuts = list(_cuts(stmt))
    return _apart(stmt, cuts) if cuts else stmt


def _apart(loop: For, cuts: list[_Cut]) -> Stmt:
    begin, end = loop.lower, loop.upper
    middle = loop.body
    for cut in cuts:
        middle = decided(middle, cut.condition, holds=True)
        if cut.lower:
            begin = apply("max", begin, cut.value)
        else:
            end = apply("min", end, cut.value)
    begin = apply("min", begin, loop.upper)
    end = apply("max", end, begin)
    return Block(
        (
            replace(loop, upper=begin),
            replace(loop, lower=begin, upper=end, body=middle),
            replace(loop, lower=end),
        )
    )


def _cuts(loop: For) -> Iterator[_Cut]:
    """The conditions in ``loop`` that hold on one side of some value of its variable."""
    bound = {s.name for s in walk(loop.body) if isinstance(s, Let)}
    seen: set[Expr] = set()
    for stmt in walk(loop.body):
        if isinstance(stmt, If):
            for part in parts_of(stmt.condition):
                if part not in seen and mentions(part, (loop.var,)) and not mentions(part, bound):
                    seen.add(part)
                    yield from _sides(part, loop.var)


def _sides(condition: Expr, var: str) -> Iterator[_Cut]:
    match condition:
        case Apply("ge", (a, b)) | Apply("le", (b, a)):
            slack = a - b
        case Apply("gt", (a, b)) | Apply("lt", (b, a)):
            slack = a - b - 1
        case _:
            return
    if any(isinstance(n, Load) for n in walk_expr(slack)):
        return
    form = linear(slack, (var,))  # >= 0
    factor = None if form is None else form.coefficients.get(var)
    if form is None or factor is None:
        return
    if factor > 0:
        yield _Cut(condition, True, (form.rest * -1 + (factor - 1)) // factor)
    elif factor < 0:
        yield _Cut(condition, False, form.rest // -factor + 1)
