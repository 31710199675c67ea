from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.graph.layout import Layout, relaid
from weft.ir.build import compute, placeholder, reduce_axis, reshape, sum
from weft.ir.errors import InternalError
from weft.ir.scalar_expr import Var, select
from weft.ir.tensor_expr import Program
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify


def stored(array: np.ndarray, layout: Layout) -> np.ndarray:
    """``array`` as it lies by ``layout``, element by element."""
    shape = [int(n) for n in layout.shape(array.shape)]
    result = np.zeros(shape, array.dtype)
    for at in np.ndindex(array.shape):
        place = list(at)
        within = place[layout.split] % layout.block if layout.block else 0
        if layout.block:
            place[layout.split] //= layout.block
        index = [place[d] for d in layout.order] + ([within] if layout.block else [])
        result[tuple(index)] = array[at]
    return result


@st.composite
def layouts_of(draw: st.DrawFn, shape: tuple[int, ...]) -> Layout | None:
    order = tuple(draw(st.permutations(range(len(shape)))))
    split = draw(st.integers(0, len(shape) - 1))
    blocks = [b for b in range(1, shape[split] + 1) if shape[split] % b == 0]
    block = draw(st.sampled_from([0, *blocks]))
    return draw(st.sampled_from([None, Layout(order, split, block)]))


def program(n: int, c: int, h: int, w: int) -> Program:
    """A window over padded rows, its sums used twice, and a view."""
    x, f = placeholder((n, c, h, w), name="x"), placeholder((c, 3), name="f")
    r = reduce_axis((0, 3), name="r")
    inside = compute(
        (n, c, h + 2, w),
        lambda a, b, i, j: select((i >= 1) & (i < h + 1), x[a, b, (i - 1) % h, j], 0.0),
        name="inside",
    )
    sums = compute(
        (n, c, h, w), lambda a, b, i, j: sum(inside[a, b, i + r, j] * f[b, r], r), name="sums"
    )
    y = compute((n, w, c, h), lambda a, j, b, i: sums[a, b, i, j] - sums[a, b, 0, j], name="y")
    return Program("own", (x, f), (y, reshape(y, (n * w, c * h), name="flat")))


@given(st.data(), st.tuples(*[st.integers(1, 6)] * 4))
@settings(max_examples=60, deadline=None)
def test_the_same_elements_elsewhere(data: st.DataObject, sizes: tuple[int, ...]) -> None:
    given_program = program(*sizes)
    x, _ = given_program.inputs
    y, _ = given_program.outputs
    (sums,) = y.operation.reads
    (inside,) = [t for t in sums.operation.reads if t.operation is not None]
    shapes = {x: x.shape, sums.operation: sums.shape, inside.operation: inside.shape}
    chosen = {key: data.draw(layouts_of(shape)) for key, shape in shapes.items()}
    layouts = {key: layout for key, layout in chosen.items() if layout is not None}
    new = relaid(given_program, layouts)
    verify(new)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in given_program.inputs]
    moved = [stored(arrays[0], layouts[x]) if x in layouts else arrays[0], arrays[1]]
    for result, expected in zip(
        interpret(new, moved), interpret(given_program, arrays), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_an_output_lies_as_it_should() -> None:
    x = placeholder((2, 6, 5), name="x")
    y = compute((2, 6, 5), lambda a, b, c: x[a, b, c] * 2.0, name="y")
    layout = Layout((2, 1, 0), 1, 3)
    new = relaid(Program("own", (x,), (y,)), {y.operation: layout})
    array = np.arange(60, dtype=np.float32).reshape(2, 6, 5)
    (result,) = interpret(new, [array])
    assert result.shape == (5, 2, 2, 3)
    np.testing.assert_array_equal(result, stored(array * 2, layout))


def test_blocks_divide() -> None:
    with pytest.raises(InternalError, match="WEFT-E0322"):
        Layout((0, 1), 1, 4).shape((3, 6))
    with pytest.raises(InternalError, match="WEFT-E0322"):
        Layout((0, 1), 1, 4).shape((3, Var("n")))


def test_as_people_read_it() -> None:
    assert str(Layout((0, 2, 3, 1))) == "[0, 1, 2, 3] -> [0, 2, 3, 1]"
    assert str(Layout((0, 1, 2), 1, 16)) == "[0, 1, 2] -> [0, 1 div 16, 2, 1 mod 16]"
