"""Conjunctions, taken apart and put together."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.scalar_expr import Apply, Expr


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
