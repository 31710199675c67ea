"""Private results: scratch that the caller gave is a temporary until the last iteration."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.polyhedral.prepare import private_results
from weft.polyhedral.transform.initial import initial


@weft.kernel
def rows(A: weft.i64["N", "M"], B: weft.i64["N", "M"], x: weft.i64["M"]):
    for i in range(N):
        for j in range(M):
            x[j] = A[i, j] * 3
        for j in range(M):
            B[i, j] = x[j] + i


@weft.kernel
def read_before(A: weft.i64["N", "M"], x: weft.i64["M"]):
    for i in range(N):
        for j in range(M):
            A[i, j] = x[j]
        for j in range(M):
            x[j] = A[i, j] + i


@weft.kernel
def triangle(A: weft.i64["N", "N"], x: weft.i64["N"]):
    for i in range(N):
        for j in range(i):
            x[j] = A[i, j]
        for j in range(i):
            A[i, j] = x[j] * 2


def test_the_last_iteration_copies_out() -> None:
    scop = private_results(initial(rows.scop)).scop
    assert [t.role for t in scop.tensors if t.name == "x_own"] == ["temp"]
    (copy,) = [s for s in scop.statements if s.writes[0].tensor == "x"]
    assert [c.equality for c in copy.domain].count(True) == 1


@pytest.mark.parametrize("kernel", [read_before, triangle])
def test_values_from_before_and_parts_of_the_array_stay(kernel: weft.Kernel) -> None:
    assert private_results(initial(kernel.scop)).scop == kernel.scop


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kernel", [rows, read_before, triangle])
def test_results(kernel: weft.Kernel, threads: int) -> None:
    compiled = kernel.compile(options=weft.Options(cache=False, threads=threads, texts=False))
    random = np.random.default_rng(5)
    for n in (0, 1, 2, 7, 33):
        m = n if kernel is triangle else 5
        shapes = [(n, m)] * (2 if kernel is rows else 1) + [(m,)]
        got = [random.integers(-9, 9, shape) for shape in shapes]
        want = [a.copy() for a in got]
        kernel.python(*want)
        compiled(*got)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)
