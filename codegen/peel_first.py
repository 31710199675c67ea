"""Peel the first iteration if a condition on it blocks scalar replacement.

    for i in lo … hi:                               y[lo] = x[lo]
      y[i] = x[i] if i == lo else f(y[i - 1])   →   for i in lo + 1 … hi: y[i] = f(y[i - 1])

``scalar_replacement`` keeps a value in registers only if the next iteration loads it
unconditionally.
"""

from __future__ import annotations

from dataclasses import replace

from weft.codegen.conditions import body_given
from weft.codegen.cut_loop import bound_inside
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.codegen.simplify import simplified
from weft.ir.loop_ir import Block, For, If, Kernel, Stmt, Store, Update, expressions, walk
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Apply, Expr, Load, Select, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions

# Comparison of i with lo + offset → its value in iteration lo; in all others it is the opposite.
_FIRST = {
    "eq": (0, True), "le": (0, True), "lt": (1, True),
    "ne": (0, False), "gt": (0, False), "ge": (1, False),
}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_SMALL = 16  # statements in the body, which is duplicated


def peel_first(kernel: Kernel) -> Kernel:
    """``kernel`` with such iterations peeled, simplified."""
    if not any(isinstance(s, For) and _first_condition(s) for s in walk(kernel.body)):
        return kernel
    return simplified(kernel, _peeled(kernel.body))


def _peeled(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _peeled)
    asked = _first_condition(stmt) if isinstance(stmt, For) else None
    if not isinstance(stmt, For) or asked is None:
        return stmt
    condition, says = asked
    first = body_given(stmt.body, condition, holds=says)
    first = map_all_expressions(first, lambda e: substitute(e, {stmt.var: stmt.lower}))
    rest = body_given(stmt.body, condition, holds=not says)
    return Block(
        (
            If(stmt.lower < stmt.upper, first),
            replace(stmt, lower=stmt.lower + 1, body=rest),
        )
    )


def _first_condition(loop: For) -> tuple[Expr, bool] | None:
    """A condition that distinguishes the first iteration and decides whether a stored value is
    loaded; its value in the first iteration."""
    inside = list(walk(loop.body))
    if loop.kind != "serial" or loop.step != 1 or len(inside) > _SMALL:
        return None
    if any(isinstance(s, For) and s.kind != "vector" for s in inside):
        return None
    if mentions(loop.lower, bound_inside(loop)):  # it cannot be substituted for the variable there
        return None
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    stored |= {name for s in inside if isinstance(s, Update) for name, _ in s.targets}
    for node in (n for s in inside for e in expressions(s) for n in walk_expr(e)):
        if isinstance(node, Select):
            arms = (n for arm in (node.if_true, node.if_false) for n in walk_expr(arm))
            says = _value_in_first(node.condition, loop)
            if says is not None and any(isinstance(n, Load) and n.source in stored for n in arms):
                return node.condition, says
    return None


def _value_in_first(condition: Expr, loop: For) -> bool | None:
    """The value of ``condition`` in the first iteration, if it is the opposite in all others."""
    if not isinstance(condition, Apply):
        return None
    if condition.op == "not":
        says = _value_in_first(condition.args[0], loop)
        return None if says is None else not says
    if condition.op not in _FIRST:
        return None
    left, right = map(to_affine, condition.args)
    start, iteration = to_affine(loop.lower), Affine(((loop.var, 1),))
    if left is None or right is None or start is None:
        return None
    for op, one, other in ((condition.op, left, right), (_MIRRORED[condition.op], right, left)):
        offset, says = _FIRST[op]
        if one - other == iteration - start.plus(offset):
            return says
    return None
