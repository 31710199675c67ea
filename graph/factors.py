"""Expressions as products of factors, and constants that go into sums of products."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import frexp

from weft.graph.correlation import at_most
from weft.graph.whole_program import Key, key_of
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Var,
    apply,
    cast,
    literal,
    walk,
)
from weft.ir.tensor_expr import Compute, Program, Reduce, Tensor, operations, tensors_read

MAX_NODES = 256  # of a body that is looked at


def factors(expr: Expr) -> list[Expr]:
    """What ``expr`` is the product of; a division is by the inverse."""
    match expr:
        case Apply("mul", (left, right)):
            return factors(left) + factors(right)
        case Apply("div", (left, right)):
            return [*factors(left), literal(1.0, right.dtype) / right]
        case Apply("neg", (arg,)):
            return [*factors(arg), literal(-1.0, arg.dtype)]
        case Cast(Apply("mul" | "div" | "neg") as arg, dtype) if dtype.is_float:
            return [cast(f, dtype) for f in factors(arg)]
    return [expr]


def times(parts: Sequence[Expr]) -> Expr:
    """The product of ``parts``, in the dtype of the first."""
    return reduce(lambda left, right: left * cast(right, left.dtype), parts)


def plus(parts: Sequence[Expr]) -> Expr:
    """The sum of ``parts``, in the dtype of the first."""
    return reduce(lambda left, right: left + cast(right, left.dtype), parts)


def is_number(expr: Expr) -> bool:
    """Whether ``expr`` is the same everywhere, whatever the loops do."""
    return not any(isinstance(node, Load | Var) for node in walk(expr))


def is_power(expr: Expr) -> bool:
    """Whether ``expr`` is a positive power of two, as it stands or inverted."""
    match expr:
        case Literal(value, dtype) if dtype.is_float:
            return value > 0 and frexp(value)[0] == 0.5
        case Apply("div", (left, right)):
            return is_power(left) and is_power(right)
        case Cast(arg):
            return is_power(arg)
    return False


def into_sums(expr: Expr, factor: Expr, active: Callable[[Expr], bool]) -> Expr | None:
    """``expr`` * ``factor`` with the factor among the constants of a sum of products, if ``expr``
    is such or adds something to it; ``active`` tells what is no constant."""
    match expr:
        case Reduce(monoid, _, (value,)) if monoid.is_sum:
            constants = [f for f in factors(value) if not active(f) and not is_number(f)]
            return replace(expr, values=(times([value, factor]),)) if constants else None
        case Apply("add" | "sub" as op, sides):
            if any(active(s) and into_sums(s, factor, active) is not None for s in sides):
                left, right = (times([side, factor]) for side in sides)
                return apply(op, left, right)
        case Cast(arg) if arg.dtype.is_float:
            return into_sums(arg, cast(factor, arg.dtype), active)
    return None


def contracts(program: Program, active: Collection[Tensor], constants: Collection[Tensor]) -> bool:
    """Whether ``program`` sums products of ``active`` placeholders with ``constants``."""
    moving = {key_of(t): t in active for t in program.inputs}
    fixed = {key_of(t): t in constants for t in program.inputs}
    for operation in operations(program):
        reads = [key_of(t) for t in operation.reads]
        moving[(operation, 0)] = any(moving.get(k, False) for k in reads)
        fixed[(operation, 0)] = all(fixed.get(k, False) for k in reads)
        values = operation.values if isinstance(operation, Compute) else ()
        for node in (n for value in values for n in at_most(value, MAX_NODES)):
            sums = isinstance(node, Reduce) and node.monoid.is_sum
            if sums and _is_mixed(node.children[0], moving, fixed):
                return True
    return False


def _is_mixed(value: Expr, moving: Mapping[Key, bool], fixed: Mapping[Key, bool]) -> bool:
    keys = [[key_of(t) for t in tensors_read([f])] for f in factors(value)]
    return any(any(moving.get(k, False) for k in own) for own in keys) and any(
        own and all(fixed.get(k, False) for k in own) for own in keys
    )
