"""Structural identity of expressions in linear time, however deep and shared they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from weft.frontend.scalar_expr import Apply, Bitcast, Cast, Expr, Literal, Load, Select, Var


class Numbering:
    """Gives equal expressions equal numbers."""

    def __init__(self, label: Callable[[Expr], Hashable] | None = None) -> None:
        """``label`` says what tells nodes apart that are no scalar expressions, operands aside.

        Without it, such nodes are equal to themselves only.
        """
        self._label = label
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[int, Expr]] = {}  # the node is kept: its id stays its own

    def number(self, expr: Expr) -> int:
        stack = [expr]
        while stack:
            node = stack[-1]
            missing = [child for child in node.children if id(child) not in self._known]
            if missing and id(node) not in self._known:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self._known:
                children = tuple(self._known[id(child)][0] for child in node.children)
                key = (type(node).__name__, self._distinction(node), children)
                self._known[id(node)] = (self._numbers.setdefault(key, len(self._numbers)), node)
        return self._known[id(expr)][0]

    def _distinction(self, node: Expr) -> Hashable:
        match node:
            case Literal(value, dtype):
                return (repr(value), dtype)
            case Var(name, dtype):
                return (name, dtype)
            case Load(source, _, dtype):
                return (source, dtype)
            case Apply(op):
                return op
            case Cast(_, dtype, saturate):
                return (dtype, saturate)
            case Bitcast(_, dtype):
                return dtype
            case Select():
                return None
        return self._label(node) if self._label else id(node)
