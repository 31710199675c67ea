"""Split at conditions: an innermost loop is split where conditions on its variable change.

    for j in 0 .. M:                 for j in 0 .. 1: …guarded
      if j >= 1: A[j] = …      →     for j in 1 .. M: A[j] = …; B[j] = …
      B[j] = …

Selects that choose what is loaded count as well: y[j] = x[j - 1 if j >= 1 else 0]. In the middle
every condition has the value that it has in most iterations, and comparisons that follow from it
are decided. The parts at the ends are short.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.codegen.conditions import implied, opposite, parts_of, slack
from weft.codegen.cut_loop import bound_inside, cut_loop, side_of
from weft.codegen.rebuild import map_scopes
from weft.codegen.simplify import simplified
from weft.codegen.unswitch import decided
from weft.ir import dtypes
from weft.ir.loop_ir import For, If, Kernel, Stmt, expressions, walk
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Select, has_loads
from weft.polyhedral.analysis.linear import mentions


def cut_ranges(kernel: Kernel) -> Kernel:
    """``kernel`` with its innermost loops split, simplified."""
    return simplified(kernel, _cut(kernel.body, frozenset(kernel.parameters)))


def _cut(stmt: Stmt, names: frozenset[str]) -> Stmt:
    stmt = map_scopes(stmt, names, _cut)
    if not isinstance(stmt, For) or stmt.step != 1 or stmt.kind not in ("serial", "vector"):
        return stmt
    if any(isinstance(s, For) for s in walk(stmt.body)):
        return stmt
    if isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal):
        return stmt  # unrolled, and its variable may number registers
    conditions = list(dict.fromkeys(_conditions(stmt)))
    middle = stmt.body
    for condition in conditions:
        middle = decided(middle, condition, holds=True)
    known = [form for condition in conditions if (form := slack(condition)) is not None]
    return cut_loop(stmt, conditions, implied(middle, known), names) or stmt


def _conditions(loop: For) -> Iterator[Expr]:
    """Conditions that hold on one side of a value of the loop's variable and decide selects or
    guards in the loop."""
    bound = bound_inside(loop)

    def has_side(part: Expr) -> bool:
        return not mentions(part, bound) and side_of(part, loop.var) is not None

    for stmt in walk(loop.body):
        if isinstance(stmt, If):
            yield from filter(has_side, parts_of(stmt.condition))
        for expr in expressions(stmt):
            for case in _cases(expr):
                yield from filter(has_side, _usual(case, loop))


def _cases(expr: Expr) -> Iterator[Select]:
    """The outermost selects in ``expr`` that choose what, where or whether to load."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Select) and (
            node.dtype == dtypes.int64 or any(map(has_loads, node.children[1:]))
        ):
            yield node
            stack.append(node.condition)
        else:
            stack.extend(reversed(node.children))


def _usual(case: Select, loop: For) -> Iterator[Expr]:
    """The conditions that hold in most iterations of ``loop``: that of ``case``, and those of the
    cases in the branch it then takes."""
    taken: Expr | None = case.if_true
    for part in parts_of(case.condition):
        other = opposite(part)
        if other is not None and _is_rare(part, loop):
            yield other
            taken = case.if_false
        elif other is None or side_of(part, loop.var) is None:
            taken = None  # open which
        else:
            yield part
    for inner in _cases(taken) if taken is not None else ():
        yield from _usual(inner, loop)


def _is_rare(condition: Expr, loop: For) -> bool:
    """Whether ``condition`` holds in a constant number of iterations at one end only."""
    side = side_of(condition, loop.var)
    if side is None:
        return False
    trips = to_affine(loop.upper - side.value if side.lower else side.value - loop.lower)
    return trips is not None and trips.is_constant
