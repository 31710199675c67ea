"""Mathematical functions as arithmetic: range reduction and polynomial, no library, and no tables
but those in registers, where a processor picks from them (``register_tables``).

Written once for scalars and vectors (``math_values``). Types below float32 are computed in float32.
``BOUNDS`` states the largest error of each function in ulps of its result, over all inputs, as
tested against higher precision; subnormal results count ulps of the least subnormal. Special
values are those of C's Annex F. A few functions of float32 are those of float64, rounded.

References: Cody and Waite, Software Manual for the Elementary Functions (1980); Tang, ACM TOMS 15
and 16 (1989-90); Payne and Hanek, SIGNUM 18 (1983); Muller, Elementary Functions (2016).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen import math_exponential as e
from weft.codegen import math_logarithm as lg
from weft.codegen import math_trigonometry as t
from weft.codegen.math_power import pow
from weft.codegen.math_remainder import mod, rem
from weft.codegen.math_values import Number

# name -> (float32, float64), ulps
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1), "exp2": (1.0, 1.0), "expm1": (1.7, 1.7), "log": (1.2, 1.2),
    "log2": (1.0, 1.0), "log1p": (1.5, 1.5), "sin": (1.0, 1.0), "cos": (1.0, 1.0),
    "tan": (0.51, 2.5), "asin": (0.51, 1.0), "acos": (0.51, 1.0), "atan": (0.51, 1.5),
    "atan2": (0.51, 1.5), "sinh": (0.51, 2.5), "cosh": (0.51, 2.5), "tanh": (2.0, 3.0),
    "asinh": (0.51, 2.5), "acosh": (0.51, 2.5), "atanh": (0.51, 2.0), "erf": (6.0, 2.0),
    "pow": (0.51, 1.0), "rem": (0.0, 0.0), "mod": (0.5, 0.5),
}  # fmt: skip


def _by_double(function: Callable[..., Number]) -> Callable[..., Number]:
    """``function`` computed in float64 and rounded to the type of its operands."""

    def rounded(*args: Number) -> Number:
        return function(*(x.convert("double") for x in args)).convert(args[0].type)

    return rounded


_IN_PLACE: dict[str, Callable[..., Number]] = {
    "exp": e.exp, "exp2": e.exp2, "expm1": e.expm1, "log": lg.log, "log2": lg.log2,
    "log1p": lg.log1p, "sin": t.sin, "cos": t.cos, "tanh": e.tanh, "erf": e.erf, "rem": rem,
    "mod": mod,
}  # fmt: skip
_IN_DOUBLE: dict[str, Callable[..., Number]] = {
    "tan": t.tan, "asin": t.asin, "acos": t.acos, "atan": t.atan, "atan2": t.atan2,
    "sinh": e.sinh, "cosh": e.cosh, "asinh": lg.asinh, "acosh": lg.acosh, "atanh": lg.atanh,
    "pow": pow,
}  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Number]] = _IN_PLACE | {
    name: _by_double(function) for name, function in _IN_DOUBLE.items()
}
