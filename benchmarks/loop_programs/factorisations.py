"""Factorisations and solvers, in several orders of their loops."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import math

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, definite, dominant, floats


@weft.kernel
def lu_kij(A: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(k + 1, N):
            A[i, k] /= A[k, k]
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def lu_kij_two_loops(A: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(k + 1, N):
            A[i, k] /= A[k, k]
        for i in range(k + 1, N):
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def lu_jki(A: weft.f64["N", "N"]):
    for j in range(N):
        for k in range(j):
            for i in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]
        for i in range(j + 1, N):
            A[i, j] /= A[j, j]


@weft.kernel
def lu_solve_many(A: weft.f64["N", "N"], B: weft.f64["N", "M"]):
    for k in range(N):
        for i in range(k + 1, N):
            A[i, k] /= A[k, k]
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]
    for i in range(N):
        for k in range(i):
            for r in range(M):
                B[i, r] -= A[i, k] * B[k, r]
    for i in range(N - 1, -1, -1):
        for k in range(i + 1, N):
            for r in range(M):
                B[i, r] -= A[i, k] * B[k, r]
        for r in range(M):
            B[i, r] /= A[i, i]


@weft.kernel
def cholesky_right(A: weft.f64["N", "N"]):
    for k in range(N):
        A[k, k] = math.sqrt(A[k, k])
        for i in range(k + 1, N):
            A[i, k] /= A[k, k]
        for i in range(k + 1, N):
            for j in range(k + 1, i + 1):
                A[i, j] -= A[i, k] * A[j, k]


@weft.kernel
def cholesky_left(A: weft.f64["N", "N"]):
    for j in range(N):
        for k in range(j):
            for i in range(j, N):
                A[i, j] -= A[i, k] * A[j, k]
        A[j, j] = math.sqrt(A[j, j])
        for i in range(j + 1, N):
            A[i, j] /= A[j, j]


@weft.kernel
def cholesky_upper(A: weft.f64["N", "N"]):
    for k in range(N):
        A[k, k] = math.sqrt(A[k, k])
        for j in range(k + 1, N):
            A[k, j] = A[k, j] / A[k, k]
        for i in range(k + 1, N):
            for j in range(i, N):
                A[i, j] -= A[k, i] * A[k, j]


@weft.kernel
def ldlt(A: weft.f64["N", "N"], d: weft.f64["N"]):
    for j in range(N):
        d[j] = A[j, j]
        for k in range(j):
            d[j] -= A[j, k] * A[j, k] * d[k]
        for i in range(j + 1, N):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k] * d[k]
            A[i, j] /= d[j]


@weft.kernel
def qr_householder(A: weft.f64["M", "N"], tau: weft.f64["N"]):
    assert M >= N
    for k in range(N):
        s = 0.0
        for i in range(k, M):
            s += A[i, k] * A[i, k]
        norm = math.sqrt(s)
        alpha = -norm if A[k, k] >= 0.0 else norm
        head = A[k, k] - alpha
        tau[k] = -head / alpha
        for i in range(k + 1, M):
            A[i, k] = A[i, k] / head
        A[k, k] = alpha
        for j in range(k + 1, N):
            w = A[k, j]
            for i in range(k + 1, M):
                w += A[i, k] * A[i, j]
            w *= tau[k]
            A[k, j] -= w
            for i in range(k + 1, M):
                A[i, j] -= A[i, k] * w


@weft.kernel
def qr_givens(A: weft.f64["M", "N"]):
    for j in range(N):
        for i in range(M - 1, j, -1):
            a = A[i - 1, j]
            b = A[i, j]
            r = math.sqrt(a * a + b * b)
            c = a / r
            s = b / r
            for k in range(j, N):
                up = A[i - 1, k]
                down = A[i, k]
                A[i - 1, k] = c * up + s * down
                A[i, k] = c * down - s * up


@weft.kernel
def gauss_jordan(A: weft.f64["N", "N"]):
    for k in range(N):
        p = 1.0 / A[k, k]
        A[k, k] = 1.0
        for j in range(N):
            A[k, j] *= p
        for i in range(N):
            if i != k:
                f = A[i, k]
                A[i, k] = 0.0
                for j in range(N):
                    A[i, j] -= f * A[k, j]


@weft.kernel
def solve_lower_many(L: weft.f64["N", "N"], B: weft.f64["N", "M"]):
    for i in range(N):
        for k in range(i):
            for j in range(M):
                B[i, j] -= L[i, k] * B[k, j]
        for j in range(M):
            B[i, j] /= L[i, i]


@weft.kernel
def solve_lower_columns(L: weft.f64["N", "N"], B: weft.f64["N", "M"]):
    for j in range(M):
        for k in range(N):
            B[k, j] /= L[k, k]
            for i in range(k + 1, N):
                B[i, j] -= B[k, j] * L[i, k]


@weft.kernel
def solve_upper_many(U: weft.f64["N", "N"], B: weft.f64["N", "M"]):
    for i in range(N - 1, -1, -1):
        for j in range(M):
            for k in range(i + 1, N):
                B[i, j] -= U[i, k] * B[k, j]
            B[i, j] /= U[i, i]


@weft.kernel
def solve_right_upper(U: weft.f64["N", "N"], B: weft.f64["M", "N"]):
    for i in range(M):
        for j in range(N):
            for k in range(j):
                B[i, j] -= B[i, k] * U[k, j]
            B[i, j] /= U[j, j]


@weft.kernel
def solve_right_lower(L: weft.f64["N", "N"], B: weft.f64["M", "N"]):
    for j in range(N - 1, -1, -1):
        for i in range(M):
            B[i, j] /= L[j, j]
            for k in range(j):
                B[i, k] -= B[i, j] * L[j, k]


@weft.kernel
def solve_upper_vector(U: weft.f64["N", "N"], b: weft.f64["N"]):
    for i in range(N - 1, -1, -1):
        for k in range(i + 1, N):
            b[i] -= U[i, k] * b[k]
        b[i] /= U[i, i]


@weft.kernel
def thomas(a: weft.f64["N"], b: weft.f64["N"], c: weft.f64["N"], d: weft.f64["N"]):
    for i in range(1, N):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    for i in range(N - 1, -1, -1):
        if i < N - 1:
            d[i] -= c[i] * d[i + 1]
        d[i] /= b[i]


@weft.kernel
def thomas_batch(
    a: weft.f64["N", "B"], b: weft.f64["N", "B"], c: weft.f64["N", "B"], d: weft.f64["N", "B"]
):
    for s in range(B):
        for i in range(1, N):
            w = a[i, s] / b[i - 1, s]
            b[i, s] -= w * c[i - 1, s]
            d[i, s] -= w * d[i - 1, s]
        for i in range(N - 1, -1, -1):
            if i < N - 1:
                d[i, s] -= c[i, s] * d[i + 1, s]
            d[i, s] /= b[i, s]


@weft.kernel
def banded_cholesky(A: weft.f64["N", "W + 1"]):
    """Row i, entry d is the element (i, i - d) of a band."""
    for j in range(N):
        for k in range(max(0, j - W), j):
            A[j, 0] -= A[j, j - k] * A[j, j - k]
        A[j, 0] = math.sqrt(A[j, 0])
        for i in range(j + 1, min(N, j + W + 1)):
            for k in range(max(0, i - W), j):
                A[i, i - j] -= A[i, i - k] * A[j, j - k]
            A[i, i - j] /= A[j, 0]


@weft.kernel
def banded_matvec(A: weft.f64["N", "2 * W + 1"], x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N):
        y[i] = 0.0
        for j in range(max(0, i - W), min(N, i + W + 1)):
            y[i] += A[i, j - i + W] * x[j]


@weft.kernel
def trsv_then_inverse(L: weft.f64["N", "N"], X: weft.f64["N", "N"]):
    for j in range(N):
        for i in range(N):
            X[i, j] = 1.0 if i == j else 0.0
        for i in range(j, N):
            for k in range(j, i):
                X[i, j] -= L[i, k] * X[k, j]
            X[i, j] /= L[i, i]


@weft.kernel
def modified_gram_schmidt(A: weft.f64["M", "N"], R: weft.f64["N", "N"]):
    for i in range(N):
        R[i, i] = 0.0
        for k in range(M):
            R[i, i] += A[k, i] * A[k, i]
        R[i, i] = math.sqrt(R[i, i])
        for k in range(M):
            A[k, i] /= R[i, i]
        for j in range(i + 1, N):
            R[i, j] = 0.0
            for k in range(M):
                R[i, j] += A[k, i] * A[k, j]
            for k in range(M):
                A[k, j] -= R[i, j] * A[k, i]


def _band(n: int, width: int = 5) -> np.ndarray:
    band = 0.1 * floats(n, n, width)
    band[:, 0] = 4.0
    return band


def _diagonals(n: int) -> tuple[np.ndarray, ...]:
    a, c, d = floats(n, n), floats(n + 1, n), floats(n + 2, n)
    return a, np.full(n, 3.0), c, d


def _many(n: int) -> tuple[np.ndarray, ...]:
    batch = n // 2 + 3
    shape = (n, batch)
    return floats(n, *shape), np.full(shape, 3.0), floats(n + 1, *shape), floats(n + 2, *shape)


FACTORISATIONS = {
    "lu_kij": Program(lu_kij, lambda n: (dominant(n),), 800),
    "lu_kij_two_loops": Program(lu_kij_two_loops, lambda n: (dominant(n),), 800),
    "lu_jki": Program(lu_jki, lambda n: (dominant(n),), 800),
    "lu_solve_many": Program(lu_solve_many, lambda n: (dominant(n), floats(n, n, n // 2 + 1)), 600),
    "cholesky_right": Program(cholesky_right, lambda n: (definite(n),), 1000),
    "cholesky_left": Program(cholesky_left, lambda n: (definite(n),), 1000),
    "cholesky_upper": Program(cholesky_upper, lambda n: (definite(n),), 1000),
    "ldlt": Program(ldlt, lambda n: (definite(n), np.zeros(n)), 800),
    "qr_householder": Program(
        qr_householder, lambda n: (floats(n, n + 3, n) + 0.5, np.zeros(n)), 500
    ),
    "qr_givens": Program(qr_givens, lambda n: (floats(n, n + 2, n) + 0.5,), 400),
    "gauss_jordan": Program(gauss_jordan, lambda n: (dominant(n),), 500),
    "solve_lower_many": Program(
        solve_lower_many, lambda n: (dominant(n), floats(n, n, n // 2 + 1)), 800
    ),
    "solve_lower_columns": Program(
        solve_lower_columns, lambda n: (dominant(n), floats(n, n, n // 2 + 1)), 600
    ),
    "solve_upper_many": Program(
        solve_upper_many, lambda n: (dominant(n), floats(n, n, n // 2 + 1)), 600
    ),
    "solve_right_upper": Program(
        solve_right_upper, lambda n: (dominant(n), floats(n, n // 2 + 1, n)), 600
    ),
    "solve_right_lower": Program(
        solve_right_lower, lambda n: (dominant(n), floats(n, n // 2 + 1, n)), 600
    ),
    "solve_upper_vector": Program(solve_upper_vector, lambda n: (dominant(n), floats(n, n)), 3000),
    "thomas": Program(thomas, _diagonals, 1_000_000),
    "thomas_batch": Program(thomas_batch, _many, 1500),
    "banded_cholesky": Program(banded_cholesky, lambda n: (_band(n),), 200_000),
    "banded_matvec": Program(
        banded_matvec, lambda n: (floats(n, n, 7), floats(n + 1, n), np.zeros(n)), 1_000_000
    ),
    "trsv_then_inverse": Program(trsv_then_inverse, lambda n: (dominant(n), np.ones((n, n))), 600),
    "modified_gram_schmidt": Program(
        modified_gram_schmidt, lambda n: (floats(n, n + 5, n), np.zeros((n, n))), 500
    ),
}
