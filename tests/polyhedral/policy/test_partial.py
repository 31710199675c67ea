"""Partial results: what only folds runs on threads."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft
from tests.polyhedral.policy import time_programs as programs


@weft.kernel
def columns(A: weft.i64["N", "M"], x: weft.i64["N"], y: weft.i64["M"], z: weft.i64["N"]):
    for i in range(N):
        for j in range(M):
            y[j] += A[i, j] * x[i]
            z[i] += A[i, j] * 3


@weft.kernel
def restarts(A: weft.i64["N", "M"], y: weft.i64["M"]):
    for i in range(1, 2):
        for j in range(M - 2):
            for k in range(3):
                y[j + k] = j
                y[j + k] += A[i, j]


def test_sums_that_start_anew_stay_in_one_piece() -> None:
    """Partial results would keep what the program has overwritten."""
    text = programs.text(restarts, threads=2)
    assert "partial" not in text
    A, y = np.arange(14).reshape(2, 7), np.zeros(7, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restarts.compile(options=weft.Options(threads=2))(A, y)
    np.testing.assert_array_equal(y, [7, 9, 11, 13, 15, 15, 15])


def test_pieces_run_in_parallel() -> None:
    assert "parallel" not in programs.text(columns)
    assert "for i_t = i // 128    parallel" in programs.text(columns, threads=2)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 127, 128, 129, 521])
def test_results(n: int, threads: int) -> None:
    compiled = columns.compile(options=weft.Options(threads=threads))
    random = np.random.default_rng(n)
    for m in (0, 1, 17):
        A, x, y, z = (random.integers(-9, 9, shape) for shape in ((n, m), n, m, n))
        want = y + x @ A, z + 3 * A.sum(1)
        compiled(A, x, y, z)
        np.testing.assert_array_equal(y, want[0])
        np.testing.assert_array_equal(z, want[1])
