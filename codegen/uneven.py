"""Is a loop uneven: do some of its turns take much longer than others?"""

from __future__ import annotations

from itertools import product

from weft.codegen.loop_ir import For, Let, Stmt, While, children
from weft.frontend.scalar_expr import Apply, Expr, Literal, Load, Var, walk
from weft.frontend.scalar_simplify import simplify


def is_uneven(loop: For) -> bool:
    """Whether a trip count inside depends on the turn (a triangle) or on data.

    Partial tiles do not count: where bounds are ``min`` or ``max``, it is enough that two sides are
    as far apart in every turn, or all but a few: two that move together, or a number apart.
    """
    stack: list[tuple[Stmt, frozenset[str]]] = [(loop.body, frozenset((loop.var,)))]
    while stack:
        stmt, varying = stack.pop()
        match stmt:
            case While():
                return True
            case For(var, lower, upper):
                moves = _varies(lower, varying) or _varies(upper, varying)
                pairs = product(sides(lower, "max"), sides(upper, "min"))
                if moves and not any(_even(low, high, varying) for low, high in pairs):
                    return True
                varying = varying | {var} if moves else varying - {var}
            case Let(name, value):
                varying = varying | {name} if _varies(value, varying) else varying - {name}
        stack.extend((child, varying) for child in children(stmt))
    return False


def _even(low: Expr, high: Expr, varying: frozenset[str]) -> bool:
    """Whether the bounds are as far apart in every turn. Two that stay while others move are so
    only if they are a number apart: else either may be the nearer one for most of the turns."""
    length = simplify(high - low, {})
    if _varies(length, varying):
        return False
    return isinstance(length, Literal) or _varies(high, varying)


def _varies(expr: Expr, varying: frozenset[str]) -> bool:
    return any(
        isinstance(node, Load) or (isinstance(node, Var) and node.name in varying)
        for node in walk(expr)
    )


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
