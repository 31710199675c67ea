"""Parts of tensors and the transfers that bring them, against an element-by-element copy."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from weft.accel.artifact import Layout
from weft.accel.boxes import Box, Move, Ranges, Side, box, moves, origin, steps
from weft.accel.mapping import Axis, View
from weft.ir.dtypes import i8

Array = np.ndarray


def view(*axes: Axis) -> View:
    return View("x", "inp", None, i8, Layout(()), axes)


def random_view(pick: Random) -> tuple[View, Ranges]:
    """Each axis over some loops, further out than the tensor reaches at times; and a tile of it."""
    dims = [f"d{n}" for n in range(pick.randint(1, 5))]
    extents = {dim: pick.choice((1, 1, 2, 3, 5)) for dim in dims}
    free, axes = list(dims), []
    for _ in range(pick.randint(1, 4)):
        used = [free.pop() for _ in range(min(len(free), pick.choice((0, 1, 1, 2))))]
        coefficients = {dim: pick.choice((1, 1, 2, 3, -1)) for dim in used}
        low = sum(min(0, c) * (extents[d] - 1) for d, c in coefficients.items())
        reach = sum(abs(c) * (extents[d] - 1) for d, c in coefficients.items()) + 1
        constant = -low - pick.choice((0, 0, 1, 2))
        axes.append(Axis(coefficients, constant, max(1, reach + pick.choice((0, 0, 1, -1, -3)))))
    ranges = {}
    for dim, extent in extents.items():
        first = pick.choice((0, pick.randrange(extent)))
        ranges[dim] = first, pick.choice((extent - first, pick.randint(1, extent - first)))
    return view(*axes), ranges


def gathered(found: Box, tensor: Array) -> Array:
    """The box, densely; 0 outside of the tensor."""
    local = np.zeros([side.count for side in found.sides], tensor.dtype)
    for index in np.ndindex(*local.shape):
        at = tuple(s.first + i * s.step for i, s in zip(index, found.sides, strict=True))
        if all(0 <= p < n for p, n in zip(at, tensor.shape, strict=True)):
            local[index] = tensor[at]
    return local.reshape(-1)


def moved(found: Box, tensor: Array) -> Array:
    """What the moves leave, one after the other; -1 where none of them came."""
    local, main = np.full(found.size, -1), tensor.reshape(-1)
    for each in moves(found):
        at = each.local
        width = each.columns_before + each.columns + each.columns_after

        def put(values: Array, at: int = at) -> None:
            assert (local[at : at + len(values)] == -1).all(), "an element is moved once"
            local[at : at + len(values)] = values

        put(np.zeros(each.rows_before * width))
        at += each.rows_before * width
        for row in range(each.rows):
            first = each.main + row * each.step
            assert first >= 0 and first + each.columns <= len(main)
            put(np.zeros(each.columns_before), at)
            put(main[first : first + each.columns], at + each.columns_before)
            put(np.zeros(each.columns_after), at + width - each.columns_after)
            at += width
        put(np.zeros(each.rows_after * width), at)
        assert each.size == (each.rows_before + each.rows + each.rows_after) * width
    return local


@pytest.mark.parametrize("spread", (False, True))
def test_moves_of_random_parts(spread: bool) -> None:
    padded = apart = several = 0
    for seed in range(600):
        own, ranges = random_view(Random(seed))
        found = box(own, ranges, spread)
        if found.size > 4000:
            continue
        shape = [axis.size for axis in own.axes]
        tensor = np.arange(1, prod(shape) + 1).reshape(shape)
        np.testing.assert_array_equal(moved(found, tensor), gathered(found, tensor), f"seed {seed}")
        padded += any(side.before or side.after for side in found.sides)
        apart += any(side.step > 1 for side in found.sides)
        several += len(list(moves(found))) > 1
    assert min(padded, apart, several) > 50


@pytest.mark.parametrize("spread", (False, True))
def test_addresses(spread: bool) -> None:
    """Wherever loops are, ``origin`` and ``steps`` lead to the element that the view has there."""
    for seed in range(300):
        own, ranges = random_view(Random(seed))
        found = box(own, ranges, spread)
        if found.size > 2000:
            continue
        shape = [axis.size for axis in own.axes]
        local = gathered(found, np.arange(1, prod(shape) + 1).reshape(shape))
        for index in product(*(range(count) for _, count in ranges.values())):
            point = {d: ranges[d][0] + i for d, i in zip(ranges, index, strict=True)}
            place = origin(own, found, ranges) + sum(
                i * steps(own, found, d) for d, i in zip(ranges, index, strict=True)
            )
            at = [a.constant + sum(c * point[d] for d, c in a.coefficients.items())
                  for a in own.axes]  # fmt: skip
            inside = all(0 <= p < n for p, n in zip(at, shape, strict=True))
            want = np.ravel_multi_index(at, shape) + 1 if inside else 0
            assert 0 <= place < found.size and local[place] == want, f"seed {seed}, {point}"


def test_rows_that_are_whole_and_far_apart() -> None:
    """Every other row of 7, all of each."""
    found = box(
        view(Axis({"i": 2, "r": 2}, 0, 8), Axis({"j": 3}, 0, 7)),
        {"i": (0, 3), "r": (0, 2), "j": (0, 3)},
        False,
    )
    assert list(moves(found)) == [Move(0, 0, 4, 7, 14)]


def test_whole_tensors_are_one_row() -> None:
    found = Box((Side(0, 3, 1, 3), Side(0, 4, 1, 4), Side(0, 5, 1, 5)))
    assert list(moves(found)) == [Move(0, 0, 1, 60, 0)]
    assert found.strides == (20, 5, 1)


def test_outside_on_all_sides() -> None:
    found = Box((Side(-1, 4, 1, 2), Side(-2, 5, 1, 2)))
    assert list(moves(found)) == [Move(0, 0, 2, 2, 2, 1, 1, 2, 1)]
