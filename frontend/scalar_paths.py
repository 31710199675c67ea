"""Under which conditions is a subexpression evaluated?"""

from __future__ import annotations

from collections.abc import Iterator

from weft.frontend.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var

SCALAR = (Literal, Var, Load, Apply, Cast, Bitcast, Select)

Guard = tuple[Expr, bool]  # a condition, and the value that it has


def operands(node: Expr) -> tuple[Expr, ...]:
    """The operands of a scalar node; none for a node that binds variables, such as ``Reduce``."""
    return node.children if isinstance(node, SCALAR) else ()


def walk_scalar(*exprs: Expr) -> Iterator[Expr]:
    """As ``scalar_expr.walk``, but not into nodes that bind variables of their own."""
    seen: set[int] = set()
    stack = [(expr, False) for expr in reversed(exprs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(operands(node)))


def path_guards(*exprs: Expr) -> dict[int, tuple[Guard, ...]]:
    """For every node of ``exprs``, by ``id``: the select conditions that hold on every way to it.

    A node shared by several branches has the conditions that these have in common.
    """
    found: dict[int, dict[tuple[int, bool], Guard]] = {id(expr): {} for expr in exprs}
    for node in reversed(list(walk_scalar(*exprs))):
        here = found[id(node)]
        for child, taken in _uses(node):
            there = here if taken is None else here | {(id(taken[0]), taken[1]): taken}
            known = found.get(id(child))
            common = there if known is None else {k: g for k, g in known.items() if k in there}
            found[id(child)] = common
    return {key: tuple(guards.values()) for key, guards in found.items()}


def _uses(node: Expr) -> list[tuple[Expr, Guard | None]]:
    if isinstance(node, Select):
        yes, no = (node.condition, True), (node.condition, False)
        return [(node.condition, None), (node.if_true, yes), (node.if_false, no)]
    return [(child, None) for child in operands(node)]
