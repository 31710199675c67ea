"""What the code was proved for, as conditions that each call checks before it runs."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compiled import Guard
from weft.frontend.scalar_expr import Expr, Literal, Var
from weft.frontend.scalar_printer import scalar_text
from weft.polyhedral.scop import Constraint, Scop


def guards_of(scops: Sequence[Scop]) -> tuple[Guard, ...]:
    """One guard for each constraint on sizes beyond that they are not negative.

    Sizes of arrays are never negative, so the constraints that say just that are left out.
    """
    found = dict.fromkeys(c for scop in scops for c in scop.context if not _is_trivial(c))
    return tuple(_guard(constraint) for constraint in found)


def _is_trivial(constraint: Constraint) -> bool:
    match constraint.expr:
        case Var():
            return not constraint.equality
        case Literal(value):
            return value == 0 if constraint.equality else value >= 0
    return False


def _guard(constraint: Constraint) -> Guard:
    relation = "==" if constraint.equality else ">="
    return Guard(_condition(constraint), f"{scalar_text(constraint.expr)} {relation} 0")


def _condition(constraint: Constraint) -> Expr:
    if constraint.equality:
        return constraint.expr.equal(0)
    return constraint.expr >= 0
