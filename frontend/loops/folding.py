"""Which assignments fold a value into an element, and with what.

    x = x + e,  x -= e,  x = min(e, x),  x = x or e        fold e (or -e) into x
    x = e if e < x else x,  if x > e: x = e                fold e with the minimum

Of integers that is ``min``. Of floats it is a fold of its own: a comparison is false where either
side is NaN, which min passes on, and says which of two zeros stays. So a NaN in x stays, one in e
is skipped, and the order of the fold is not free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.frontend.loops.affine import operands
from weft.frontend.loops.values import loads
from weft.ir import build, dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Select, Var, apply, select
from weft.ir.tensor_expr import Monoid

_FOLDS = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_SMALLER = {"lt": (0, 1), "le": (0, 1), "gt": (1, 0), "ge": (1, 0)}  # op: (smaller, larger) side
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def folding(target: Load, value: Expr) -> tuple[Expr, Monoid | None]:
    """(e, monoid) where ``target := value`` folds e into ``target``; else (``value``, None)."""
    if isinstance(value, Apply):
        if value.op == "sub" and value.args[0] == target and target not in loads(value.args[1]):
            return apply("neg", value.args[1]), build.monoid("add", value.dtype)
        if value.op in _FOLDS and (rest := _rest(target, value)) is not None:
            return rest, build.monoid(value.op, value.dtype)
    if isinstance(value, Select):
        for found, fold in _chosen(target, value):
            if target not in loads(found):
                return found, fold
    return value, None


def guarded(target: Load, guard: Expr, value: Expr) -> tuple[Expr | None, Expr, Monoid] | None:
    """(rest, e, monoid) where ``if guard: target = value`` is a fold of e ``if rest``, all the
    guard but one of its conditions; None where it is no fold."""
    parts = _conjunction(guard)
    for number, part in enumerate(parts):
        found, fold = folding(target, Select(part, value, target))
        if fold is not None and all(map(is_sure, parts[number + 1 :])):
            return _all((*parts[:number], *parts[number + 1 :])), found, fold
    return None


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """``first and second``, None being true; ``second`` is evaluated only where it counts."""
    if first is None or second is None:
        return second if first is None else first
    return select(first, second, Literal(False, dtypes.bool_)) if loads(second) else first & second


def _all(conditions: Sequence[Expr]) -> Expr | None:
    found: Expr | None = None
    for condition in conditions:
        found = both(found, condition)
    return found


def _conjunction(guard: Expr) -> list[Expr]:
    """The conditions that ``guard`` is true of, in the order in which ``both`` joined them."""
    match guard:
        case Select(first, second, other) if _is(other, False):
            return [*_conjunction(first), *_conjunction(second)]
        case Apply("and", (first, second)):
            return [*_conjunction(first), *_conjunction(second)]
    return [guard]


def _chosen(target: Load, value: Select) -> Iterator[tuple[Expr, Monoid]]:
    """What a selection between ``target`` and something else may fold, and how."""
    condition, one, other = value.condition, value.if_true, value.if_false
    if target.dtype == dtypes.bool_:
        either, every = (build.monoid(name, dtypes.bool_) for name in ("or", "and"))
        if condition == target and _is(one, True) and is_sure(other):
            yield other, either
        if condition == target and _is(other, False) and is_sure(one):
            yield one, every
        if other == target and _is(one, True):
            yield condition, either
        if one == target and _is(other, False):
            yield condition, every
    elif isinstance(condition, Apply) and condition.op in _SMALLER:
        small, large = (condition.args[k] for k in _SMALLER[condition.op])
        name = {(small, large): "min", (large, small): "max"}.get((one, other))
        if name is None or target not in (one, other):
            return
        if target.dtype.is_integer:
            yield (one if other == target else other), build.monoid(name, target.dtype)
        elif target.dtype.is_float and other == target:
            first = condition.args[0] == one
            op = condition.op if first else _FLIPPED[condition.op]
            yield one, _by_comparison(op, name, target.dtype)


def _by_comparison(op: str, name: str, dtype: DType) -> Monoid:
    """``right if right op left else left``. The identity of ``name``, on the right, and NaN there
    change nothing."""
    left, right = Var("left", dtype), Var("right", dtype)
    taken = select(apply(op, right, left), right, left)
    identity = build.monoid(name, dtype).identity
    return Monoid(f"{name}_{op}", (left,), (right,), (taken,), identity, frozenset())


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value


def is_sure(expr: Expr) -> bool:
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
