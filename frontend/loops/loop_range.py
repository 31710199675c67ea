"""``for i in range(…)`` → dims that ascend by 1 from affine bounds.

    range(lo, hi)       i,               lo <= i < hi
    range(lo, hi, s)    i = lo + s * d,  0 <= d, i < hi        (s < 0: i > hi)

``max`` of several lower bounds and ``min`` of several upper ones are several constraints; bounds
that are affine by cases otherwise (``min`` below, ``//`` of neither) are one loop for each case.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from weft.frontend.loops.affine import Case, cases, operands
from weft.frontend.loops.builder import ScopBuilder
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.values import is_pure
from weft.ir.scalar_affine import to_expr
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    variable_names,
    walk,
)
from weft.ir.scop import Constraint


@dataclass(frozen=True, slots=True)
class Turns:
    """One loop: over ``dim``, within ``bounds``, for ``when`` outside it; ``value`` is the user's
    variable."""

    when: tuple[Constraint, ...]
    dim: str
    bounds: tuple[Constraint, ...]
    value: Expr


def loop_range(
    node: ast.For, name: str, expressions: Expressions, builder: ScopBuilder
) -> Iterator[Turns]:
    """The loops of ``node``, whose variable is ``name``: disjoint cases, nearly always one.

    Raises ``KernelError`` (WEFT-E0164: not affine; E0168: no ``range``, or of an unknown step).
    """
    start, stop, step = _arguments(node.iter, expressions)
    first, last = ("max", "min") if step > 0 else ("min", "max")
    starts = _sides(start[0], start[1], first if abs(step) == 1 else "", expressions, builder)
    stops = _sides(stop[0], stop[1], last, expressions, builder)
    for chosen in product(*starts, *stops):
        when = tuple(dict.fromkeys(c for known, _ in chosen for c in known))
        lows = [to_expr(form) for _, form in chosen[: len(starts)]]
        highs = [to_expr(form) for _, form in chosen[len(starts) :]]
        dim = builder.fresh(name)
        value: Expr = Var(dim) if step == 1 else lows[0] + Var(dim) * step
        if step > 0:
            bounds = [value - low for low in lows] + [high - 1 - value for high in highs]
        else:
            bounds = [low - value for low in lows] + [value - high - 1 for high in highs]
        if step != 1:
            bounds[0] = Var(dim)
        yield Turns(when, dim, tuple(map(Constraint, bounds)), value)


def _arguments(
    node: ast.expr, expressions: Expressions
) -> tuple[tuple[Expr, ast.expr], tuple[Expr, ast.expr], int]:
    """Start and stop, each with its place, and the step."""
    source = expressions.source
    is_range = isinstance(node, ast.Call) and expressions.value(node.func) is range
    if not isinstance(node, ast.Call) or not is_range or not 1 <= len(node.args) <= 3:
        source.refuse(
            "E0168",
            node,
            f"{source.code(node)} is nothing that a kernel can loop over",
            hint="for i in range(stop), range(start, stop) or range(start, stop, step)",
        )
    if node.keywords:
        source.refuse("E0168", node, "range takes its arguments in order")
    given = [(expressions.index(arg), arg) for arg in node.args]
    start = (literal(0), node) if len(given) == 1 else given[0]
    stop = given[0] if len(given) == 1 else given[1]
    if len(given) < 3:
        return start, stop, 1
    step = given[2][0]
    if not isinstance(step, Literal) or not step.value:
        source.refuse(
            "E0168",
            node.args[2],
            f"the step {source.code(node.args[2])} is not a number other than 0",
            why="with another step the loop's values would not be affine",
            hint="write the number, or a constant of the module",
        )
    return start, stop, int(step.value)


def _sides(
    bound: Expr, node: ast.expr, several: str, expressions: Expressions, builder: ScopBuilder
) -> list[list[Case]]:
    """Each of the bounds that ``bound`` is made of, with its cases."""
    parts = operands(several, bound) if several else [bound]
    return [affine_cases(part, node, expressions, builder, "the bound of a loop") for part in parts]


def affine_cases(
    expr: Expr, node: ast.expr, expressions: Expressions, builder: ScopBuilder, what: str
) -> list[Case]:
    """``expr`` as cases, where need be with products of sizes as parameters of their own."""
    source = expressions.source
    if not is_pure(expr):
        names = ", ".join(dict.fromkeys(str(n.source) for n in walk(expr) if isinstance(n, Load)))
        source.refuse(
            "E0164",
            node,
            f"{what}, {source.code(node)}, depends on data",
            why=f"it is computed from {names}",
            hint="loop over all values that it may have, with `if` inside; a number that only the"
            " caller knows is an argument of type int",
        )
    found = cases(expr) or cases(with_derived(expr, builder))
    if found is None:
        source.refuse(
            "E0164",
            node,
            f"{what}, {source.code(node)}, is not affine",
            why="affine are sums of loop variables and sizes times constants, // and % by"
            " constants, and min and max of such",
            hint="loop as far as it may go at most, with the exact bound as an `if` inside",
        )
    return found


def with_derived(expr: Expr, builder: ScopBuilder) -> Expr:
    """``expr`` with what sizes alone make up, but not as an affine form, as parameters."""
    known = set(builder.parameters)

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Apply) or node.op in ("min", "max", "abs", "neg"):
            return None
        if node.op not in ("mul", "floordiv", "mod") or cases(node) is not None:
            return None
        names = variable_names(node)
        return builder.derive(node) if names <= known else None

    return rewrite(expr, change)
