"""What the code was proved for, as conditions that each call checks before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Expr, Literal, Var, substitute, walk
from weft.ir.scalar_printer import scalar_text
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.compiled import Guard

SAFE = 1 << 60  # what a product of a parameter and a number may be
USUAL = 1 << 20  # numbers up to here cost nothing: parameters may be 2**40


def guards_of(scops: Sequence[Scop], assumptions: Sequence[Expr] = ()) -> tuple[Guard, ...]:
    """One guard for each of the ``assumptions``, then for each constraint on sizes and other
    parameters that is none of them, in terms of what calls tell: derived ones by what they are.

    What is itself a size of a caller's array is not negative: constraints that say just that are
    left out. Of numbers, and of sizes that an equation like N + 3 = 2 may make negative, they stay.
    """
    stated = {c for condition in assumptions for c in as_constraints(conjunction(condition))}
    found = dict.fromkeys(
        _told(c, scop)
        for scop in scops
        for c in scop.context
        if c not in stated and not _is_trivial(c, _sizes(scop))
    )
    given = (Guard(condition, scalar_text(condition)) for condition in assumptions)
    return (*given, *map(_guard, found))


def range_guards(scheduled: Scheduled) -> tuple[Guard, ...]:
    """One guard for each parameter: that it is not so large that index arithmetic could overflow.

    Proofs know no overflow, code computes in 64 bits: beyond these limits, a condition that keeps
    an access inside its array could come out wrong. Arrays never get there, numbers may.
    """
    most = SAFE // max(_largest_number(scheduled), USUAL)
    return tuple(
        Guard((Var(p) >= -most) & (Var(p) <= most), f"{p} from {-most} to {most}")
        for p in scheduled.scop.parameters
    )


def _largest_number(scheduled: Scheduled) -> int:
    """The largest number in conditions, indices and loops."""
    exprs = [c.expr for c in scheduled.scop.context]
    exprs += [e for loop in scheduled.loops() for e in loop.at.values()]
    for s in scheduled.scop.statements:
        accesses = (*s.reads, *s.writes)
        exprs += [c.expr for c in s.domain]
        exprs += [c.expr for access in accesses for c in access.guard]
        exprs += [index for access in accesses for index in access.indices]
    numbers = (n.value for e in exprs for n in walk(e) if isinstance(n, Literal))
    return max((abs(int(n)) for n in numbers), default=0)


def _sizes(scop: Scop) -> set[str]:
    """The parameters that are dims of arrays which the caller passes."""
    dims = (size for t in scop.tensors if t.role != "temp" for size in t.shape)
    return {size.name for size in dims if isinstance(size, Var)}


def _is_trivial(constraint: Constraint, sizes: set[str]) -> bool:
    match constraint.expr:
        case Var(name):
            return not constraint.equality and name in sizes
        case Literal(value):
            return value == 0 if constraint.equality else value >= 0
    return False


def _told(constraint: Constraint, scop: Scop) -> Constraint:
    """``constraint`` with derived parameters, the last of which may be made of others, in full."""
    expr = constraint.expr
    for name, value in reversed(scop.derived):
        expr = substitute(expr, {name: value})
    return replace(constraint, expr=expr)


def _guard(constraint: Constraint) -> Guard:
    relation = "==" if constraint.equality else ">="
    return Guard(_condition(constraint), f"{scalar_text(constraint.expr)} {relation} 0")


def _condition(constraint: Constraint) -> Expr:
    if constraint.equality:
        return constraint.expr.equal(0)
    return constraint.expr >= 0
