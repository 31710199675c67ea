"""How much a kernel computes, roughly, as a size expression: is it worth a second thread?

``kernel_work`` is what threads may share, ``kernel_barriers`` how often they meet while they do:
scalar operations, loads and stores of every statement times the trip counts around it. A trip
count that depends on outer loops is their mean over the first, the middle (four times) and the last
iteration, which is exact for triangles; one that depends on data counts as ``UNKNOWN``. A parallel
loop of one turn has nothing to share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.codegen.loop_ir import (
    Barrier,
    For,
    If,
    Kernel,
    Single,
    Stmt,
    Store,
    Update,
    While,
    children,
    expressions,
)
from weft.frontend.scalar_expr import Apply, Expr, Load, Var, apply, literal, substitute, walk

UNKNOWN = 64  # trips of a loop whose bounds are data
_COSTLY = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2", "div", "sqrt",
    "floordiv", "mod", "truncdiv", "rem",
})  # fmt: skip
_COSTLY_WORK = 10

FIRST, MIDDLE, LAST = range(3)  # iteration of a loop

_Range = tuple[Expr, Expr]  # first and last value of a loop variable, over parameters


def kernel_work(kernel: Kernel) -> Expr:
    """Scalar operations of one run of ``kernel`` that several threads can share, over its
    parameters; an estimate."""
    return _total(kernel.body, {}, frozenset(kernel.parameters), _operations)


def kernel_barriers(kernel: Kernel) -> Expr:
    """How many barriers one run of ``kernel`` meets, over its parameters; an estimate."""
    return _total(kernel.body, {}, frozenset(kernel.parameters), _meetings)


def _operations(stmt: Stmt) -> int:
    own = sum(_cost(expr) for expr in expressions(stmt))
    match stmt:
        case Store():
            return own + 1
        case Update(_, monoid, _):
            return own + 1 + sum(_cost(expr) for expr in monoid.combined)
    return own


def _meetings(stmt: Stmt) -> int:
    return isinstance(stmt, Barrier)


def _total(
    stmt: Stmt,
    ranges: Mapping[str, _Range],
    parameters: frozenset[str],
    count: Callable[[Stmt], int],
) -> Expr:
    """The sum of ``count`` over all turns of all statements in ``stmt`` but those of one thread."""
    inner = ranges
    trips: Expr = literal(1)
    match stmt:
        case For(var, lower, upper, kind, _, step):
            trips = _midway(upper - lower, ranges, parameters)
            trips = apply("max", (trips + (step - 1)) // step, literal(0))
            if kind == "parallel" and count is _operations:
                trips = apply("min", trips, apply("max", trips * 2 - 2, literal(0)))
            first = _at(lower, ranges, parameters, FIRST)
            last = _at(upper - 1, ranges, parameters, LAST)
            if first is not None and last is not None:
                inner = {**ranges, var: (first, last)}
        case While():
            trips = literal(UNKNOWN)
        case Single():
            return literal(0)
    below: Expr = literal(0)
    for child in children(stmt):
        part = _total(child, inner, parameters, count)
        below = apply("max", below, part) if isinstance(stmt, If) else below + part
    return literal(count(stmt)) + trips * below


def _cost(expr: Expr) -> int:
    total = 0
    for node in walk(expr):
        if isinstance(node, Apply):
            total += _COSTLY_WORK if node.op in _COSTLY else 1
        elif isinstance(node, Load):
            total += 1
    return total


def _midway(extent: Expr, ranges: Mapping[str, _Range], parameters: frozenset[str]) -> Expr:
    """The mean of ``extent``, by Simpson's rule."""
    first, last = (_at(extent, ranges, parameters, where) for where in (FIRST, LAST))
    middle = _at(extent, ranges, parameters, MIDDLE)
    if first is None or middle is None or last is None:
        return literal(UNKNOWN)
    if first == middle == last:
        return first
    positive = (apply("max", value, literal(0)) for value in (first, middle * 4, last))
    return (sum(positive, literal(5))) // 6


def _at(
    expr: Expr, ranges: Mapping[str, _Range], parameters: frozenset[str], where: int
) -> Expr | None:
    """``expr`` with all loops around it at their first, middle or last iteration; None if that is
    not known."""
    names = {node.name for node in walk(expr) if isinstance(node, Var)}
    if any(isinstance(node, Load) for node in walk(expr)) or not names <= {*ranges, *parameters}:
        return None
    found = names & ranges.keys()
    return substitute(expr, {name: _value(ranges[name], where) for name in found})


def _value(range_: _Range, where: int) -> Expr:
    first, last = range_
    return (first + last) // 2 if where == MIDDLE else first if where == FIRST else last
