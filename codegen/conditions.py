"""Conditions: conjunctions split and built, and expressions simplified under a known condition."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.rebuild import map_all_expressions
from weft.ir import dtypes
from weft.ir.loop_ir import Stmt
from weft.ir.scalar_affine import Affine, to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Select, apply, literal, rewrite, select


def parts_of(condition: Expr) -> tuple[Expr, ...]:
    """The conjuncts of ``condition``."""
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
    """``expr`` simplified under the assumption that ``condition`` holds, or does not."""
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
    """``stmt`` simplified under the assumption that ``condition`` holds, or does not. Nothing in
    ``stmt`` changes the condition."""
    return map_all_expressions(stmt, lambda expr: given(expr, condition, holds=holds))


# ---- Comparisons of indices that known comparisons imply.
#
# where i >= 1 and i < n: x[i - 1] if i > 0 else 0 → x[i - 1]


_COMPARISONS = ("lt", "le", "gt", "ge")
_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def slack(condition: Expr) -> Affine | None:
    """The affine form that is >= 0 exactly where ``condition``, a comparison of int64, holds; None
    if it is no such comparison."""
    match condition:
        case Apply("ge", (a, b)) | Apply("le", (b, a)):
            return to_affine(a - b) if a.dtype == dtypes.int64 else None
        case Apply("gt", (a, b)) | Apply("lt", (b, a)):
            return to_affine(a - b - 1) if a.dtype == dtypes.int64 else None
    return None


def opposite(condition: Expr) -> Expr | None:
    """The negation of an integer comparison, as a comparison."""
    match condition:
        case Apply(op, (left, right)) if op in _OPPOSITE and left.dtype.is_integer:
            return apply(_OPPOSITE[op], left, right)
    return None


def implied(stmt: Stmt, known: Sequence[Affine]) -> Stmt:
    """``stmt`` with the comparisons decided that follow from ``known``, forms that are all >= 0.
    Nothing in ``stmt`` rebinds their variables."""
    return map_all_expressions(stmt, lambda expr: _settled(expr, known))


def _settled(expr: Expr, known: Sequence[Affine]) -> Expr:
    def change(node: Expr) -> Expr | None:
        match node:
            case Select(asked, one, other):
                return select(asked, one, other)
            case Apply(op) if op in _COMPARISONS and (own := slack(node)) is not None:
                return _decided(own, known)
            case Apply(op, args) if node.dtype == dtypes.bool_:
                return apply(op, *args)
        return None

    return rewrite(expr, change)


def _decided(own: Affine, known: Sequence[Affine]) -> Expr | None:
    for form in known:
        more = own - form
        if more.is_constant and more.constant >= 0:
            return literal(True, dtypes.bool_)
        less = own.scaled(-1).plus(-1) - form
        if less.is_constant and less.constant >= 0:
            return literal(False, dtypes.bool_)
    return None
