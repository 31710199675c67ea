"""Groups together: matrices with blocks along their diagonal, and what becomes of the loops."""

from __future__ import annotations

import numpy as np
import pytest

from weft.accel.block_diagonal import COLUMNS, ROWS, block_diagonal
from weft.accel.machines.vta import vta
from weft.accel.work import BlockDiagonal, Work, work
from weft.frontend.operators.conv import convolve, kernel_window
from weft.ir.build import placeholder
from weft.ir.dtypes import i8
from weft.ir.scop import Scop
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, prepared, ways
from weft.polyhedral.from_tensor_expr import lower


def scop(channels: int, filters: int, groups: int) -> Scop:
    x = placeholder((1, channels, 5, 5), i8, name="x")
    w = placeholder((filters, channels // groups, 3, 3), i8, name="w")
    sums = convolve(x, w, kernel_window(x, w, None, None, None), groups)
    return lower(Program("grouped", (x, w), (sums,)), "grouped")


def grouped(channels: int, filters: int, groups: int) -> Work:
    return work(prepared(scop(channels, filters, groups)))


@pytest.mark.parametrize("m", (1, 2, 3, 6))
def test_blocks_along_the_diagonal(m: int) -> None:
    groups, rows, columns, taps = 6, 2, 3, 4
    array = np.random.default_rng(m).integers(-9, 9, (taps, columns, groups * rows))
    # The array's axes, once the last is two: taps, columns, groups, rows.
    made = BlockDiagonal((2, 3, 1, 0), (groups, rows, columns, taps), m)
    found = made.of(array)
    assert found.shape == made.made == (groups // m, m * rows, m * columns, taps)
    for block, row, column, tap in np.ndindex(*found.shape):
        own, other = row // rows, column // columns
        want = 0
        if own == other:
            group = block * m + own
            want = array[tap, column % columns, group * rows + row % rows]
        assert found[block, row, column, tap] == want


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "left"),
    (
        (32, 32, 32, 2),  # depthwise: sixteen together
        (64, 64, 4, 4),  # groups that fill blocks by themselves
        (32, 64, 4, 2),  # two together
        (24, 24, 3, 1),  # no number of groups fills blocks: all of them
        (20, 20, 20, 1),
    ),
)
def test_as_many_as_fill_a_block(channels: int, filters: int, groups: int, left: int) -> None:
    (made,) = block_diagonal(grouped(channels, filters, groups), 16)
    m = groups // left
    assert made.extents[ROWS] == m * filters // groups
    assert made.extents[COLUMNS] == m * channels // groups
    others = [n for d, n in made.extents.items() if d not in (ROWS, COLUMNS)]
    assert sorted(others) == sorted([1, 3, 3, 3, 3, *([left] if left > 1 else [])])


def test_without_groups() -> None:
    assert not list(block_diagonal(grouped(32, 32, 1), 16))


@pytest.mark.parametrize(("channels", "groups"), [(32, 1), (32, 2), (32, 32), (20, 20), (48, 3)])
def test_zeros_between_groups_are_no_terms(channels: int, groups: int) -> None:
    (made,) = ways(scop(channels, channels, groups), Target.of(vta()))
    assert made.least_cycles == 3 * 3 * channels * (channels // groups) * 3 * 3 / 256
