"""Arithmetic operators, elementwise with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from weft.frontend.operators.broadcast import elementwise, number
from weft.frontend.operators.registry import operator
from weft.ir import dtypes
from weft.ir.build import isinf, isnan, maximum, minimum, reshape
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, apply, binary, select
from weft.ir.tensor_expr import Tensor


def divided(a: Expr, b: Expr) -> Expr:
    """``a / b``; integers truncate towards zero, as ONNX has it."""
    return apply("truncdiv" if a.dtype.is_integer else "div", a, b)


def _raised(a: Expr, b: Expr) -> Expr:
    """``a ** b`` in the dtype of ``a``, whatever that of ``b``.

    Computed in the float type where one side is a float, else in the wider integer type: wrapping
    commutes with powers, so the result is right modulo 2**bits.
    """
    common = _common(a.dtype, b.dtype)
    return binary("pow", a.astype(common), b.astype(common)).astype(a.dtype)


def _common(a: DType, b: DType) -> DType:
    if a.is_float and b.is_float:
        return a.compute if a.compute.bits >= b.compute.bits else b.compute
    if a.is_float:
        return a.compute
    if b.is_float:
        return dtypes.float64 if a.bits > 24 else b.compute
    return a if a.bits >= b.bits else b


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divided,
    "mod": lambda a, b: a % b,  # sign of the divisor
    "fmod": lambda a, b: binary("rem", a, b),  # sign of the dividend
    "pow": _raised,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: apply("sign", x),
    "reciprocal": lambda x: number(1, x) / x,
    "sqrt": lambda x: apply("sqrt", x),
    "floor": lambda x: apply("floor", x),
    "ceil": lambda x: apply("ceil", x),
    "round": lambda x: apply("round", x),  # ties to even
    "bitwise_not": lambda x: ~x,
}

_VARIADIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "min": minimum,
    "max": maximum,
    "sum": lambda a, b: a + b,
}


def _register_table(table: dict[str, Callable[..., Expr]]) -> None:
    for name, function in table.items():

        def definition(
            *tensors: Tensor, name: str = name, function: Callable[..., Expr] = function
        ) -> Tensor:
            return elementwise(name, function, *tensors)

        operator(name)(definition)


def _register_variadic(name: str, combine: Callable[[Expr, Expr], Expr]) -> None:
    @operator(name)
    def definition(*tensors: Tensor) -> Tensor:
        return elementwise(name, lambda *elements: reduce(combine, elements), *tensors)


_register_table(_BINARY)
_register_table(_UNARY)
for _name, _combine in _VARIADIC.items():
    _register_variadic(_name, _combine)


@operator("mean")
def mean(*tensors: Tensor) -> Tensor:
    """The sum of ``tensors`` over their number."""

    def body(*elements: Expr) -> Expr:
        return reduce(lambda a, b: a + b, elements) / number(len(elements), elements[0])

    return elementwise("mean", body, *tensors, wide=True)


@operator("clip")
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """min(max(x, low), high) with bounds that may be absent; NaN stays, and high wins over low."""
    bounds = [b for b in (low, high) if b is not None]

    def body(value: Expr, *limits: Expr) -> Expr:
        rest = list(limits)
        if low is not None:
            value = maximum(value, rest.pop(0))
        return minimum(value, rest.pop(0)) if high is not None else value

    return elementwise("clip", body, x, *bounds)


@operator("trailing_ones")
def trailing_ones(x: Tensor, *, count: int) -> Tensor:
    """``x`` with ``count`` dimensions of size 1 appended, to broadcast along an axis."""
    return reshape(x, (*x.shape, *[1] * count), name="trailing_ones")


# ---- Logic and comparison, elementwise with broadcasting.


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "equal": lambda a, b: a.equal(b),
    "greater": lambda a, b: a > b,
    "greater_or_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less_or_equal": lambda a, b: a <= b,
    "where": select,
    "is_nan": isnan,
}


def _register(name: str, function: Callable[..., Expr]) -> None:
    @operator(name)
    def definition(*tensors: Tensor) -> Tensor:
        return elementwise(name, function, *tensors)


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@operator("is_inf")
def is_inf(x: Tensor, *, negative: bool = True, positive: bool = True) -> Tensor:
    """Whether an element is an infinity of the signs that are asked for."""

    def body(value: Expr) -> Expr:
        infinite = isinf(value)
        if not positive:
            infinite = infinite & (value < 0)
        return infinite if negative else infinite & (value > 0)

    return elementwise("is_inf", body, x)
