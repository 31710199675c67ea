"""Which integer expressions are affine, and which are affine by cases.

``min``, ``max``, ``abs`` and conditional expressions of affine operands are affine on each side of
a condition that is affine itself: ``max(i, j)`` is ``i`` where ``i >= j`` and ``j`` elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from weft.ir import dtypes
from weft.ir.quasi_affine import as_constraints
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_condition import conjunction
from weft.ir.scalar_expr import Apply, Expr, Select, rewrite, walk
from weft.ir.scop import Constraint

Case = tuple[tuple[Constraint, ...], Affine]
MAX_CASES = 16


def cases(expr: Expr) -> list[Case] | None:
    """``expr`` as (constraints, affine form), for disjoint constraints that leave nothing out.

    None where it is not affine, not even by cases, or by more than ``MAX_CASES`` of them.
    """
    found: list[Case] = []
    todo: list[tuple[tuple[Constraint, ...], Expr]] = [((), expr)]
    while todo:
        known, current = todo.pop()
        form = to_affine(current)
        if form is not None:
            found.append((known, form))
            continue
        branches = split(current)
        if branches is None or len(todo) + len(found) >= MAX_CASES:
            return None
        condition, yes, no = branches
        todo.append(((*known, *(constraints(condition, False) or ())), no))
        todo.append(((*known, *(constraints(condition, True) or ())), yes))
    return found


def split(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The first condition in ``expr`` that is affine on both sides, and ``expr`` on either."""
    for node in walk(expr):
        if node.dtype != dtypes.int64:
            continue
        match node:
            case Apply("min", (a, b)):
                condition, yes, no = a <= b, a, b
            case Apply("max", (a, b)):
                condition, yes, no = a >= b, a, b
            case Apply("abs", (a,)):
                condition, yes, no = a >= 0, a, -a
            case Select(condition, yes, no):
                pass
            case _:
                continue
        if constraints(condition, True) is not None and constraints(condition, False) is not None:
            return condition, _replaced(expr, node, yes), _replaced(expr, node, no)
    return None


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda node: new if node == old else None)


def constraints(condition: Expr, holds: bool) -> tuple[Constraint, ...] | None:
    """``condition`` being ``holds`` as one conjunction of constraints, None where that is none."""
    found = conjunction(condition, holds)
    return as_constraints(found) if found.exact else None


@lru_cache(maxsize=4096)
def _normal(constraint: Constraint) -> tuple[Affine, Constraint]:
    form = to_affine(constraint.expr)
    assert form is not None, "a constraint that is not affine"
    return form, Constraint(to_expr(form), constraint.equality)


def tightest(known: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """``known``, affine, in normal form; of ``i >= 1`` and ``i >= 3`` the latter alone."""
    found: dict[object, tuple[int, Constraint]] = {}
    for constraint in known:
        form, normal = _normal(constraint)
        key = (form, True) if normal.equality else form.terms
        if key not in found or form.constant < found[key][0]:
            found[key] = (form.constant, normal)
    return tuple(normal for _, normal in found.values())


def operands(op: str, expr: Expr) -> Iterator[Expr]:
    """The operands of nested ``op``s: ``min(a, min(b, c))`` has three."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Apply) and node.op == op:
            stack.extend(reversed(node.args))
        else:
            yield node
