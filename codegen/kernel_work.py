"""How much threads can take off each other, roughly, as a size expression.

Work is counted in operations, loads and stores, of vectors where a loop runs as one: some 0.15 ns
each. On n threads a kernel takes S + (W - S) / n at most, where W is its work and S what is left of
it on any number of threads: one turn of every parallel loop, and all that one thread does alone.
``kernel_work`` is W - S, ``kernel_barriers`` how often threads meet while they share it.

A trip count that depends on outer loops is their mean over the first, the middle (four times) and
the last iteration, which is exact for triangles; one that depends on data counts as ``UNKNOWN``.

Reference: Brent, The parallel evaluation of general arithmetic expressions, JACM 1974.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.codegen.loop_ir import (
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    While,
    children,
    expressions,
)
from weft.frontend.scalar_expr import Apply, Expr, Load, Var, apply, literal, substitute, walk

UNKNOWN = 64  # trips of a loop whose bounds are data
LANES = 8  # elements of a vector
_COSTLY = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "pow", "atan2", "div", "sqrt",
    "floordiv", "mod", "truncdiv", "rem",
})  # fmt: skip
_COSTLY_WORK = 10

FIRST, MIDDLE, LAST = range(3)  # iteration of a loop

_Range = tuple[Expr, Expr]  # first and last value of a loop variable, over parameters
_Ranges = Mapping[str, _Range]


def kernel_work(kernel: Kernel) -> Expr:
    """Operations of one run of ``kernel`` that threads can take off each other, over its
    parameters; an estimate."""
    return _Counter(kernel, _operations).shared(kernel.body, {})


def kernel_barriers(kernel: Kernel) -> Expr:
    """How many barriers one run of ``kernel`` meets, over its parameters; an estimate."""
    return _Counter(kernel, _meetings).total(kernel.body, {})


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


class _Counter:
    """Sums of ``count`` over all turns of statements."""

    def __init__(self, kernel: Kernel, count: Callable[[Stmt], int]) -> None:
        self.parameters = frozenset(kernel.parameters)
        self.count = count

    def shared(self, stmt: Stmt, ranges: _Ranges) -> Expr:
        """All of ``stmt`` but what takes as long on any number of threads."""
        match stmt:
            case For(kind="parallel"):
                others = self._trips(stmt, ranges, fewer=1)
                return others * self.total(stmt.body, self._inside(stmt, ranges))
            case For():
                inside = self.shared(stmt.body, self._inside(stmt, ranges))
                return self._trips(stmt, ranges) * inside
            case While():
                return self.shared(stmt.body, ranges) * UNKNOWN
            case Let(name, value, body):
                return self.shared(body, self._known(name, value, value, ranges))
        return _joined(stmt, [self.shared(child, ranges) for child in children(stmt)])

    def total(self, stmt: Stmt, ranges: _Ranges) -> Expr:
        own = literal(self.count(stmt))
        match stmt:
            case For():
                inside = self.total(stmt.body, self._inside(stmt, ranges))
                return own + self._trips(stmt, ranges) * inside
            case While():
                return own + self.total(stmt.body, ranges) * UNKNOWN
            case Let(name, value, body):
                return own + self.total(body, self._known(name, value, value, ranges))
        return own + _joined(stmt, [self.total(child, ranges) for child in children(stmt)])

    def _trips(self, loop: For, ranges: _Ranges, *, fewer: int = 0) -> Expr:
        """Turns of ``loop``, of vectors where it is one; ``fewer``: less that, but not below 0."""
        size = loop.step * (LANES if loop.kind == "vector" else 1)
        turns = (loop.upper - loop.lower + (size - 1)) // size - fewer
        return apply("max", _midway(turns, ranges, self.parameters), literal(0))

    def _inside(self, loop: For, ranges: _Ranges) -> _Ranges:
        return self._known(loop.var, loop.lower, loop.upper - 1, ranges)

    def _known(self, name: str, lower: Expr, upper: Expr, ranges: _Ranges) -> _Ranges:
        """``ranges`` with that of ``name``, if it is known."""
        first = _at(lower, ranges, self.parameters, FIRST)
        last = _at(upper, ranges, self.parameters, LAST)
        others = {n: range_ for n, range_ in ranges.items() if n != name}
        return others if first is None or last is None else {**others, name: (first, last)}


def _joined(stmt: Stmt, parts: Sequence[Expr]) -> Expr:
    """The parts one after the other; of a condition, the dearer branch."""
    joined: Expr = literal(0)
    for part in parts:
        joined = apply("max", joined, part) if isinstance(stmt, If) else joined + part
    return joined


def _cost(expr: Expr) -> int:
    """Operations and loads, each node once; of what addresses take, only the loads: the rest is
    worked out outside of loops."""
    total = 0
    seen: set[int] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Load(_, indices):
                total += 1
                stack += [n for index in indices for n in walk(index) if isinstance(n, Load)]
            case Apply(op):
                total += _COSTLY_WORK if op in _COSTLY else 1
                stack += node.children
            case _:
                stack += node.children
    return total


def _midway(extent: Expr, ranges: _Ranges, parameters: frozenset[str]) -> Expr:
    """The mean of ``extent``, by Simpson's rule."""
    first, last = (_at(extent, ranges, parameters, where) for where in (FIRST, LAST))
    middle = _at(extent, ranges, parameters, MIDDLE)
    if first is None or middle is None or last is None:
        return literal(UNKNOWN)
    if first == middle == last:
        return first
    positive = (apply("max", value, literal(0)) for value in (first, middle * 4, last))
    return (sum(positive, literal(5))) // 6


def _at(expr: Expr, ranges: _Ranges, parameters: frozenset[str], where: int) -> Expr | None:
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
