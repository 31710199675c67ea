"""Simpler expressions of the same value: index arithmetic in normal form (``scalar_affine``), and
comparisons decided where the ranges of variables decide them."""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.scalar_affine import (
    Affine,
    Ranges,
    affine_bounds,
    bounds,
    form_of,
    to_affine,
    to_expr,
)
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Var, literal, rewrite


def simplify(expr: Expr, ranges: Ranges | None = None) -> Expr:
    """``expr`` with quasi-affine parts in normal form and comparisons decided where possible.

    Equal to ``expr`` wherever every variable is in its range. Works on any dtype: whatever is not
    int64 arithmetic stays as it is.
    """
    if not expr.children:
        return expr
    known = ranges or {}
    forms: dict[int, Affine | None] = {}

    def normal(node: Expr) -> Expr:
        form = forms.get(id(node))
        return node if form is None or isinstance(node, Var | Literal) else to_expr(form)

    def change(node: Expr) -> Expr | None:
        form = form_of(node, [forms.get(id(child)) for child in node.children], known)
        result = node
        if form is None and node.children:
            operands = node.children
            result = _decided(node, [forms.get(id(c)) for c in operands], known)
            if result is node:
                operands = tuple(normal(child) for child in operands)
                if any(new is not old for new, old in zip(operands, node.children, strict=True)):
                    result = node.rebuild(operands)
            if not _applies(result, type(node), operands):  # these operands have no form
                form = to_affine(result, known)
        forms[id(result)] = form
        kept.append(result)  # keeps the ids in ``forms`` from being used again
        return result

    kept: list[Expr] = []
    return normal(rewrite(expr, change))


def _applies(expr: Expr, kind: type[Expr], operands: tuple[Expr, ...]) -> bool:
    """Whether ``expr`` is of that kind, and of these very operands."""
    children = expr.children
    return type(expr) is kind and len(children) == len(operands) and all(
        one is other for one, other in zip(children, operands, strict=True)
    )  # fmt: skip


def _decided(node: Expr, operands: list[Affine | None], ranges: Ranges) -> Expr:
    """A comparison, ``min`` or ``max`` whose outcome is certain; else ``node`` itself."""
    match node, operands:
        case Apply(op, (left, right)), [Affine() as a, Affine() as b]:
            low, high = affine_bounds(a - b, ranges)
        case Apply(op, (Cast() as left, Literal() as right)), _ if left.dtype == dtypes.int64:
            low, high = bounds(left - right, ranges)
        case _:
            return node
    negative, positive = high is not None and high < 0, low is not None and low > 0
    at_most, at_least = high is not None and high <= 0, low is not None and low >= 0
    if op in ("min", "max") and (at_most or at_least):
        return left if at_most == (op == "min") else right
    certain = {
        "lt": (negative, at_least), "le": (at_most, positive), "gt": (positive, at_most),
        "ge": (at_least, negative), "eq": (at_most and at_least, negative or positive),
        "ne": (negative or positive, at_most and at_least),
    }  # fmt: skip
    yes, no = certain.get(op, (False, False))
    return literal(yes, dtypes.bool_) if yes or no else node
