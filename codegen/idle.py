"""Which conditions decide on whether statements do anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

from weft.codegen.conditions import body_given, given
from weft.ir import dtypes
from weft.ir.loop_ir import (
    Block,
    Check,
    Comment,
    For,
    If,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    While,
    children,
)
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Select, Var, literal, walk
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Monoid

_TRUE = literal(True, dtypes.bool_)


def idle(stmt: Stmt, condition: Expr, lets: Mapping[str, Expr] | None = None) -> bool:
    """Whether ``stmt`` has no effect where ``condition`` is false; ``lets``: values around it."""
    known = lets or {}

    def otherwise(expr: Expr) -> Expr:
        return given(expr, condition, holds=False)

    match stmt:
        case Block(stmts):
            return all(idle(each, condition, known) for each in stmts)
        case Let(name, value, body):
            return idle(body, condition, {**known, name: otherwise(value)})
        case Comment() | Prefetch():
            return True
        case If(asked, then, other):
            there = body_given(then, asked, holds=True)
            return idle(there, condition, known) and idle(other, condition, known)
        case Store(buffer, indices, value):
            kept = otherwise(value)
            if isinstance(kept, Var):
                kept = known.get(kept.name, kept)
            return kept == Load(buffer, tuple(map(otherwise, indices)), value.dtype)
        case Update(_, monoid, values):
            left = [otherwise(value) for value in values]
            return len(left) == 1 and _neutral(left[0], monoid)
        case Check(asked):
            return otherwise(asked) == _TRUE
    return False


def asked_first(stmt: Stmt) -> Iterator[Expr]:
    """Conditions that ``stmt`` evaluates in any case, and first: those by which its first effect
    selects what it does."""
    while isinstance(stmt, Block | Let):
        if isinstance(stmt, Let):
            stmt = stmt.body
        else:
            stmt = next((s for s in stmt.stmts if not isinstance(s, Comment)), Comment(""))
    match stmt:
        case Store(_, _, value):
            yield from _asked(value)
        case Update(_, _, values):
            for value in values:
                yield from _asked(value)
        case Check(condition):
            yield from _asked(condition)


def _asked(value: Expr) -> Iterator[Expr]:
    while isinstance(value, Select):
        yield value.condition
        match value.condition:
            case Apply("not", (positive,)):
                yield positive
            case condition:
                yield ~condition
        value = value.condition


def _neutral(value: Expr, monoid: Monoid) -> bool:
    """Whether folding ``value`` in changes nothing: -0.0 of sums, to which 0.0 is an addend."""
    if not isinstance(value, Literal):
        return False
    number = value.value
    if monoid.name == "add" and value.dtype.is_float:
        return number == 0 and math.copysign(1.0, float(number)) < 0
    return bool(number == monoid.identity[0])


# ---- Load imbalance.


def is_uneven(loop: For) -> bool:
    """Whether iterations of ``loop`` take different times: a trip count inside depends on the
    iteration (a triangle) or on data.

    Partial tiles do not count: of bounds that are ``min`` or ``max``, one pair of operands with a
    constant distance is enough.
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
    """Whether the trip count is invariant. If the bounds move together, so does it; two invariant
    bounds may cross a moving one, unless they are a constant apart."""
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
