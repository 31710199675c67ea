"""Layouts put every element where a formula says, and images hold what is written into them."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from weft.accel.artifact import Artifact, Layout, Placed
from weft.accel.machines.vta import vta
from weft.ir.dtypes import i8, i32
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Stream


def place(layout: Layout, index: tuple[int, ...]) -> int:
    """Where the scalar at ``index`` lies, by the definition."""
    of = dict(layout.inner)
    order = layout.order or range(len(layout.shape))
    sizes, where = [], []
    for axis in order:
        block = of.get(axis, 1)
        sizes.append(-(-layout.shape[axis] // block))
        where.append(index[axis] // block)
    for axis, block in layout.inner:
        sizes.append(block)
        where.append(index[axis] % block)
    at = 0
    for size, number in zip(sizes, where, strict=True):
        at = at * size + number
    return at


def random_layout(pick: random.Random) -> Layout:
    shape = tuple(pick.choice([0, 1, 2, 3, 5, 7]) for _ in range(pick.randint(0, 4)))
    axes = list(range(len(shape)))
    cut = pick.sample(axes, pick.randint(0, len(axes)))
    order = tuple(pick.sample(axes, len(axes))) if pick.random() < 0.5 else None
    return Layout(shape, tuple((a, pick.choice([1, 2, 3, 4, 16])) for a in cut), order)


def test_every_element_lies_where_it_should() -> None:
    pick = random.Random(0)
    for _ in range(300):
        layout = random_layout(pick)
        array = 1 + np.arange(prod(layout.shape), dtype=np.int64).reshape(layout.shape)
        expected = np.zeros(layout.size, np.int64)
        for index in product(*map(range, layout.shape)):
            expected[place(layout, index)] = array[index]
        packed = layout.pack(array)
        assert packed.shape == layout.padded and packed.flags.c_contiguous
        np.testing.assert_array_equal(packed.reshape(-1), expected)
        np.testing.assert_array_equal(layout.unpack(packed), array)
        np.testing.assert_array_equal(layout.unpack(packed.reshape(-1)), array)


def test_activations_and_weights_of_vta() -> None:
    assert Layout((3, 17, 5, 6), ((0, 2), (1, 16))).padded == (2, 2, 5, 6, 2, 16)
    assert Layout((64, 3, 7, 7), ((0, 16), (1, 16))).padded == (4, 1, 7, 7, 16, 16)


@pytest.mark.parametrize("arguments", [
    ((-1,),), ((4,), ((1, 2),)), ((4,), ((0, 2), (0, 2))), ((4,), ((0, 0),)),
    ((4, 4), (), (0, 0)), ((4, 4), (), (0,)), ((1,) * 33,),
])  # fmt: skip
def test_what_is_no_layout(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(StreamError, match="WEFT-E1020: no layout"):
        Layout(*arguments)


def test_arrays_that_do_not_fit() -> None:
    layout = Layout((5,), ((0, 4),))
    for wrong in (layout.pack, layout.unpack):
        with pytest.raises(StreamError, match=r"WEFT-E1020: an array of \(4,\)"):
            wrong(np.zeros(4, np.int8))


EMPTY = Stream(vta(), ())
X = Placed("x", "input", i8, Layout((3, 5), ((1, 4),)), 8)
Y = Placed("y", "output", i32, Layout((2, 2)), 32)


def test_inputs_and_outputs_of_an_image() -> None:
    image = np.arange(48, dtype=np.uint8)
    artifact = Artifact(EMPTY, image, (X, Y))
    array = np.arange(15, dtype=np.int8).reshape(3, 5) - 7
    filled = artifact.filled({"x": array})
    np.testing.assert_array_equal(image, np.arange(48))  # as it was
    np.testing.assert_array_equal(X.read(filled), array)
    np.testing.assert_array_equal(filled[:8], image[:8])
    np.testing.assert_array_equal(filled[32:], image[32:])
    (found,) = artifact.outputs(filled).values()
    np.testing.assert_array_equal(found, image[32:].view(np.int32).reshape(2, 2))


@pytest.mark.parametrize(("inputs", "message"), [
    ({}, "WEFT-E1022: missing: x"), ({"x": np.zeros((3, 5), np.int8), "y": 0}, "no input 'y'"),
    ({"x": np.zeros((3, 5), np.int16)}, "WEFT-E1020: x is int8, not int16"),
    ({"x": np.zeros((5, 3), np.int8)}, r"WEFT-E1020: an array of \(5, 3\)"),
])  # fmt: skip
def test_inputs_that_do_not_fit(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        Artifact(EMPTY, np.zeros(48, np.uint8), (X, Y)).filled(inputs)


@pytest.mark.parametrize(("image", "tensors", "message"), [
    (np.zeros(47, np.uint8), (X, Y), "y does not lie in the image\n.*16 bytes from 32"),
    (np.zeros(48, np.uint8), (X, X), "two tensors of one name"),
    (np.zeros(48, np.int8), (X,), "an image is"),
])  # fmt: skip
def test_what_is_no_artifact(image: Any, tensors: tuple[Placed, ...], message: str) -> None:
    with pytest.raises(StreamError, match=f"WEFT-E1021: {message}"):
        Artifact(EMPTY, image, tensors)
