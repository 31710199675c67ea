from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.correlations import LAYOUTS, convolution, data
from weft.graph.correlation import Correlation, correlation_of
from weft.graph.derive import transpose_back, transpose_operand
from weft.ir.build import compute, placeholder, reduce_axis, sum
from weft.ir.tensor_expr import Compute, Program
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify


def correlation(program: Program) -> Correlation:
    assert program.outputs[0].operation is not None
    found = correlation_of(program.outputs[0].operation)
    assert found is not None
    return found


def turned(program: Program) -> tuple[Program, Correlation]:
    """``program`` with its sum over channels that are contiguous; and that sum."""
    c = correlation(program)
    sums = transpose_operand(c)
    made = replace(
        program, outputs=(replace(program.outputs[0], operation=transpose_back(c, sums)),)
    )
    verify(made)
    assert sums.operation is not None
    again = correlation_of(sums.operation)
    assert again is not None
    return made, again


@given(
    st.sampled_from(LAYOUTS),
    st.tuples(*[st.integers(1, 3)] * 3, st.integers(3, 8), st.integers(3, 8)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_the_same_sums_along_the_same_loops(layout, sizes, pads, flipped) -> None:
    program = convolution(*sizes, layout="".join(layout), pads=pads, flipped=flipped)
    made, again = turned(program)
    before = correlation(program)
    assert {(s.axis, s.tap) for s in again.slides} == {(s.axis, s.tap) for s in before.slides}
    assert not any(s.inner for s in again.slides)
    arrays = data(program)
    np.testing.assert_array_equal(interpret(made, arrays)[0], interpret(program, arrays)[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_from_other_bounds_with_conditions_and_more_around_them(sign: int) -> None:
    x, w = placeholder((5, 20), name="x"), placeholder((3, 6, 8), name="w")
    c, k = reduce_axis((2, 5), name="c"), reduce_axis((3, 6), name="k")

    def body(o, i):
        at = i + sign * k + (0 if sign > 0 else 6)
        return 1.0 - sum(x[c, at] * w[o, c, k], (c, k), where=at < 12) * x[0, i]

    program = Program("own", (x, w), (compute((3, 11), body, name="y"),))
    made, again = turned(program)
    assert isinstance(again.operation, Compute) and again.operation.axes[-1].name == "o"
    arrays = data(program)
    np.testing.assert_array_equal(interpret(made, arrays)[0], interpret(program, arrays)[0])
