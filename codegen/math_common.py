"""What the mathematical functions share: their tables of coefficients, and special values."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen import math_coefficients
from weft.codegen.math_values import Number

INFINITY, NAN = float("inf"), float("nan")


def table(x: Number, name: str) -> tuple[float, ...]:
    """The coefficients ``name`` in the precision of ``x``."""
    tables = math_coefficients.FLOAT if x.type == "float" else math_coefficients.DOUBLE
    return tables[name]


def clamped(x: Number, low: float, high: float) -> Number:
    """``x`` within the bounds; NaN stays."""
    return at_most((x < low).where(low, x), high)


def at_most(x: Number, high: float) -> Number:
    """``x`` where it is not above ``high``; NaN stays."""
    return (x > high).where(high, x)


def nothing_below(low: float, x: Number, power: Callable[[Number], Number]) -> Number:
    """``power(x)``, and 0 where ``x < low``, which it is not asked for: it would come to 0 by way
    of denormals, which take some processors a hundred cycles each."""
    below = x < low
    return below.where(0.0, power(below.where(0.0, x)))
