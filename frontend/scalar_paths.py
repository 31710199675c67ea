"""Under which conditions is a subexpression evaluated?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The conditions that hold on the way to an expression: those of ``parent``, then ``guard``.

    One object for each different way, so that paths are compared by identity.
    """

    parent: Path | None = None
    guard: Guard | None = None
    depth: int = 0

    def __len__(self) -> int:
        return self.depth

    def __iter__(self) -> Iterator[Guard]:
        """The guards, outermost first."""
        found: list[Guard] = []
        path = self
        while path.parent is not None and path.guard is not None:
            found.append(path.guard)
            path = path.parent
        return reversed(found)

    def common(self, other: Path) -> Path:
        """The longest path that both begin with."""
        here, there = self, other
        while here is not there:
            if here.depth >= there.depth and here.parent is not None:
                here = here.parent
            elif there.parent is not None:
                there = there.parent
        return here


def path_guards(*exprs: Expr) -> dict[int, Path]:
    """For every node of ``exprs``, by ``id``: the select conditions that hold on every way to it.

    A node shared by several branches has the conditions that the ways to it begin with.
    """
    root = Path()
    longer: dict[tuple[int, int, bool], Path] = {}
    found: dict[int, Path] = {id(expr): root for expr in exprs}
    for node in reversed(list(walk_scalar(*exprs))):
        here = found[id(node)]
        for child, guard in _uses(node):
            there = here
            if guard is not None:
                key = (id(here), id(guard[0]), guard[1])
                there = longer.setdefault(key, Path(here, guard, here.depth + 1))
            known = found.get(id(child))
            found[id(child)] = there if known is None else known.common(there)
    return found


def _uses(node: Expr) -> list[tuple[Expr, Guard | None]]:
    if isinstance(node, Select):
        yes, no = (node.condition, True), (node.condition, False)
        return [(node.condition, None), (node.if_true, yes), (node.if_false, no)]
    return [(child, None) for child in operands(node)]
