"""The condition of an ``if`` as disjoint ways to reach either branch.

    i == 0 or j < i     true: {i == 0}, {i > 0, j < i}, {i < 0, j < i}     false: …

Comparisons of affine integers become constraints; everything else is data, and becomes a guard: a
bool that each statement of the branch evaluates. So do conditions on indices of too many cases.
Parts are evaluated as in Python, so that in ``i > 0 and A[i - 1] > 0`` no element is read where
``i`` is 0.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import product

from weft.frontend.loops.affine import Case, cases
from weft.frontend.loops.expressions import COMPARISONS, Expressions
from weft.frontend.loops.folding import both
from weft.frontend.loops.source import located
from weft.frontend.loops.values import Scalar, convert, is_pure
from weft.ir.dtypes import DType
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr, Literal, select
from weft.ir.scop import Constraint

MAX_WAYS = 12
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Way:
    """Constraints and a guard (bool, of data) that hold together; no guard: it is true."""

    constraints: tuple[Constraint, ...] = ()
    guard: Expr | None = None

    def then(self, other: Way) -> Way:
        """Both, ``other`` being evaluated only where this holds."""
        return Way(self.constraints + other.constraints, both(self.guard, other.guard))


@dataclass(frozen=True, slots=True)
class Decision:
    """Disjoint ways for the condition to be true, and to be false; together everything."""

    true: tuple[Way, ...]
    false: tuple[Way, ...]

    @property
    def data(self) -> Expr | None:
        """The condition itself where it is data alone."""
        if len(self.true) == 1 and not self.true[0].constraints:
            return self.true[0].guard
        return None


def decide(node: ast.expr, expressions: Expressions) -> Decision:
    """The condition ``node``. Raises ``KernelError``."""
    match node:
        case ast.BoolOp(op, parts):
            result = decide(parts[0], expressions)
            for part in parts[1:]:
                step = _and if isinstance(op, ast.And) else _or
                result = step(result, decide(part, expressions))
            return _few(result, node, expressions)
        case ast.UnaryOp(ast.Not(), operand):
            found = decide(operand, expressions)
            return Decision(found.false, found.true)
        case ast.Compare(left, ops, comparators):
            return _comparisons(node, left, ops, comparators, expressions)
    return _data(expressions.truth(node))


def _comparisons(
    node: ast.Compare,
    left: ast.expr,
    ops: list[ast.cmpop],
    comparators: list[ast.expr],
    expressions: Expressions,
) -> Decision:
    result = Decision((Way(),), ())
    for op, right in zip(ops, comparators, strict=True):
        single = ast.copy_location(ast.Compare(left, [op], [right]), node)
        result = _and(result, _comparison(single, expressions))
        left = right
    return _few(result, node, expressions)


def _few(decision: Decision, node: ast.expr, expressions: Expressions) -> Decision:
    """``decision``, or the condition as data where each branch would be copied too often."""
    if len(decision.true) + len(decision.false) > MAX_WAYS:
        return _data(expressions.truth(node))
    return decision


def _comparison(node: ast.Compare, expressions: Expressions) -> Decision:
    name = COMPARISONS.get(type(node.ops[0]))
    if name is None:
        return _data(expressions.truth(node))  # which refuses it
    left, right = expressions.scalar(node.left), expressions.scalar(node.comparators[0])
    one, two = _affine(left), _affine(right)
    if one is None or two is None:
        return _data(expressions.truth(node))
    true: list[Way] = []
    false: list[Way] = []
    for (known, a), (also, b) in product(one, two):
        true += [Way((*known, *also, c)) for c in _constraints(name, a, b)]
        false += [Way((*known, *also, c)) for c in _constraints(_NEGATED[name], a, b)]
    return Decision(tuple(true), tuple(false))


def _affine(value: Scalar) -> list[Case] | None:
    return cases(value.expr) if value.is_index and is_pure(value.expr) else None


def _constraints(op: str, a: Affine, b: Affine) -> list[Constraint]:
    """Disjoint constraints of which one holds where ``a op b``."""
    less, more = Constraint(to_expr((b - a).plus(-1))), Constraint(to_expr((a - b).plus(-1)))
    match op:
        case "lt":
            return [less]
        case "gt":
            return [more]
        case "le":
            return [Constraint(to_expr(b - a))]
        case "ge":
            return [Constraint(to_expr(a - b))]
        case "eq":
            return [Constraint(to_expr(a - b), equality=True)]
    return [less, more]


def _data(condition: Expr) -> Decision:
    if isinstance(condition, Literal):
        always = (Way(),)
        return Decision(always, ()) if condition.value else Decision((), always)
    return Decision((Way(guard=condition),), (Way(guard=~condition),))


def _and(first: Decision, second: Decision) -> Decision:
    if first.data is not None and second.data is not None:
        condition = both(first.data, second.data)
        assert condition is not None
        return _data(condition)
    true = tuple(a.then(b) for a in first.true for b in second.true)
    false = (*first.false, *(a.then(b) for a in first.true for b in second.false))
    return Decision(true, false)


def _or(first: Decision, second: Decision) -> Decision:
    flipped = _and(Decision(first.false, first.true), Decision(second.false, second.true))
    return Decision(flipped.false, flipped.true)


# ---- An ``if`` on data whose branches assign to one element, as one value.
#
# if x > 0: A[i] = x A[i] = select(x > 0, x, y) else: A[i] = y


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
