"""PolyBench 4.2.1, linear-algebra/solvers: cholesky, durbin, gramschmidt, lu, ludcmp, trisolv."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import math
from typing import Any

import numpy as np

import weft
from weft.benchmarks.polybench.benchmark import (
    Arguments,
    Array,
    Benchmark,
    as_dtype,
    filled,
    grid,
)
from weft.ir.dtypes import DType

_SQUARE = ((40,), (120,), (400,), (2000,), (4000,))


def _positive_definite(N: int) -> Array:
    """L L' of a unit lower triangular L, as the suite makes its matrices to be factored."""
    i, j = grid(N, N)
    lower = np.where(j < i, -j / max(N, 1) + 1.0, np.where(i == j, 1.0, 0.0))
    return lower @ lower.T


# ---- cholesky: A = L L', in the lower triangle --------------------------------------------------


def cholesky(real: DType) -> Any:
    @weft.kernel
    def cholesky(A: real["N", "N"]):
        for i in range(N):
            for j in range(i):
                for k in range(j):
                    A[i, j] -= A[i, k] * A[j, k]
                A[i, j] /= A[j, j]
            for k in range(i):
                A[i, i] -= A[i, k] * A[i, k]
            A[i, i] = math.sqrt(A[i, i])

    return cholesky


def cholesky_inputs(real: np.dtype[Any], N: int) -> Arguments:
    return as_dtype({"A": _positive_definite(N)}, real)


def cholesky_oracle(A: Array) -> Arguments:
    return {"A": np.linalg.cholesky(A) + np.triu(A, 1)}


# ---- durbin: the Yule-Walker equations of a Toeplitz matrix -------------------------------------


def durbin(real: DType) -> Any:
    @weft.kernel
    def durbin(r: real["N"], y: real["N"]):
        z = weft.empty((N,), real)
        y[0] = -r[0]
        beta = 1.0
        alpha = -r[0]
        for k in range(1, N):
            beta = (1.0 - alpha * alpha) * beta
            sum = 0.0
            for i in range(k):
                sum += r[k - i - 1] * y[i]
            alpha = -(r[k] + sum) / beta
            for i in range(k):
                z[i] = y[i] + alpha * y[k - i - 1]
            for i in range(k):
                y[i] = z[i]
            y[k] = alpha

    return durbin


def durbin_inputs(real: np.dtype[Any], N: int) -> Arguments:
    return as_dtype({"r": N + 1.0 - np.arange(N), "y": filled(N)}, real)


def durbin_regular(real: np.dtype[Any], N: int) -> Arguments:
    """A diagonally dominant Toeplitz matrix: its errors stay as small as they are."""
    r = 0.4 * 0.5 ** np.arange(N) * np.cos(np.arange(N))
    return as_dtype({"r": r, "y": filled(N)}, real)


def durbin_oracle(r: Array, y: Array) -> Arguments:
    r = r.astype(np.longdouble)  # every step multiplies the errors of the one before
    y = np.zeros_like(r)
    y[0] = alpha = -r[0]
    beta = np.longdouble(1.0)
    for k in range(1, len(r)):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + r[:k][::-1] @ y[:k]) / beta
        y[:k] += alpha * y[:k][::-1]
        y[k] = alpha
    return {"y": y.astype(np.float64)}


# ---- gramschmidt: A = Q R by the modified process -----------------------------------------------


def gramschmidt(real: DType) -> Any:
    @weft.kernel
    def gramschmidt(A: real["M", "N"], R: real["N", "N"], Q: real["M", "N"]):
        for k in range(N):
            nrm = 0.0
            for i in range(M):
                nrm += A[i, k] * A[i, k]
            R[k, k] = math.sqrt(nrm)
            for i in range(M):
                Q[i, k] = A[i, k] / R[k, k]
            for j in range(k + 1, N):
                R[k, j] = 0.0
                for i in range(M):
                    R[k, j] += Q[i, k] * A[i, j]
                for i in range(M):
                    A[i, j] = A[i, j] - Q[i, k] * R[k, j]

    return gramschmidt


def gramschmidt_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(M, N)
    A = ((i * j) % M) / M * 100 + 10
    return as_dtype({"A": A, "R": filled(N, N), "Q": filled(M, N)}, real)


def gramschmidt_well_conditioned(real: np.dtype[Any], M: int, N: int) -> Arguments:
    """Inputs with independent columns, which the suite's own (of rank about M / 2) lack."""
    if N > M:
        M, N = N, M
    A = np.random.default_rng(0).standard_normal((M, N)) + 4.0 * np.sqrt(M) * np.eye(M, N)
    return as_dtype({"A": A, "R": filled(N, N), "Q": filled(M, N)}, real)


def gramschmidt_residual(before: Arguments, after: Arguments) -> float:
    """‖A − Q R‖ / ‖A‖ over the columns up to the first that is not finite.

    There the process has divided 0 by 0, which is right where that column depends on those before
    it, to working precision; otherwise the residual is infinite.
    """
    A, Q, R = before["A"], after["Q"], np.triu(after["R"])
    finite = np.isfinite(Q).all(axis=0) & np.isfinite(R).all(axis=0)
    count = len(finite) if finite.all() else int(np.argmin(finite))
    if count < len(finite):
        column = A[:, count]
        rest = column - A[:, :count] @ np.linalg.lstsq(A[:, :count], column, rcond=None)[0]
        if np.linalg.norm(rest) > 1e-6 * np.linalg.norm(column):
            return float("inf")
    product = Q[:, :count] @ R[:count, :count]
    return float(np.linalg.norm(A[:, :count] - product) / max(np.linalg.norm(A), 1e-300))


def gramschmidt_oracle(A: Array, R: Array, Q: Array) -> Arguments:
    A, R, Q = A.copy(), R.copy(), Q.copy()
    for k in range(A.shape[1]):
        R[k, k] = np.sqrt(A[:, k] @ A[:, k])
        with np.errstate(invalid="ignore"):  # a column that depends on others: 0 / 0
            Q[:, k] = A[:, k] / R[k, k]
        R[k, k + 1 :] = Q[:, k] @ A[:, k + 1 :]
        A[:, k + 1 :] -= np.outer(Q[:, k], R[k, k + 1 :])
    return {"A": A, "R": R, "Q": Q}


# ---- lu: A = L U, in place, without pivoting ----------------------------------------------------


def lu(real: DType) -> Any:
    @weft.kernel
    def lu(A: real["N", "N"]):
        for i in range(N):
            for j in range(i):
                for k in range(j):
                    A[i, j] -= A[i, k] * A[k, j]
                A[i, j] /= A[j, j]
            for j in range(i, N):
                for k in range(i):
                    A[i, j] -= A[i, k] * A[k, j]

    return lu


def lu_inputs(real: np.dtype[Any], N: int) -> Arguments:
    return as_dtype({"A": _positive_definite(N)}, real)


def lu_oracle(A: Array) -> Arguments:
    A = A.copy()
    for k in range(len(A)):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return {"A": A}


# ---- ludcmp: A x = b by LU and two triangular solves --------------------------------------------


def ludcmp(real: DType) -> Any:
    @weft.kernel
    def ludcmp(A: real["N", "N"], b: real["N"], x: real["N"], y: real["N"]):
        for i in range(N):
            for j in range(i):
                w = A[i, j]
                for k in range(j):
                    w -= A[i, k] * A[k, j]
                A[i, j] = w / A[j, j]
            for j in range(i, N):
                w = A[i, j]
                for k in range(i):
                    w -= A[i, k] * A[k, j]
                A[i, j] = w
        for i in range(N):
            w = b[i]
            for j in range(i):
                w -= A[i, j] * y[j]
            y[i] = w
        for i in range(N - 1, -1, -1):
            w = y[i]
            for j in range(i + 1, N):
                w -= A[i, j] * x[j]
            x[i] = w / A[i, i]

    return ludcmp


def ludcmp_inputs(real: np.dtype[Any], N: int) -> Arguments:
    b = (np.arange(N) + 1) / max(N, 1) / 2.0 + 4
    return as_dtype({"A": _positive_definite(N), "b": b, "x": filled(N), "y": filled(N)}, real)


def ludcmp_oracle(A: Array, b: Array, x: Array, y: Array) -> Arguments:
    A = lu_oracle(A)["A"]
    y = np.linalg.solve(np.tril(A, -1) + np.eye(len(A)), b)
    return {"A": A, "x": np.linalg.solve(np.triu(A), y), "y": y}


# ---- trisolv: L x = b ---------------------------------------------------------------------------


def trisolv(real: DType) -> Any:
    @weft.kernel
    def trisolv(L: real["N", "N"], x: real["N"], b: real["N"]):
        for i in range(N):
            x[i] = b[i]
            for j in range(i):
                x[i] -= L[i, j] * x[j]
            x[i] = x[i] / L[i, i]

    return trisolv


def trisolv_inputs(real: np.dtype[Any], N: int) -> Arguments:
    i, j = grid(N, N)
    L = np.where(j <= i, (i + N - j + 1) * 2 / max(N, 1), -999.0)  # -999: not to be read
    return as_dtype({"L": L, "x": filled(N, value=-999.0), "b": np.arange(N) + 0.0}, real)


def trisolv_regular(real: np.dtype[Any], N: int) -> Arguments:
    random = np.random.default_rng(N)
    L = random.uniform(-1.0, 1.0, (N, N)) / max(N, 1) + 2.0 * np.eye(N)
    x, b = filled(N, value=-999.0), random.uniform(-1.0, 1.0, N)
    return as_dtype({"L": L, "x": x, "b": b}, real)


def trisolv_oracle(L: Array, x: Array, b: Array) -> Arguments:
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return {"x": x}


BENCHMARKS = (
    Benchmark(
        "cholesky", cholesky, cholesky_inputs, cholesky_oracle,
        lambda N: N**3 / 3.0,
        ("N",), _SQUARE, matrix=True,
    ),
    Benchmark(
        "durbin", durbin, durbin_inputs, durbin_oracle,
        lambda N: 2.0 * N * N,
        ("N",), _SQUARE, regular=durbin_regular,
    ),
    Benchmark(
        "gramschmidt", gramschmidt, gramschmidt_inputs, gramschmidt_oracle,
        lambda M, N: 2.0 * M * N * N,
        ("M", "N"), ((20, 30), (60, 80), (200, 240), (1000, 1200), (2000, 2600)), matrix=True,
        residual=gramschmidt_residual, regular=gramschmidt_well_conditioned,
    ),
    Benchmark(
        "lu", lu, lu_inputs, lu_oracle,
        lambda N: 2.0 * N**3 / 3.0,
        ("N",), _SQUARE, matrix=True,
    ),
    Benchmark(
        "ludcmp", ludcmp, ludcmp_inputs, ludcmp_oracle,
        lambda N: 2.0 * N**3 / 3.0,
        ("N",), _SQUARE, matrix=True,
    ),
    Benchmark(
        "trisolv", trisolv, trisolv_inputs, trisolv_oracle,
        lambda N: 1.0 * N * N,
        ("N",), _SQUARE, regular=trisolv_regular,
    ),
)  # fmt: skip
