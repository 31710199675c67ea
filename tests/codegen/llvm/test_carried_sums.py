"""Sums over several loops, whose lanes are combined once behind the outermost, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Let, Stmt, Update
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, k, v, n, m = map(Var, "ikvnm")
SIDE, ROWS = 140, 9
FOLDS = {"add": np.sum, "max": np.max, "min": np.min, "mul": np.prod}


def kernel(name: str, dtype: DType, upper: Expr = m, at: Expr = i) -> Kernel:
    """``y[at]`` folds ``x[k, v]`` over k and v, in each of three turns of i."""
    shape = (literal(ROWS), literal(SIDE))
    x = Buffer("x", dtype, shape, (literal(SIDE), literal(1)))
    y = Buffer("y", dtype, (literal(ROWS),), (literal(1),))
    fold = Update((("y", (at,)),), monoid(name, dtype), (Load("x", (k, v), dtype),))
    lanes: Stmt = For("v", literal(0), upper, "vector", fold)
    rows = For("k", literal(0), n, "serial", Let("w", k + 1, Block((lanes,))))
    return Kernel("k", ("n", "m"), (x, y), For("i", literal(0), literal(3), "serial", rows))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8])
@pytest.mark.parametrize("name", sorted(FOLDS))
def test_of_every_length(name: str, dtype: DType) -> None:
    run = Compiled(kernel(name, dtype))
    rng = np.random.default_rng(0)
    for rows in (0, 1, 2, 7):
        for width in (0, 1, 3, 15, 16, 17, 64, 67, SIDE):
            x = rng.integers(0, 3, (ROWS, SIDE)).astype(dtype.numpy)
            y = rng.integers(1, 3, ROWS).astype(dtype.numpy)
            given = {"x": x.ravel(), "y": y}
            found = run({"n": rows, "m": width}, given)[0]["y"]
            for place in range(3):
                read = np.append(x[:rows, :width], y[place])
                want = FOLDS[name](read.astype(object))
                if dtype.is_integer:
                    want = int(want) & ((1 << dtype.bits) - 1)
                    got = int(found[place]) & ((1 << dtype.bits) - 1)
                    assert got == want
                else:
                    np.testing.assert_allclose(float(found[place]), float(want), rtol=1e-6)


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_in_any_row(name: str) -> None:
    run = Compiled(kernel(name, dtypes.float64))
    for row in range(5):
        x = np.random.default_rng(row).normal(size=(ROWS, SIDE))
        x[row, 3 * row] = np.nan
        found = run({"n": 4, "m": 33}, {"x": x.ravel(), "y": np.zeros(ROWS)})[0]["y"]
        want = FOLDS[name](np.append(x[:4, :33], 0.0))
        np.testing.assert_array_equal(found[:3], want)


@pytest.mark.parametrize("width", [1, 2, 5, 8, 100])
def test_of_rows_of_a_known_width(width: int) -> None:
    run = Compiled(kernel("add", dtypes.float64, literal(width)))
    x = np.random.default_rng(0).integers(-9, 9, (ROWS, SIDE)).astype(float)
    found = run({"n": 6, "m": 0}, {"x": x.ravel(), "y": np.zeros(ROWS)})[0]["y"]
    np.testing.assert_array_equal(found[:3], x[:6, :width].sum())


def test_rows_of_different_lengths() -> None:
    """Some of which are empty; a triangle."""
    run = Compiled(kernel("add", dtypes.float32, m - 20 * k))
    x = np.random.default_rng(0).integers(-9, 9, (ROWS, SIDE)).astype(np.float32)
    found = run({"n": 5, "m": 50}, {"x": x.ravel(), "y": np.zeros(ROWS, np.float32)})[0]["y"]
    np.testing.assert_array_equal(
        found[:3], sum(x[r, : max(50 - 20 * r, 0)].sum() for r in range(5))
    )


def test_nothing_is_touched_where_no_iteration_runs() -> None:
    """The target may lie outside then."""
    run = Compiled(kernel("add", dtypes.float64, at=i + 100_000))
    run({"n": 5, "m": 0}, {"x": np.zeros(ROWS * SIDE), "y": np.zeros(ROWS)})
    run({"n": 0, "m": 5}, {"x": np.zeros(ROWS * SIDE), "y": np.zeros(ROWS)})


@pytest.mark.parametrize(
    ("at", "place"),
    [
        (i, lambda turn, row: turn),
        (k, lambda turn, row: row),
        (k + i, lambda turn, row: row + turn),
        (literal(2), lambda turn, row: 2),
    ],
)
def test_wherever_the_target_is(at: Expr, place: Callable[[int, int], int]) -> None:
    run = Compiled(kernel("add", dtypes.float64, at=at))
    x = np.random.default_rng(0).integers(-9, 9, (ROWS, SIDE)).astype(float)
    y = np.zeros(ROWS)
    for turn in range(3):
        for row in range(5):
            y[place(turn, row)] += x[row, :33].sum()
    found = run({"n": 5, "m": 33}, {"x": x.ravel(), "y": np.zeros(ROWS)})[0]["y"]
    np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize(("at", "loops"), [(literal(2), 0), (i, 1), (k, 2), (k + i, 2)])
def test_lanes_are_combined_behind_all_loops_that_leave_the_target(at: Expr, loops: int) -> None:
    """As many loops end behind them as change the target, and the one over shares of threads."""
    text = Compiled(kernel("add", dtypes.float64, at=at)).emitted.text
    behind = text.partition("\nreduced")[2].partition("\n}")[0]
    assert behind.count("icmp slt") == loops + 1
