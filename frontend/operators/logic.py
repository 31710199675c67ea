"""Logic and comparison, elementwise with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

from weft.frontend.build import isinf, isnan
from weft.frontend.operators.broadcast import elementwise
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, select
from weft.frontend.tensor_expr import Tensor

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
