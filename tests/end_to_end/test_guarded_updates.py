"""Updates by their own rows and columns under conditions on data keep their register tiles."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.loop_kernel import Kernel


@weft.kernel
def of_its_column(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def of_both(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    if D[k, j] < 1e30:
                        D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def of_something_else(D: weft.f64["N", "N"], m: weft.i64["N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 50 and m[i] > 3:
                for j in range(N):
                    D[i, j] = max(D[i, j], min(D[i, k], D[k, j]))


@weft.kernel
def of_another_element(D: weft.f64["N", "N"]):
    """The diagonal of the row changes while the row does: no panels, and still right."""
    for k in range(N):
        for i in range(N):
            if D[i, i] < 40:
                for j in range(N):
                    D[i, j] = min(D[i, j], D[i, k] + D[k, j])


TILED = (of_its_column, of_both, of_something_else)


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", (*TILED, of_another_element), ids=lambda k: k.__name__)
def test_they_compute_what_python_does(kernel: Kernel, threads: int) -> None:
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    assert ("  matrix: " in run.explain()) == (kernel in TILED)
    for size in (0, 1, 2, 31, 32, 33, 67):
        random = np.random.default_rng(size)
        for low in (0, -8):  # with cycles of negative length, conditions change on the way
            distances = random.integers(low, 100, (size, size)).astype(np.float64)
            distances[distances > 60] = 1e31
            given = [distances, random.integers(0, 9, size)][: len(run.inputs)]
            wanted = [x.copy() for x in given]
            kernel.python(*wanted)
            run(*given)
            np.testing.assert_array_equal(given[0], wanted[0], err_msg=f"{size} {low}")
