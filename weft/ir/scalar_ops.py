"""The scalar operators: which operands each takes. ``scalar_expr`` says what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """One scalar operator: arity, kinds of dtype that it takes, and whether it gives a bool."""

    arity: int
    kinds: frozenset[str]
    gives_bool: bool = False


_ANY = frozenset({"bool", "int", "uint", "float"})
_NUM = frozenset({"int", "uint", "float"})
_INT = frozenset({"int", "uint"})
_BITS = frozenset({"bool", "int", "uint"})
_FLOAT = frozenset({"float"})

OPS: dict[str, Op] = (
    {name: Op(2, _NUM) for name in ("add", "sub", "mul", "floordiv", "mod", "rem", "pow")}
    | {name: Op(2, _ANY) for name in ("min", "max")}
    | {"div": Op(2, _FLOAT), "truncdiv": Op(2, _INT), "atan2": Op(2, _FLOAT)}
    | {"copysign": Op(2, _FLOAT)}
    | {name: Op(2, _BITS) for name in ("and", "or", "xor")}
    | {name: Op(2, _INT) for name in ("shl", "shr")}
    | {name: Op(2, _ANY, True) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    | {"neg": Op(1, _NUM), "abs": Op(1, _NUM), "sign": Op(1, _NUM), "not": Op(1, _BITS)}
    | {"popcount": Op(1, _INT)}
    | {
        name: Op(1, _FLOAT)
        for name in (
            "floor", "ceil", "round", "trunc", "sqrt", "exp", "exp2", "expm1", "log", "log2",
            "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
            "acosh", "atanh", "erf",
        )
    }
    | {name: Op(1, _FLOAT, True) for name in ("isnan", "isinf", "isfinite")}
)  # fmt: skip

INTEGER_OPERATORS: dict[str, Callable[..., int]] = {  # int64 arithmetic before it wraps
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
