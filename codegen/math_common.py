"""What the mathematical functions share: their tables of coefficients, and special values."""

from __future__ import annotations

from weft.codegen import math_coefficients
from weft.codegen.math_values import Number

INFINITY, NAN = float("inf"), float("nan")


def table(x: Number, name: str) -> tuple[float, ...]:
    """The coefficients ``name`` in the precision of ``x``."""
    tables = math_coefficients.FLOAT if x.type == "float" else math_coefficients.DOUBLE
    return tables[name]


def clamped(x: Number, low: float, high: float) -> Number:
    """``x`` within the bounds; NaN stays."""
    x = (x < low).where(low, x)
    return (x > high).where(high, x)
