"""Cut ranges: an innermost loop is cut where conditions on its variable change.

    for j in 0 .. M:                 for j in 0 .. 1: …guarded
      if j >= 1: A[j] = …      →     for j in 1 .. M: A[j] = …; B[j] = …
      B[j] = …

The middle, where all such conditions hold, is free of them; what is left at the ends is short.
Also known as: loop peeling, index-set splitting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
class Cut:
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


def _apart(loop: For, cuts: list[Cut]) -> Stmt:
    middle = loop.body
    for cut in cuts:
        middle = decided(middle, cut.condition, holds=True)
    return in_three(loop, cuts, middle)


def in_three(loop: For, cuts: Sequence[Cut], middle: Stmt) -> Block:
    """``loop`` before, between and after ``cuts``; its body between them is ``middle``."""
    begin, end = loop.lower, loop.upper
    for cut in cuts:
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


def _cuts(loop: For) -> Iterator[Cut]:
    """The conditions in ``loop`` that hold on one side of some value of its variable."""
    bound = {s.name for s in walk(loop.body) if isinstance(s, Let)}
    seen: set[Expr] = set()
    for stmt in walk(loop.body):
        if isinstance(stmt, If):
            for part in parts_of(stmt.condition):
                if part not in seen and mentions(part, (loop.var,)) and not mentions(part, bound):
                    seen.add(part)
                    yield from sides(part, loop.var)


def sides(condition: Expr, var: str) -> Iterator[Cut]:
    """From where on, or up to where, ``condition`` holds; nothing where it has no such form."""
    match condition:
        case Apply("ge", (a, b)) | Apply("le", (b, a)):
            slack = _slack(a, b)
        case Apply("gt", (a, b)) | Apply("lt", (b, a)):
            slack = _slack(a, b + 1)
        case _:
            return
    if any(isinstance(n, Load) for n in walk_expr(slack)):
        return
    form = linear(slack, (var,))  # >= 0
    factor = None if form is None else form.coefficients.get(var)
    if form is None or factor is None:
        return
    if factor > 0:
        yield Cut(condition, True, (form.rest * -1 + (factor - 1)) // factor)
    elif factor < 0:
        yield Cut(condition, False, form.rest // -factor + 1)


def _slack(a: Expr, b: Expr) -> Expr:
    """What is not negative exactly where ``a >= b``, without a division on either side."""
    match a, b:
        case _, Apply("floordiv", (x, Literal(d, _))):
            return a * d + (int(d) - 1) - x
        case Apply("floordiv", (x, Literal(d, _))), _:
            return x - b * d
    return a - b
