"""Closed-form bounds from affine constraints: spans of one variable, and worst corners of a box."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from weft.ir import dtypes
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Apply, Expr, Literal, apply, literal

TRUE, ZERO = literal(True, dtypes.bool_), literal(0)
Span = tuple[Expr, Expr]  # lower, upper exclusive
Box = Mapping[str, Span]


def mentions_any(form: Affine, names: Collection[str]) -> bool:
    return any(form.coefficient(name) for name in names)


def lowers(forms: Iterable[Affine], name: str) -> list[Expr]:
    """Lower bounds of ``name`` that ``forms`` (each >= 0) imply."""
    return [
        to_expr((form + _only(name, -c)).scaled(-1).plus(c - 1)) // c
        for form in forms
        if (c := form.coefficient(name)) > 0
    ]


def uppers(forms: Iterable[Affine], name: str) -> list[Expr]:
    """Exclusive upper bounds of ``name`` that ``forms`` (each >= 0) imply."""
    return [
        to_expr(form + _only(name, -c)) // -c + 1
        for form in forms
        if (c := form.coefficient(name)) < 0
    ]


def span(forms: Iterable[Affine], name: str, extent: int | None = None) -> Span:
    """The values of ``name`` that ``forms`` allow, within 0 … ``extent`` if that is given.

    Without an ``extent`` the forms must bound it on both sides.
    """
    kept = list(forms)
    low, high = lowers(kept, name), uppers(kept, name)
    if extent is not None:
        low, high = [ZERO, *low], [literal(extent), *high]
    return extreme("max", low), extreme("min", high)


def extreme(op: str, values: Iterable[Expr]) -> Expr:
    """``min`` or ``max`` of ``values``, constants folded into one."""
    distinct = list(dict.fromkeys(values))
    numbers = [int(v.value) for v in distinct if isinstance(v, Literal)]
    parts: list[Expr] = [v for v in distinct if not isinstance(v, Literal)]
    if numbers:
        parts.append(literal(max(numbers) if op == "max" else min(numbers)))
    total: Expr = parts[0]
    for part in parts[1:]:
        total = apply(op, total, part)
    return total


def at_worst(form: Affine, box: Box, kept: Collection[str] = ()) -> Expr:
    """The least value of ``form`` over the corners of ``box``; terms in ``kept`` are left out."""
    rest = form
    total: Expr = ZERO
    for name, (low, high) in box.items():
        c = form.coefficient(name)
        if c:
            rest = rest + _only(name, -c)
            total = total + (low if c > 0 else high - 1) * c
    for name in kept:
        rest = rest + _only(name, -form.coefficient(name))
    return to_expr(rest) + total


def all_of(conditions: Iterable[Expr]) -> Expr:
    """All ``conditions`` at once; true for none."""
    total: Expr = TRUE
    for condition in dict.fromkeys(conditions):
        total = total & condition
    return total


def _only(name: str, coefficient: int) -> Affine:
    return Affine(((name, coefficient),)) if coefficient else Affine()


def sides(bound: Expr, op: str) -> list[Expr]:
    """The operands of nested ``op``s at the root of ``bound``."""
    found, stack = list[Expr](), [bound]
    while stack:
        match stack.pop():
            case Apply(name, operands) if name == op:
                stack += operands
            case side:
                found.append(side)
    return found
