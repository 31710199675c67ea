from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.correlations import LAYOUTS, convolution, data
from weft.frontend.operators.registry import instantiate
from weft.graph.correlation import correlation_of
from weft.graph.derive import Steps, derive
from weft.graph.minimal_filtering import error_bound, minimal_filter
from weft.ir.build import compute, placeholder, reduce_axis, sum
from weft.ir.scalar_expr import Apply, Literal, walk
from weft.ir.tensor_expr import Compute, Program, operations
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify

EPSILON = {"float32": 2.0**-24, "float64": 2.0**-53}


def derived(program: Program, *steps: tuple[str, int]) -> tuple[Program, Steps]:
    """``program``, one operation, by F(m, r) along each (tap, m); and the steps themselves."""
    (output,) = program.outputs
    assert isinstance(output.operation, Compute)
    c = correlation_of(output.operation)
    assert c is not None
    slide = {s.tap.name: s for s in c.slides}
    chosen = tuple((slide[tap], minimal_filter(m, slide[tap].taps)) for tap, m in steps)
    made = replace(program, outputs=(replace(output, operation=derive(c, chosen)),))
    verify(made)
    return made, chosen


def precise(program: Program, arrays: list[np.ndarray]) -> np.ndarray:
    """Its result in float64."""
    return interpret(program, [a.astype(np.float64) for a in arrays], precise=True)[0]


def check(program: Program, *steps: tuple[str, int], terms: int) -> None:
    """The derived program is as near to float64's direct sum as it must be."""
    made, chosen = derived(program, *steps)
    arrays = data(program)
    result, expected = interpret(made, arrays)[0], precise(program, arrays)
    bound = error_bound([f for _, f in chosen], terms)
    name = program.outputs[0].dtype.name
    assert result.dtype.name == name
    np.testing.assert_allclose(result, expected, rtol=0, atol=bound * EPSILON[name])


sizes = st.sampled_from([1, 2, 3, 5, 7, 8, 9, 13])


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), sizes, sizes),
    st.tuples(st.integers(2, 4), st.integers(2, 5)),
    st.tuples(st.integers(2, 4), st.integers(2, 4)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from(LAYOUTS),
    st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_shape_layout_and_padding(shape, taps, m, pads, layout, along, flipped) -> None:
    batch, channels, filters, height, width = shape
    height, width = max(height, taps[0] - 2 * pads[0]), max(width, taps[1] - 2 * pads[1])
    program = convolution(
        batch, channels, filters, height, width, taps,
        layout="".join(layout), pads=pads, flipped=flipped,
    )  # fmt: skip
    outputs = m[0], m[1]
    others = channels * int(np.prod([t for t, n in zip(taps, "ab", strict=True) if n not in along]))
    check(program, *((n, outputs["ab".index(n)]) for n in along), terms=others)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 6, 7, 11, 12, 13])
def test_tiles_that_end_before_at_and_beyond_the_edge(m: int, outputs: int) -> None:
    check(convolution(1, 2, 2, outputs + 2, 4), ("a", m), terms=6)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_axes_in_both_precisions(m: int, dtype: str) -> None:
    program = convolution(1, 8, 4, 14, 13, dtype=dtype, pads=(1, 1))
    check(program, ("a", m), ("b", m), terms=8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_channel_and_one_dimension(dtype: str) -> None:
    x, w = placeholder((9,), dtype, name="x"), placeholder((3,), dtype, name="w")
    k = reduce_axis((0, 3), name="k")
    y = compute((7,), lambda i: sum(x[i + k] * w[k], k), name="y")
    check(Program("filter", (x, w), (y,)), ("k", 4), terms=1)


def test_sums_that_do_not_count_from_0_and_run_backwards() -> None:
    x, w = placeholder((5, 20), name="x"), placeholder((3, 6, 8), name="w")
    c, k = reduce_axis((2, 5), name="c"), reduce_axis((3, 6), name="k")
    forwards = compute((3, 11), lambda o, i: sum(x[c, i + k - 2] * w[o, c, k], (c, k)), name="y")
    backwards = compute((3, 11), lambda o, i: sum(x[c, i - k + 6] * w[o, c, k], (c, k)), name="y")
    reversed_ = compute((3, 11), lambda o, i: sum(x[c, 14 + k - i] * w[o, c, k], (c, k)), name="y")
    for y in (forwards, backwards, reversed_):
        check(Program("own", (x, w), (y,)), ("k", 4), terms=3)


def test_groups_conditions_and_what_follows_the_sum() -> None:
    x, w = placeholder((2, 6, 9), name="x"), placeholder((4, 3, 3), name="w")
    c, k = reduce_axis((0, 3), name="c"), reduce_axis((0, 3), name="k")

    def body(n, o, i):
        inside = (i + k >= 1) & (i + k <= 9)
        product_ = x[n, o // 2 * 3 + c, i + k - 1] * w[o, c, k]
        return sum(product_, (c, k), where=inside) * 0.5 + x[n, o, i]

    y = compute((2, 4, 9), body, name="y")
    check(Program("own", (x, w), (y,)), ("k", 4), terms=3)


def test_other_loops_may_have_any_names() -> None:
    x, w = placeholder((4, 9), name="x"), placeholder((4, 3), name="w")
    point, k = reduce_axis((0, 4), name="point"), reduce_axis((0, 3), name="i_tile")
    y = compute((7,), lambda i: sum(x[point, i + k] * w[point, k], (point, k)), name="y")
    check(Program("own", (x, w), (y,)), ("i_tile", 4), terms=4)


def test_grouped_convolutions_of_weft() -> None:
    image, kernel = placeholder((1, 4, 9, 7), name="x"), placeholder((6, 2, 3, 3), name="w")
    program = instantiate("conv", [image, kernel], group=2)
    split = next(op for op in operations(program) if correlation_of(op))
    shape = tuple(axis.extent for axis in split.axes)  # type: ignore[union-attr]
    y = replace(program.outputs[0], shape=shape, operation=split)
    check(replace(program, outputs=(y,)), ("r", 2), ("s", 4), terms=2)


def test_no_factor_is_0_or_1() -> None:
    made, _ = derived(convolution(1, 2, 2, 9, 9), ("a", 4), ("b", 2))
    for operation in operations(made):
        assert isinstance(operation, Compute)
        for node in walk(operation.values[0]):
            if isinstance(node, Apply) and node.op == "mul" and node.dtype.is_float:
                numbers = [a.value for a in node.args if isinstance(a, Literal)]
                assert not {0, 1, -1} & set(numbers)
