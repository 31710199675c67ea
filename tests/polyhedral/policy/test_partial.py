"""Partial results: what only folds runs on threads."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

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
