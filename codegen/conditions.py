"""Conditions: conjunctions taken apart and put together; what is left where one is known."""

from __future__ import annotations

from collections.abc import Sequence

from weft import dtypes
from weft.codegen.loop_ir import Stmt
from weft.codegen.rebuild import map_all_expressions
from weft.frontend.scalar_expr import Apply, Expr, Literal, Select, apply, literal, rewrite, select


def parts_of(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that together are ``condition``."""
    if isinstance(condition, Apply) and condition.op == "and":
        return tuple(part for arg in condition.args for part in parts_of(arg))
    return (condition,)


def both(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of one or more ``conditions``."""
    first, *rest = conditions
    for condition in rest:
        first = first & condition
    return first


def given(expr: Expr, condition: Expr, *, holds: bool) -> Expr:
    """``expr`` where ``condition`` is known to hold, or not to."""
    if isinstance(condition, Apply) and condition.op == "not":
        return given(expr, condition.args[0], holds=not holds)
    truth = literal(holds, dtypes.bool_)

    def change(node: Expr) -> Expr | None:
        if node == condition:
            return truth
        match node:
            case Select(asked, one, other):
                return select(asked, one, other)
            case Apply("not", (Literal(value),)):
                return literal(not value, dtypes.bool_)
            case Apply(op, args) if node.dtype == dtypes.bool_:
                return apply(op, *args)
        return None

    return rewrite(expr, change)


def body_given(stmt: Stmt, condition: Expr, *, holds: bool) -> Stmt:
    """``stmt`` where ``condition``, which nothing in it changes, is known."""
    return map_all_expressions(stmt, lambda expr: given(expr, condition, holds=holds))
