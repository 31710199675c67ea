"""Which assignments fold a value into an element, and with what.

    x = x + e,  x -= e,  x = min(e, x),  x = x or e        fold e (or -e) into x
    x = e if e < x else x,  if x > e: x = e                fold e with min, of integers

Of floats a comparison is no minimum: it is false where either side is NaN, which min passes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.frontend.loops.affine import operands
from weft.frontend.loops.values import loads
from weft.ir import dtypes
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Select, apply

_FOLDS = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_SMALLER = {"lt": (0, 1), "le": (0, 1), "gt": (1, 0), "ge": (1, 0)}  # op: (smaller, larger) side


def folding(target: Load, value: Expr) -> tuple[Expr, str]:
    """(e, monoid) where ``target := value`` folds e into ``target``; else (``value``, '')."""
    if isinstance(value, Apply):
        if value.op == "sub" and value.args[0] == target and target not in loads(value.args[1]):
            return apply("neg", value.args[1]), "add"
        if value.op in _FOLDS and (rest := _rest(target, value)) is not None:
            return rest, value.op
    if isinstance(value, Select):
        for found, name in _chosen(target, value):
            if target not in loads(found):
                return found, name
    return value, ""


def guarded(target: Load, condition: Expr, value: Expr) -> tuple[Expr, str]:
    """The same of ``if condition: target = value``."""
    found, name = folding(target, Select(condition, value, target))
    return (found, name) if name else (value, "")


def _chosen(target: Load, value: Select) -> Iterator[tuple[Expr, str]]:
    """What a selection between ``target`` and something else may fold, and how."""
    condition, one, other = value.condition, value.if_true, value.if_false
    if target.dtype == dtypes.bool_:
        if condition == target and _is(one, True) and _sure(other):
            yield other, "or"
        if condition == target and _is(other, False) and _sure(one):
            yield one, "and"
        if other == target and _is(one, True):
            yield condition, "or"
        if one == target and _is(other, False):
            yield condition, "and"
    elif target.dtype.is_integer and isinstance(condition, Apply) and condition.op in _SMALLER:
        small, large = (condition.args[k] for k in _SMALLER[condition.op])
        if (small, large) == (one, other) and target in (one, other):
            yield (one if other == target else other), "min"
        if (large, small) == (one, other) and target in (one, other):
            yield (one if other == target else other), "max"


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value


def _sure(expr: Expr) -> bool:
    """Whether ``expr`` may be evaluated anywhere: its elements are known to exist."""
    return all(to_affine(index) is not None for load in loads(expr) for index in load.indices)


def _rest(target: Load, value: Apply) -> Expr | None:
    """What ``value`` combines ``target`` with, if once and with nothing that reads it."""
    exact = value.op in ("min", "max")
    parts = list(operands(value.op, value)) if exact else list(value.args)
    others = [part for part in parts if part != target]
    if len(others) != len(parts) - 1 or target in loads(*others):
        return None
    rest = others[0]
    for part in others[1:]:
        rest = apply(value.op, rest, part)
    return rest
