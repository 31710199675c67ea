"""An ``if`` on data whose branches assign to one element, as one value.

if x > 0: A[i] = x          A[i] = select(x > 0, x, y)
else:     A[i] = y
"""

from __future__ import annotations

import ast

from weft.dtypes import DType
from weft.frontend.loops.conditions import Decision, decide
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.source import located
from weft.frontend.loops.values import Scalar, convert
from weft.frontend.scalar_expr import Expr, select


def whichever(
    node: ast.If, decision: Decision, expressions: Expressions
) -> tuple[ast.Subscript, Expr] | None:
    """The element that ``node``, whose condition is ``decision``, assigns to, and what; None where
    its branches do not all assign to that element, and nothing else."""
    leaf: ast.stmt = node
    while isinstance(leaf, ast.If) and len(leaf.body) == len(leaf.orelse) == 1:
        leaf = leaf.orelse[0]
    if leaf is node or not isinstance(leaf, ast.Assign):
        return None
    target = leaf.targets[0]
    if not isinstance(target, ast.Subscript):
        return None
    place = expressions.value(target)
    if not isinstance(place, Scalar):
        return None
    value = _assigned(node, ast.dump(target), decision, place.dtype, expressions)
    return None if value is None else (target, value)


def _assigned(
    node: ast.stmt, target: str, decision: Decision | None, dtype: DType, expressions: Expressions
) -> Expr | None:
    """What ``node`` assigns to ``target``, as ``dtype``; None if it does not, or more."""
    match node:
        case ast.If(test, [then], [otherwise]):
            condition = (decision or decide(test, expressions)).data
            if condition is None:
                return None
            one = _assigned(then, target, None, dtype, expressions)
            other = _assigned(otherwise, target, None, dtype, expressions)
            return None if one is None or other is None else select(condition, one, other)
        case ast.Assign([place], value) if ast.dump(place) == target:
            with located(expressions.source, node):
                return convert(expressions.scalar(value), dtype)
    return None
