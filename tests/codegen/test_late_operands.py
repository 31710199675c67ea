"""Minima and maxima of recurrences: the same whatever comes last, and late what is late."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.benchmarks.loop_programs.dynamic import edit_distance_two_rows as two_rows

SIZES = (0, 1, 2, 7, 8, 17, 31)


@weft.kernel
def decaying(x: weft.i64["N"], y: weft.i64["N"], z: weft.i64["N"]):
    for i in range(1, N):
        z[i] = max(max(z[i - 1] - 3, x[i]), max(y[i], 2 * z[i - 1]))


@weft.kernel
def floats(x: weft.f64["N"], y: weft.f64["N"], z: weft.f64["N"]):
    for i in range(1, N):
        z[i] = min(x[i], min(y[i], z[i - 1] + 1.0))


def text(kernel: weft.Kernel) -> str:
    return kernel.compile(options=weft.Options(threads=1, target="x86-64-v3")).as_text("loops")


def distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, row = row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(before[j - 1] + (letter != other), before[j] + 1, row[-1] + 1))
    return row[-1]


def test_edit_distance() -> None:
    run = two_rows.compile(options=weft.Options(threads=1))
    for n in SIZES:
        for m in SIZES:
            a, b = (np.random.default_rng(k).integers(0, 4, k).astype(np.int32) for k in (n, m))
            out = np.zeros(1, np.int32)
            run(a, b, out)
            assert out[0] == distance(a.tolist(), b.tolist()), (n, m)


@pytest.mark.parametrize(("kernel", "whole"), [(decaying, True), (floats, False)])
def test_recurrences(kernel: weft.Kernel, whole: bool) -> None:
    run = kernel.compile(options=weft.Options(threads=1))
    for n in SIZES:
        given = np.random.default_rng(n).integers(-9, 9, (3, n))
        x, y, z = given if whole else given.astype(np.float64)
        if not whole and n > 2:
            x[n // 2] = np.nan
        expected = z.copy()
        for i in range(1, n):
            before = expected[i - 1]
            values = (before - 3, x[i], y[i], 2 * before) if whole else (x[i], y[i], before + 1)
            expected[i] = np.max(values) if whole else np.min(values)
        run(x, y, z)
        np.testing.assert_array_equal(z, expected)


def test_what_was_comes_last() -> None:
    (line,) = (s for s in text(decaying).splitlines() if "new = " in s)
    start = line.index("max")
    assert line[start:] == (
        "max(max(max(x[i], y[i]), carried.0.1.was - 3), carried.0.1.was * 2)"
    ), line
    assert "min(x[i], min(y[i], carried.0.1.was + float64(1.0)))" in text(floats)
