"""Index-set splitting of a loop: before, between and after where conditions on its variable hold.

    for j in lo .. hi: …  →  for j in lo .. a: …    for j in a .. b: middle    for j in b .. hi: …

What ``cut_points`` and ``cut_ranges`` share: they say which conditions, and what the middle is.
Also known as: loop peeling, if the outer parts are short.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from weft.codegen.tile_bounds import TRUE, all_of, extreme
from weft.ir.loop_ir import Block, For, If, Let, Stmt, expressions, walk
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine, to_expr
from weft.ir.scalar_expr import Apply, Expr, Var, has_loads, literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions


@dataclass(frozen=True, slots=True)
class Side:
    """A condition holds from ``value`` of a loop's variable on (``lower``), or below it."""

    lower: bool
    value: Expr


def cut_loop(loop: For, conditions: Iterable[Expr], middle: Stmt, around: Set[str]) -> Stmt | None:
    """``loop``, where the names ``around`` are bound, with ``middle`` for its body where all
    ``conditions`` hold.

    Conditions that do not mention the loop's variable are tested once, before the loop. None if
    there is nothing to split, or if a condition does not hold on one side of a bound that is known
    before the loop.
    """
    sides: list[Side] = []
    given: list[Expr] = []
    inside = bound_inside(loop)
    for condition in conditions:
        if mentions(condition, inside) or has_loads(condition):
            return None
        if mentions(condition, (loop.var,)):
            side = side_of(condition, loop.var)
            if side is None:
                return None
            sides.append(side)
        else:
            given.append(condition)
    if not sides:
        return None
    begin = Var(fresh_name(f"{loop.var}.full", loop, around))
    end = Var(fresh_name(f"{loop.var}.rest", loop, around))
    first = extreme("max", [loop.lower, *(s.value for s in sides if s.lower)])
    behind = extreme("min", [loop.upper, *(s.value for s in sides if not s.lower)])
    parts = (
        replace(loop, upper=begin),
        replace(loop, lower=begin, upper=end, body=middle),
        replace(loop, lower=end),
    )
    apart = Let(
        begin.name,
        extreme("min", [first, loop.upper]),
        Let(end.name, extreme("max", [behind, begin]), Block(parts)),
    )
    before = all_of(given)
    return apart if before == TRUE else If(before, apart, loop)


def fresh_name(name: str, loop: For, around: Set[str]) -> str:
    """``name``, or a variant that is bound neither ``around`` nor in ``loop``, which an earlier
    pass may have split."""
    used = (n for s in walk(loop) for e in expressions(s) for n in walk_expr(e))
    known = bound_inside(loop) | around | {n.name for n in used if isinstance(n, Var)}
    while name in known:
        name += "'"
    return name


def bound_inside(loop: For) -> set[str]:
    """The names that are bound within the body of ``loop`` only."""
    loops = {s.var for s in walk(loop.body) if isinstance(s, For)}
    return loops | {s.name for s in walk(loop.body) if isinstance(s, Let)}


def side_of(condition: Expr, var: str) -> Side | None:
    """From where on, or up to where, ``condition`` holds; None if it is no bound on ``var``."""
    match condition:
        case Apply("ge", (a, b)) | Apply("le", (b, a)):
            slack = a - b
        case Apply("gt", (a, b)) | Apply("lt", (b, a)):
            slack = a - b - 1
        case _:
            return None
    form = None if has_loads(condition) else to_affine(slack)
    return None if form is None else _side(form, var)


def _side(need: Affine, var: str) -> Side | None:
    """What ``need >= 0`` says of ``var``."""
    inside = [(t, c) for t, c in need.terms if isinstance(t, FloorDiv) and _has(t, var)]
    if inside:
        ((floor, c), *others) = inside
        assert isinstance(floor, FloorDiv)
        if others or need.coefficient(var) or c not in (1, -1):
            return None
        rest = need - Affine(((floor, c),))
        if c == 1:  # floor(x / d) >= -rest  <=>  x + d*rest >= 0
            need = floor.numerator + rest.scaled(floor.divisor)
        else:  # floor(x / d) <= rest  <=>  d*rest + d - 1 - x >= 0
            need = rest.scaled(floor.divisor).plus(floor.divisor - 1) - floor.numerator
        return _side(need, var)
    c = need.coefficient(var)
    if c == 0:
        return None
    other = to_expr(need - Affine(((var, c),)))
    return Side(True, (literal(c - 1) - other) // c) if c > 0 else Side(False, other // -c + 1)


def _has(floor: FloorDiv, var: str) -> bool:
    return var in floor.numerator.variables()
