"""What names and expressions in a loop kernel stand for, and Python's arithmetic on it.

    Value  ::= Scalar | View | tuple of values | a Python object (a function, a dtype, a kernel)
    Scalar ::= expr, weak
    View   ::= tensor, subscripts: (Expr | Free)…, dtype

* A ``weak`` scalar is a Python number: a literal, a loop variable, a size. It takes the dtype of
  what it meets, as in NumPy 2; two of them compute in int64 or float64.
* Arrays and typed scalars are never converted silently.
* ``Load(tensor name, indices)`` in an expression is an element of a tensor of the Scop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Load,
    apply,
    cast,
    literal,
    select,
    walk,
)


@dataclass(frozen=True, slots=True)
class Scalar:
    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def is_index(self) -> bool:
        """Whether it may stand in bounds and subscripts: an integer of 64 bits."""
        return self.expr.dtype == dtypes.int64


@dataclass(frozen=True, slots=True)
class Free:
    """A dimension that is left whole: elements ``start`` … ``start + size - 1``."""

    start: Expr
    size: Expr


@dataclass(frozen=True, slots=True)
class View:
    """An array, or the part of one that fixed subscripts leave."""

    tensor: str
    subscripts: tuple[Expr | Free, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[Expr, ...]:
        return tuple(s.size for s in self.subscripts if isinstance(s, Free))

    def at(self, indices: tuple[Expr | Free, ...]) -> View:
        """The part at ``indices``, one for each dimension that is left."""
        given = iter(indices)
        inner: list[Expr | Free] = []
        for subscript in self.subscripts:
            if not isinstance(subscript, Free):
                inner.append(subscript)
                continue
            index = next(given)
            if isinstance(index, Free):
                inner.append(Free(subscript.start + index.start, index.size))
            else:
                inner.append(subscript.start + index)
        return View(self.tensor, tuple(inner), self.dtype)

    @property
    def element(self) -> Load:
        """The one element that is left where no dimension is."""
        indices = tuple(s for s in self.subscripts if not isinstance(s, Free))
        return Load(self.tensor, indices, self.dtype)


Value = Any  # see above


def whole(tensor: str, shape: tuple[Expr, ...], dtype: DType) -> View:
    return View(tensor, tuple(Free(literal(0), size) for size in shape), dtype)


def number(value: float) -> Scalar:
    """A Python number; ``ExpressionError`` (WEFT-E0166) where it has no dtype of Weft's."""
    if isinstance(value, bool):
        return Scalar(literal(value, dtypes.bool_))
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ExpressionError("WEFT-E0166", f"{value} does not fit 64 bits")
        return Scalar(literal(value), weak=True)
    return Scalar(literal(float(value), dtypes.float64), weak=True)


def convert(value: Scalar, dtype: DType) -> Expr:
    """``value`` as ``dtype``, which it meets or is stored as.

    Raises ``ExpressionError`` (WEFT-E0166) where that would convert something silently.
    """
    if value.dtype == dtype:
        return value.expr
    fits = dtype.is_float or (value.dtype.is_integer and dtype.is_integer)
    if not value.weak or not fits:
        kind = "a Python number" if value.weak else f"{value.dtype}"
        raise ExpressionError(
            "WEFT-E0166",
            f"{kind} of dtype {value.dtype} stands where {dtype} is needed"
            if value.weak
            else f"{kind} stands where {dtype} is needed",
            why="nothing is converted silently",
            hint="int(…) and float(…) make numbers of conditions, … != 0 the reverse"
            if dtypes.bool_ in (dtype, value.dtype)
            else f"convert it: weft.{dtype}(…)",
        )
    return cast_folded(value.expr, dtype)


def cast_folded(expr: Expr, dtype: DType) -> Expr:
    """``expr`` as ``dtype``; a literal stays one."""
    if isinstance(expr, Literal) and dtype.kind != "bool":
        if expr.dtype == dtypes.float64 and dtype.is_float:
            return literal(expr.value, dtype)
        if expr.dtype == dtypes.int64 and (dtype.is_integer or abs(expr.value) <= 1 << 53):
            return literal(expr.value, dtype)
    return cast(expr, dtype)


def together(*values: Scalar) -> tuple[DType, bool]:
    """The dtype in which ``values`` meet, and whether that is still a Python number.

    Raises ``ExpressionError`` (WEFT-E0166) for two dtypes.
    """
    strong = [v for v in values if not v.weak]
    if not strong:
        is_float = any(v.dtype.is_float for v in values)
        return (dtypes.float64 if is_float else dtypes.int64), True
    for value in strong:
        if value.dtype != strong[0].dtype:
            raise ExpressionError(
                "WEFT-E0166",
                f"{strong[0].dtype} meets {value.dtype}",
                why="nothing is converted silently",
                hint="int(…) and float(…) make numbers of conditions, … != 0 the reverse"
                if dtypes.bool_ in (strong[0].dtype, value.dtype)
                else f"convert one side: weft.{strong[0].dtype}(…)",
            )
    return strong[0].dtype, False


def combine(op: str, *values: Scalar) -> Scalar:
    """``op`` on values of one dtype, or that come to have one.

    Raises ``ExpressionError`` (WEFT-E0166 and what ``scalar_expr.apply`` raises).
    """
    if op == "div" and all(v.dtype.is_integer for v in values):  # as Python: of type float
        as_floats = [cast_folded(v.expr, dtypes.float64) for v in values]
        return Scalar(_folded(op, as_floats), all(v.weak for v in values))
    dtype, weak = together(*values)
    expr = _folded(op, [convert(v, dtype) for v in values])
    return Scalar(expr, weak and expr.dtype != dtypes.bool_)


def choose(condition: Expr, if_true: Scalar, if_false: Scalar) -> Scalar:
    """``if_true if condition else if_false``."""
    dtype, weak = together(if_true, if_false)
    return Scalar(select(condition, convert(if_true, dtype), convert(if_false, dtype)), weak)


_PYTHON: dict[str, Callable[..., float]] = {
    "neg": operator.neg, "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.truediv, "pow": operator.pow, "shl": operator.lshift, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def _folded(op: str, args: list[Expr]) -> Expr:
    """``op`` on ``args``; of numbers its value, as Python has it."""
    expr = apply(op, *args)
    values = [a.value for a in args if isinstance(a, Literal)]
    if len(values) < len(args) or expr.dtype not in (dtypes.float64, dtypes.int64):
        return expr
    try:
        value = _PYTHON[op](*values)
    except (ArithmeticError, KeyError, ValueError):  # left to run time, where all is defined
        return expr
    if isinstance(value, complex) or isinstance(value, int) != expr.dtype.is_integer:
        return expr
    return number(value).expr


def loads(*exprs: Expr) -> list[Load]:
    """Every load in ``exprs``, those in subscripts included."""
    return [node for expr in exprs for node in walk(expr) if isinstance(node, Load)]


def is_pure(*exprs: Expr) -> bool:
    """Whether ``exprs`` have the same values wherever their variables have."""
    return not loads(*exprs)
