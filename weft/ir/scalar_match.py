"""Matching: which expressions stand for the loads of a pattern.

pattern   Cast(#0) * Cast(#1)        expr   Cast(x[i]) * Cast(y[j] + 1)
matches   {0: x[i], 1: y[j] + 1}  and, as products commute,  {0: y[j] + 1, 1: x[i]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.ir.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, rewrite

COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor", "eq", "ne"})

Found = Mapping[int, Expr]


def matches(pattern: Expr, expr: Expr) -> Iterator[Found]:
    """What may be put for the loads of ``pattern``, by number, to make ``expr`` of it, up to the
    order of operands where an operator commutes; a load that stands twice has one meaning."""
    seen: list[Found] = []
    for found in _matches(pattern, expr, {}):
        if found not in seen:
            seen.append(found)
            yield found


def filled(pattern: Expr, found: Found) -> Expr:
    """``pattern`` with ``found`` put for its loads."""

    def change(node: Expr) -> Expr | None:
        return (
            found[node.source] if isinstance(node, Load) and isinstance(node.source, int) else None
        )

    return rewrite(pattern, change)


def _matches(pattern: Expr, expr: Expr, found: Found) -> Iterator[Found]:
    if pattern.dtype != expr.dtype:
        return
    match pattern, expr:
        case Load(source=int() as number), _:
            if found.get(number, expr) == expr:
                yield {**found, number: expr}
        case Literal(), Literal():
            if pattern == expr:
                yield found
        case Apply("mul", _), Apply("neg", (Apply("mul", (left, right)),)) if expr.dtype.is_float:
            # -(x * y) is (-x) * y, exactly
            yield from _matches(pattern, (-left) * right, found)
            yield from _matches(pattern, left * (-right), found)
        case Apply(op, (left, right)), Apply(other, (one, two)) if op == other:
            yield from _both((left, right), (one, two), found)
            if op in COMMUTATIVE:
                yield from _both((left, right), (two, one), found)
        case Apply(op, args), Apply(other, others) if op == other and len(args) == len(others):
            yield from _both(args, others, found)
        case Cast() | Bitcast(), Cast() | Bitcast() if type(pattern) is type(expr):
            yield from _matches(pattern.children[0], expr.children[0], found)
        case Select(), Select():
            yield from _both(pattern.children, expr.children, found)


def _both(patterns: tuple[Expr, ...], exprs: tuple[Expr, ...], found: Found) -> Iterator[Found]:
    if not patterns:
        yield found
        return
    for first in _matches(patterns[0], exprs[0], found):
        yield from _both(patterns[1:], exprs[1:], first)
