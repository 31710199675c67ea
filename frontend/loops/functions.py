"""The functions that a loop kernel may call, by the Python objects that its names stand for."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from weft.frontend.loops.values import Scalar, cast_folded, combine
from weft.ir import build, dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError

_NAMES = {  # operator: what Python, NumPy and Weft call it
    "acos": ("acos", "arccos"), "asin": ("asin", "arcsin"), "atan": ("atan", "arctan"),
    "acosh": ("acosh", "arccosh"), "asinh": ("asinh", "arcsinh"), "atanh": ("atanh", "arctanh"),
    "atan2": ("atan2", "arctan2"), "abs": ("abs", "fabs", "absolute"), "copysign": ("copysign",),
    "cos": ("cos",), "cosh": ("cosh",), "sin": ("sin",), "sinh": ("sinh",), "tan": ("tan",),
    "tanh": ("tanh",), "exp": ("exp",), "exp2": ("exp2",), "expm1": ("expm1",), "log": ("log",),
    "log2": ("log2",), "log1p": ("log1p",), "sqrt": ("sqrt",), "erf": ("erf",),
    "floor": ("floor",), "ceil": ("ceil",), "trunc": ("trunc",),
    "round": ("rint", "round_even", "round"), "rem": ("fmod",), "pow": ("pow", "power"),
    "sign": ("sign",), "isnan": ("isnan",), "isinf": ("isinf",), "isfinite": ("isfinite",),
    "min": ("min", "minimum"), "max": ("max", "maximum"),
}  # fmt: skip
_INTEGER = ("floor", "ceil", "trunc")  # of ``math``, where they give an int


def _table() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for op, names in _NAMES.items():
        for home in (builtins, math, np, build):
            for name in names:
                function = getattr(home, name, None)
                if callable(function) and not (home is np and name in ("min", "max")):
                    found[function] = op
    return found


OPERATORS: dict[Any, str] = _table()
TYPES: dict[Any, DType] = {dtype.numpy.type: dtype for dtype in dtypes.ALL}
FUNCTIONS = tuple(sorted(op if op in names else names[0] for op, names in _NAMES.items()))
FOLDS = ("min", "max")  # of two operands or more


def call_operator(function: Callable[..., Any], args: list[Scalar]) -> Scalar | None:
    """``function`` of ``args``; None where it is no function of scalars that is known here.

    Raises ``ExpressionError`` for the wrong number or dtypes of arguments.
    """
    if function in (int, round, *(getattr(math, name) for name in _INTEGER)):
        return _to_int(function, _one(function, args))
    if function is float:
        return Scalar(cast_folded(_one(function, args).expr, dtypes.float64), weak=True)
    if function is bool:
        return Scalar(cast_folded(_one(function, args).expr, dtypes.bool_))
    op = _operator(function)
    if op is None:
        return None
    if op in FOLDS and len(args) > 2:
        result = args[0]
        for arg in args[1:]:
            result = combine(op, result, arg)
        return result
    if op not in ("abs", "sign", "pow", *FOLDS):  # the others are of floats
        args = [
            Scalar(cast_folded(a.expr, dtypes.float64), a.weak) if a.dtype.is_integer else a
            for a in args
        ]
    return combine(op, *args)


def _operator(function: Any) -> str | None:
    try:
        return OPERATORS.get(function)
    except TypeError:  # what cannot be hashed is none of them
        return None


def _to_int(function: Callable[..., Any], value: Scalar) -> Scalar:
    if value.dtype.is_integer:
        return value
    expr = value.expr
    if function in (math.floor, math.ceil, round):
        expr = combine(OPERATORS[function], value).expr
    return Scalar(cast_folded(expr, dtypes.int64), weak=True)


def _one(function: Callable[..., Any], args: list[Scalar]) -> Scalar:
    if len(args) != 1:
        raise ExpressionError("WEFT-E0163", f"{function.__name__} takes one argument here")
    return args[0]


# ---- What kernels call to make arrays of their own; in plain Python, NumPy arrays.


Shape = int | Sequence[int]


def zeros(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    """An array of zeros of ``shape``, a size or several, and ``dtype`` (float64), local to the
    kernel that makes it: ``tmp = weft.zeros((N, M), weft.f64)``. Outside of kernels, NumPy's."""
    return np.zeros(shape, dtype.numpy)


def ones(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    """An array of ones of ``shape`` and ``dtype``, as ``zeros`` makes one."""
    return np.ones(shape, dtype.numpy)


def empty(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    """An array of ``shape`` and ``dtype``, as ``zeros`` makes one, whose elements must be written
    before they are read."""
    return np.empty(shape, dtype.numpy)


def statement(name: str) -> AbstractContextManager[None]:
    """``with weft.statement("init"):`` names the statements in it, for schedules and errors."""
    return nullcontext()


# What each function puts into the array; None: nothing.
FILLS: dict[object, int | None] = {
    zeros: 0, np.zeros: 0, ones: 1, np.ones: 1, empty: None, np.empty: None,
}  # fmt: skip
