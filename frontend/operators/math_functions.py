"""Mathematical functions, elementwise."""

from __future__ import annotations

from weft.frontend.operators.broadcast import elementwise
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, apply
from weft.frontend.tensor_expr import Tensor

FUNCTIONS = (
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf",
)  # fmt: skip


def _register(name: str) -> None:
    @operator(name)
    def definition(x: Tensor) -> Tensor:
        def body(value: Expr) -> Expr:
            return apply(name, value)

        return elementwise(name, body, x)


for _name in FUNCTIONS:
    _register(_name)
