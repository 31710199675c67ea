"""Softmax, its logarithm, and the one-hot of the greatest element."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.operators.line import Line
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import wide
from weft.ir.build import argmax, compute, exp, log, max_over, sum
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Tensor


@operator("softmax")
def softmax(x: Tensor, *, axes: Sequence[int] = (-1,)) -> Tensor:
    """exp(x - max) / Σ exp(x - max) over ``axes`` together.

    Small floats are rounded after each step, as in ONNX's definition, but summed in float32.
    """
    line = Line(x, axes)
    shifted = _exponentials(x, line)
    total = line.fold(
        "softmax_sum", lambda index: wide(shifted[index]), sum, lambda value: cast(value, x.dtype)
    )

    def body(*i: Axis) -> Expr:
        return shifted[i] / total[line.outer(i)]

    return compute(x.shape, body, name="softmax")


@operator("log_softmax")
def log_softmax(x: Tensor, *, axes: Sequence[int] = (-1,)) -> Tensor:
    """x - max - log Σ exp(x - max) over ``axes`` together."""
    line = Line(x, axes)
    greatest = line.fold("softmax_max", lambda index: wide(x[index]), max_over)
    total = line.fold(
        "softmax_sum", lambda index: exp(wide(x[index]) - greatest[line.outer(index)]), sum
    )

    def body(*i: Axis) -> Expr:
        at = line.outer(i)
        return cast(wide(x[i]) - greatest[at] - log(total[at]), x.dtype)

    return compute(x.shape, body, name="log_softmax")


@operator("hardmax")
def hardmax(x: Tensor, *, axes: Sequence[int] = (-1,)) -> Tensor:
    """1 at the first greatest element over ``axes`` together, 0 elsewhere."""
    line = Line(x, axes)
    found = compute(
        line.outer_shape,
        lambda *outer: argmax(x[line.index(outer)], line.position(line.taps), line.taps),
        name="hardmax_position",
    )

    def body(*i: Axis) -> Expr:
        here = line.position([i[a] for a in line.axes])
        return select(here.equal(found[line.outer(i)]), literal(1, x.dtype), 0)

    return compute(x.shape, body, name="hardmax")


def _exponentials(x: Tensor, line: Line) -> Tensor:
    greatest = line.fold("softmax_max", lambda index: x[index], max_over)
    return compute(x.shape, lambda *i: exp(x[i] - greatest[line.outer(i)]), name="softmax_exp")
