"""Scalar expressions at one point at a time: the same meaning as ``scalar_interpreter``, faster.

Interpreters that run one instance after the other evaluate the same few expressions at many points.
Each is turned into nested Python functions once. int64 values are Python integers, bools Python
bools, all else is what ``scalar_interpreter`` holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    walk,
)
from weft.ir.scalar_interpreter import Arithmetic, evaluate
from weft.ir.scalar_ops import INTEGER_OPERATORS

DEEPEST = 200  # levels of an expression that Python's own stack is trusted with
REPEATED = 8  # times that shared subexpressions may be evaluated on average

Names = Mapping[str, Any]
LoadFunction = Callable[[Hashable, tuple[Any, ...]], Any]
Function = Callable[[Names, LoadFunction], Any]

_NUMBER = Arithmetic(precise=False)


class PointEvaluator:
    """``value(expr, names, load)``: the value of ``expr`` where variables are ``names``.

    ``load(source, indices)`` gives an element. Floating-point warnings are the caller's to silence.
    """

    def __init__(self) -> None:
        # With the expression, which keeps its id: its function, and what types values may have.
        self._known: dict[int, tuple[Expr, Function | None, tuple[type, ...]]] = {}

    def value(self, expr: Expr, names: Names, load: LoadFunction | None = None) -> Any:
        found = self._known.get(id(expr))
        if found is None:
            types: tuple[type, ...] = (int, bool, expr.dtype.numpy.type)
            found = self._known[id(expr)] = (expr, function_of(expr), types)
        _, function, known = found
        if function is None:
            return evaluate(expr, names, load)[()]
        value = function(names, load or _no_load)
        if type(value) in known:
            return value
        return value.astype(expr.dtype.numpy)[()]


def _no_load(source: Hashable, indices: tuple[Any, ...]) -> Any:
    raise AssertionError("a load without tensors")


def function_of(expr: Expr) -> Function | None:
    """``expr`` as a function; None where it is too deep, or shares too much."""
    depth: dict[int, int] = {}
    size: dict[int, int] = {}
    made: dict[int, Function] = {}
    for node in walk(expr):
        inner = node.children
        depth[id(node)] = 1 + max((depth[id(c)] for c in inner), default=0)
        size[id(node)] = 1 + sum(size[id(c)] for c in inner)
        if depth[id(node)] > DEEPEST or size[id(node)] > REPEATED * len(size) + 64:
            return None
        made[id(node)] = _function(node, [made[id(c)] for c in inner])
    return made[id(expr)]


def _function(node: Expr, inner: list[Function]) -> Function:
    match node:
        case Literal(value, dtype):
            known = _plain(_NUMBER.literal(value, dtype), dtype)
            return lambda names, load: known
        case Var(name, dtype) if dtype in _OWN:
            scalar, lift = dtype.numpy.type, partial(_lift, dtype=dtype)
            return lambda names, load: _as(names[name], scalar, lift)
        case Load(source, _, dtype) if dtype in _OWN:
            scalar, lift = dtype.numpy.type, partial(_lift, dtype=dtype)
            return lambda names, load: _as(
                load(source, tuple([f(names, load) for f in inner])), scalar, lift
            )
        case Var(name, dtype) if dtype == dtypes.int64:
            return lambda names, load: _as(names[name], int, _to_int)
        case Load(source, _, dtype) if dtype == dtypes.int64:
            return lambda names, load: _as(
                load(source, tuple([f(names, load) for f in inner])), int, _to_int
            )
        case Var(name, dtype):
            return lambda names, load: _plain(_lift(names[name], dtype), dtype)
        case Load(source, _, dtype):
            return lambda names, load: _plain(
                _lift(load(source, tuple(f(names, load) for f in inner)), dtype), dtype
            )
        case Select():
            condition, yes, no = inner
            return lambda names, load: (yes if condition(names, load) else no)(names, load)
        case Apply(op, args):
            return _apply(op, args[0].dtype, node.dtype, inner)
        case Cast(arg, dtype, saturate):
            return _unary(
                inner[0], arg.dtype, lambda v: _NUMBER.cast(v, arg.dtype, dtype, saturate), dtype
            )
        case Bitcast(arg, dtype):
            return _unary(
                inner[0], arg.dtype, lambda v: _NUMBER.bitcast(v, arg.dtype, dtype), dtype
            )
    raise AssertionError(f"{type(node).__name__} is not a scalar expression")


def _lift(value: Any, dtype: DType) -> Any:
    """As ``scalar_interpreter`` holds a value."""
    return np.asarray(value).astype(_NUMBER.held(dtype), copy=False)


def _to_int(value: Any) -> int:
    return int(value if type(value) is np.int64 else _lift(value, dtypes.int64))


def _as(value: Any, scalar: type, lift: Callable[[Any], Any]) -> Any:
    return value if type(value) is scalar else lift(value)


def _plain(value: Any, dtype: DType) -> Any:
    if dtype == dtypes.int64:
        return int(value)
    return bool(value) if dtype == dtypes.bool_ else value


def _unary(inner: Function, source: DType, change: Callable[[Any], Any], target: DType) -> Function:
    return lambda names, load: _plain(change(_lift(inner(names, load), source)), target)


_BOOL: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "xor": lambda a, b: a != b,
}


_OWN = (dtypes.float32, dtypes.float64)  # computed in their own type, by NumPy's scalars as well
_ROUNDED: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}


def _apply(op: str, dtype: DType, result: DType, inner: list[Function]) -> Function:
    """``op`` on operands of ``dtype``; both sides are always evaluated."""
    if dtype == dtypes.int64 and op in INTEGER_OPERATORS:
        integer, (left, right) = INTEGER_OPERATORS[op], inner
        if result == dtypes.bool_:
            return lambda names, load: integer(left(names, load), right(names, load))
        return lambda names, load: _wrapped(integer(left(names, load), right(names, load)))
    if dtype == dtypes.bool_ and op in _BOOL:
        logical, (left, right) = _BOOL[op], inner
        return lambda names, load: logical(left(names, load), right(names, load))
    if dtype in _OWN and op in _ROUNDED:
        rounded, (left, right) = _ROUNDED[op], inner
        return lambda names, load: rounded(left(names, load), right(names, load))
    return lambda names, load: _plain(
        _NUMBER.apply(op, [_lift(f(names, load), dtype) for f in inner], dtype), result
    )


def _wrapped(value: int) -> int:
    return (
        (value + (1 << 63)) % (1 << 64) - (1 << 63) if not -(1 << 63) <= value < 1 << 63 else value
    )
