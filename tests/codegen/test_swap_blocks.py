"""Transpositions in place and of triangles: the same in blocks, at sizes on both sides of one."""

# ruff: noqa: F821  (sizes are names in kernels)

from collections.abc import Callable

import numpy as np
import pytest

import weft

SIZES = (0, 1, 2, 7, 8, 9, 16, 17, 31, 33, 65)
Change = Callable[[np.ndarray], np.ndarray]


def transposed(dtype: weft.DType) -> weft.Kernel:
    @weft.kernel
    def swap(A: dtype["N", "N"]):
        for i in range(N):
            for j in range(i):
                t = A[i, j]
                A[i, j] = A[j, i]
                A[j, i] = t

    return swap


@weft.kernel
def upwards(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i + 1, N):
            t = A[j, i]
            A[j, i] = A[i, j]
            A[i, j] = t


@weft.kernel
def other_diagonal(A: weft.f32["N", "N"]):
    for i in range(N):
        for j in range(N - 1 - i):
            t = A[i, j]
            A[i, j] = A[N - 1 - j, N - 1 - i]
            A[N - 1 - j, N - 1 - i] = t


@weft.kernel
def mirrored(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            A[j, i] = A[i, j]


@weft.kernel
def averaged(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            mean = 0.5 * (A[i, j] + A[j, i])
            A[i, j] = mean
            A[j, i] = mean


@weft.kernel
def doubled_diagonal(A: weft.f64["N", "N"]):
    """The diagonal is written twice by one iteration: its stores keep their order."""
    for i in range(N):
        for j in range(i + 1):
            t = A[j, i]
            A[j, i] = A[i, j]
            A[i, j] = 2.0 * t


def check(kernel: weft.Kernel, dtype: str, change: Change, threads: int = 1) -> None:
    run = kernel.compile(options=weft.Options(threads=threads))
    for n in SIZES:
        a = np.random.default_rng(n).integers(0, 100, (n, n)).astype(dtype)
        expected = change(a.copy())
        run(a)
        np.testing.assert_array_equal(a, expected, err_msg=f"{n}")


@pytest.mark.parametrize(("dtype", "threads"), [("f64", 1), ("f32", 2), ("i16", 1), ("u8", 2)])
def test_transposed(dtype: str, threads: int) -> None:
    real = getattr(weft, dtype)
    check(transposed(real), real.name, lambda a: a.T.copy(), threads)


def lower_to_upper(a: np.ndarray) -> np.ndarray:
    lower = np.tril(a, -1)
    return np.diag(np.diag(a)) + lower + lower.T


def twice_below(a: np.ndarray) -> np.ndarray:
    return np.tril(2 * a.T) + np.triu(a.T, 1)


@pytest.mark.parametrize(
    ("kernel", "dtype", "change"),
    [
        (upwards, "f8", lambda a: a.T.copy()),
        (other_diagonal, "f4", lambda a: a[::-1, ::-1].T.copy()),
        (mirrored, "f8", lower_to_upper),
        (averaged, "f8", lambda a: (a + a.T) / 2),
        (doubled_diagonal, "f8", twice_below),
    ],
)
def test_neighbours(kernel: weft.Kernel, dtype: str, change: Change) -> None:
    check(kernel, dtype, change)


def text(kernel: weft.Kernel) -> str:
    options = weft.Options(threads=1, target="x86-64-v3")
    return kernel.compile(options=options).as_text("loops")


def test_blocks_and_no_copies() -> None:
    for kernel in (transposed(weft.f32), upwards, other_diagonal, mirrored, averaged):
        assert "register" in text(kernel), kernel.name
    assert "register" not in text(doubled_diagonal)
    swap = transposed(weft.f64).compile(options=weft.Options(threads=1))
    assert "0 bytes" in swap.explain().splitlines()[-1]
