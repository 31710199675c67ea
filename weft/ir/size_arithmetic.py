"""Sizes as numbers: evaluate size expressions, bind symbols from shapes, show expressions.

Only what a size may contain: integer arithmetic, comparisons and ``select`` over int64 parameters,
with the semantics of ``scalar_expr`` (floor division, division by zero is 0). Results that leave
int64 are errors here, not wrapped: a size that large can only come from a hostile shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Select,
    Var,
    variable_list,
    walk,
)
from weft.ir.scalar_ops import INTEGER_OPERATORS

LIMIT = 1 << 62  # bytes or elements; beyond it address arithmetic could overflow


class SizeError(Exception):
    """A size is undefined, too large, or does not fit the shapes at hand; ``str`` says which."""


def _truncdiv(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: dict[str, Callable[..., int]] = INTEGER_OPERATORS | {
    "truncdiv": _truncdiv,
    "rem": lambda a, b: a - b * _truncdiv(a, b) if b else 0,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: not a,
}

OPERATORS = frozenset(_INTEGER)  # what a size expression may apply


def evaluate(expr: Expr, sizes: Mapping[str, int]) -> int:
    """The value of ``expr`` with its variables from ``sizes``; ``SizeError`` where it has none."""
    if isinstance(expr, Literal):
        return int(expr.value)
    values: dict[int, int] = {}
    for node in walk(expr):
        values[id(node)] = value = _node_value(node, values, sizes)
        if not -LIMIT <= value <= LIMIT:
            raise SizeError(f"{text(node)} is too large")
    return values[id(expr)]


def _node_value(node: Expr, values: Mapping[int, int], sizes: Mapping[str, int]) -> int:
    match node:
        case Literal():
            return int(node.value)
        case Var():
            if node.name not in sizes:
                raise SizeError(f"size {node.name} is not known")
            return sizes[node.name]
        case Apply() if node.op in _INTEGER:
            return int(_INTEGER[node.op](*(values[id(arg)] for arg in node.args)))
        case Select():
            chosen = node.if_true if values[id(node.condition)] else node.if_false
            return values[id(chosen)]
        case Cast():
            return values[id(node.arg)]
    raise SizeError(f"{type(node).__name__} cannot stand in a size")


def bind(
    declared: Sequence[tuple[Expr, ...]],
    actual: Sequence[tuple[int, ...]],
    derived: Sequence[tuple[str, Expr]] = (),
    known: Mapping[str, int] | None = None,
    names: Sequence[str] = (),
) -> dict[str, int]:
    """The size symbols for which every declared shape equals the actual one; ``known`` ones first.
    ``names`` of what has these shapes are for errors.

    Plain symbols are read off; one symbol in an affine size (``2 * n + 1``) is solved for; the rest
    is checked. ``SizeError`` says which size disagrees, or says too little. Ranks are taken as
    equal.
    """
    sizes: dict[str, int] = dict(known or {})
    pairs = [pair for d, a in zip(declared, actual, strict=True) for pair in zip(d, a, strict=True)]
    places = [""] * (len(pairs) + len(derived))
    if names:
        named = zip(names, declared, strict=True)
        at = [f"dimension {k} of {name}" for name, shape in named for k in range(len(shape))]
        places[: len(at)] = at
    for expr, value in pairs:
        if isinstance(expr, Var):
            sizes.setdefault(expr.name, value)
    equations = [*pairs, *((e, sizes[name]) for name, e in derived if name in sizes)]
    reasons = [solve(expr, value, sizes) for expr, value in equations]
    for name, equation in derived:
        if not _unknown(equation, sizes):
            sizes.setdefault(name, evaluate(equation, sizes))
    for (expr, _), reason, place in zip(equations, reasons, places, strict=False):
        if reason and _unknown(expr, sizes):  # nor has another size said it
            raise SizeError(_at(reason, place))
    checked = [*pairs, *((e, sizes.get(n, 0)) for n, e in derived)]
    for (expr, value), place in zip(checked, places, strict=True):
        if (found := evaluate(expr, sizes)) != value:
            if isinstance(expr, Literal):
                raise SizeError(f"{place or 'a size'} is {value}, not {found}")
            reason = f"{text(expr)} is {found}, not {value}{_given(expr, sizes)}"
            raise SizeError(_at(reason, place))
    return sizes


def _at(reason: str, place: str) -> str:
    return f"{reason}, in {place}" if place else reason


def solve(expr: Expr, value: int, sizes: dict[str, int]) -> str:
    """Bind the one unknown symbol of ``expr == value`` where ``expr`` is affine in it; or why not,
    where there is one."""
    unknown = _unknown(expr, sizes)
    if not unknown:
        return ""
    name = unknown[0]
    if len(unknown) == 1:
        first, second = (evaluate(expr, {**sizes, name: v}) for v in (0, 1))
        slope = second - first
        root, rest = divmod(value - first, slope) if slope else (0, 1)
        if not rest and evaluate(expr, {**sizes, name: root}) == value:
            if root >= 0:
                sizes[name] = root
                return ""
            return f"{text(expr)} is {value} for {name} = {root} alone, and sizes are not negative"
        if slope:
            return f"{text(expr)} is {value} for no {name}{_given(expr, sizes)}"
    return f"{text(expr)} = {value} does not say what {' and '.join(unknown)} may be"


def _unknown(expr: Expr, sizes: Mapping[str, int]) -> list[str]:
    return [name for name in variable_list(expr) if name not in sizes]


def _given(expr: Expr, sizes: Mapping[str, int]) -> str:
    if isinstance(expr, Var):
        return ""
    names = dict.fromkeys(n.name for n in walk(expr) if isinstance(n, Var) and n.name in sizes)
    return f" (with {', '.join(f'{n} = {sizes[n]}' for n in names)})" if names else ""


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip


def text(expr: Expr) -> str:
    """``expr`` on one line, fully parenthesised but for atoms: ``((m * n) + 63) // 64``."""
    shown: dict[int, str] = {}
    for node in walk(expr):
        operands = [shown[id(child)] for child in node.children]
        match node:
            case Literal():
                shown[id(node)] = str(node.value)
            case Var():
                shown[id(node)] = node.name
            case Apply() if node.op in _INFIX:
                shown[id(node)] = f"({operands[0]} {_INFIX[node.op]} {operands[1]})"
            case Apply():
                shown[id(node)] = f"{node.op}({', '.join(operands)})"
            case _:
                shown[id(node)] = f"{type(node).__name__.lower()}({', '.join(operands)})"
    whole = shown[id(expr)]
    return whole[1:-1] if isinstance(expr, Apply) and expr.op in _INFIX else whole
