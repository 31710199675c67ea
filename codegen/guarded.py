"""Statements guarded by a condition: those that are no-ops where it is false."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from weft.codegen.conditions import body_given, given
from weft.ir import dtypes
from weft.ir.loop_ir import (
    Block,
    Check,
    Comment,
    If,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
)
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Select, Var, literal
from weft.ir.tensor_expr import Monoid

_TRUE = literal(True, dtypes.bool_)


def no_op_unless(stmt: Stmt, condition: Expr, lets: Mapping[str, Expr] | None = None) -> bool:
    """Whether ``stmt`` has no effect if ``condition`` is false; ``lets``: values of names bound
    around."""
    known = lets or {}

    def otherwise(expr: Expr) -> Expr:
        return given(expr, condition, holds=False)

    match stmt:
        case Block(stmts):
            return all(no_op_unless(each, condition, known) for each in stmts)
        case Let(name, value, body):
            return no_op_unless(body, condition, {**known, name: otherwise(value)})
        case Comment() | Prefetch():
            return True
        case If(asked, then, other):
            there = body_given(then, asked, holds=True)
            return no_op_unless(there, condition, known) and no_op_unless(other, condition, known)
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


def leading_conditions(stmt: Stmt) -> Iterator[Expr]:
    """Conditions that ``stmt`` evaluates unconditionally and first: those of the selects in its
    first effect."""
    while isinstance(stmt, Block | Let):
        if isinstance(stmt, Let):
            stmt = stmt.body
        else:
            stmt = next((s for s in stmt.stmts if not isinstance(s, Comment)), Comment(""))
    match stmt:
        case Store(_, _, value):
            yield from _select_conditions(value)
        case Update(_, _, values):
            for value in values:
                yield from _select_conditions(value)
        case Check(condition):
            yield from _select_conditions(condition)


def _select_conditions(value: Expr) -> Iterator[Expr]:
    while isinstance(value, Select):
        yield value.condition
        match value.condition:
            case Apply("not", (positive,)):
                yield positive
            case condition:
                yield ~condition
        value = value.condition


def _neutral(value: Expr, monoid: Monoid) -> bool:
    """Whether folding ``value`` is a no-op. For float sums that is -0.0: adding 0.0 changes
    -0.0."""
    if not isinstance(value, Literal):
        return False
    number = value.value
    if monoid.name == "add" and value.dtype.is_float:
        return number == 0 and math.copysign(1.0, float(number)) < 0
    return bool(number == monoid.identity[0])
