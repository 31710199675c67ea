"""PolyBench 4.2.1, linear-algebra/blas: gemm, gemver, gesummv, symm, syr2k, syrk, trmm."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

from typing import Any

import numpy as np

import weft
from weft.benchmarks.polybench.benchmark import (
    Arguments,
    Array,
    Benchmark,
    as_dtype,
    broadcast,
    filled,
    grid,
    noisy,
)
from weft.ir.dtypes import DType

_RANK = ((20, 30), (60, 80), (200, 240), (1000, 1200), (2000, 2600))


# ---- gemm: C = alpha A B + beta C ---------------------------------------------------------------


def gemm(real: DType) -> Any:
    @weft.kernel
    def gemm(
        alpha: real, beta: real, C: real["NI", "NJ"], A: real["NI", "NK"], B: real["NK", "NJ"]
    ):
        for i in range(NI):
            for j in range(NJ):
                C[i, j] *= beta
            for k in range(NK):
                for j in range(NJ):
                    C[i, j] += alpha * A[i, k] * B[k, j]

    return gemm


def gemm_inputs(real: np.dtype[Any], NI: int, NJ: int, NK: int) -> Arguments:
    i, j = grid(NI, NJ)
    C = ((i * j + 1) % NI) / NI
    i, k = grid(NI, NK)
    A = (i * (k + 1) % NK) / NK
    k, j = grid(NK, NJ)
    B = (k * (j + 2) % NJ) / NJ
    return as_dtype({"alpha": 1.5, "beta": 1.2, "C": C, "A": A, "B": B}, real)


def gemm_oracle(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Arguments:
    return {"C": beta * C + alpha * (A @ B)}


# ---- gemver: A += u1 v1' + u2 v2'; x += beta A' y + z; w += alpha A x ---------------------------


def gemver(real: DType) -> Any:
    @weft.kernel
    def gemver(
        alpha: real,
        beta: real,
        A: real["N", "N"],
        u1: real["N"],
        v1: real["N"],
        u2: real["N"],
        v2: real["N"],
        w: real["N"],
        x: real["N"],
        y: real["N"],
        z: real["N"],
    ):
        for i in range(N):
            for j in range(N):
                A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
        for i in range(N):
            for j in range(N):
                x[i] = x[i] + beta * A[j, i] * y[j]
        for i in range(N):
            x[i] = x[i] + z[i]
        for i in range(N):
            for j in range(N):
                w[i] = w[i] + alpha * A[i, j] * x[j]

    return gemver


def gemver_inputs(real: np.dtype[Any], N: int) -> Arguments:
    i, j = grid(N, N)
    k = np.arange(N)
    vector = (k + 1) / max(N, 1)
    given = {
        "alpha": 1.5,
        "beta": 1.2,
        "A": (i * j % N) / N,
        "u1": k.astype(np.float64),
        "v1": vector / 4.0,
        "u2": vector / 2.0,
        "v2": vector / 6.0,
        "w": filled(N),
        "x": filled(N),
        "y": vector / 8.0,
        "z": vector / 9.0,
    }
    return as_dtype(given, real)


def gemver_oracle(alpha: float, beta: float, A: Array, w: Array, x: Array, **v: Array) -> Arguments:
    A = A + np.outer(v["u1"], v["v1"]) + np.outer(v["u2"], v["v2"])
    x = x + beta * (v["y"] @ A) + v["z"]
    return {"A": A, "w": w + alpha * (A @ x), "x": x}


# ---- gesummv: y = alpha A x + beta B x ----------------------------------------------------------


def gesummv(real: DType) -> Any:
    @weft.kernel
    def gesummv(
        alpha: real,
        beta: real,
        A: real["N", "N"],
        B: real["N", "N"],
        tmp: real["N"],
        x: real["N"],
        y: real["N"],
    ):
        for i in range(N):
            tmp[i] = 0.0
            y[i] = 0.0
            for j in range(N):
                tmp[i] = A[i, j] * x[j] + tmp[i]
                y[i] = B[i, j] * x[j] + y[i]
            y[i] = alpha * tmp[i] + beta * y[i]

    return gesummv


def gesummv_inputs(real: np.dtype[Any], N: int) -> Arguments:
    i, j = grid(N, N)
    given = {
        "alpha": 1.5,
        "beta": 1.2,
        "A": ((i * j + 1) % N) / N,
        "B": ((i * j + 2) % N) / N,
        "tmp": filled(N),
        "x": (np.arange(N) % N) / N,
        "y": filled(N),
    }
    return as_dtype(given, real)


def gesummv_oracle(
    alpha: float, beta: float, A: Array, B: Array, tmp: Array, x: Array, y: Array
) -> Arguments:
    return {"tmp": A @ x, "y": alpha * (A @ x) + beta * (B @ x)}


# ---- symm: C = alpha A B + beta C, of the symmetric A only the lower triangle is stored ---------


def symm(real: DType) -> Any:
    @weft.kernel
    def symm(alpha: real, beta: real, C: real["M", "N"], A: real["M", "M"], B: real["M", "N"]):
        for i in range(M):
            for j in range(N):
                temp2 = 0.0
                for k in range(i):
                    C[k, j] += alpha * B[i, j] * A[i, k]
                    temp2 += B[k, j] * A[i, k]
                C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * temp2

    return symm


def symm_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(M, N)
    r, c = grid(M, M)
    given = {
        "alpha": 1.5,
        "beta": 1.2,
        "C": ((i + j) % 100) / max(M, 1),
        "A": np.where(c <= r, ((r + c) % 100) / max(M, 1), -999.0),
        "B": ((N + i - j) % 100) / max(M, 1),
    }
    return as_dtype(given, real)


def symm_oracle(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Arguments:
    whole = np.tril(A) + np.tril(A, -1).T
    return {"C": beta * C + alpha * (whole @ B)}


# ---- syr2k: C = alpha (A B' + B A') + beta C, lower triangle ------------------------------------


def syr2k(real: DType) -> Any:
    @weft.kernel
    def syr2k(alpha: real, beta: real, C: real["N", "N"], A: real["N", "M"], B: real["N", "M"]):
        for i in range(N):
            for j in range(i + 1):
                C[i, j] *= beta
            for k in range(M):
                for j in range(i + 1):
                    C[i, j] += A[j, k] * alpha * B[i, k] + B[j, k] * alpha * A[i, k]

    return syr2k


def syr2k_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(N, M)
    A, B = ((i * j + 1) % N) / N, ((i * j + 2) % M) / M
    i, j = grid(N, N)
    C = ((i * j + 3) % N) / max(M, 1)
    return as_dtype({"alpha": 1.5, "beta": 1.2, "C": C, "A": A, "B": B}, real)


def syr2k_oracle(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Arguments:
    product = A @ B.T
    return {"C": np.tril(beta * C + alpha * (product + product.T)) + np.triu(C, 1)}


# ---- syrk: C = alpha A A' + beta C, lower triangle ----------------------------------------------


def syrk(real: DType) -> Any:
    @weft.kernel
    def syrk(alpha: real, beta: real, C: real["N", "N"], A: real["N", "M"]):
        for i in range(N):
            for j in range(i + 1):
                C[i, j] *= beta
            for k in range(M):
                for j in range(i + 1):
                    C[i, j] += alpha * A[i, k] * A[j, k]

    return syrk


def syrk_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(N, M)
    A = ((i * j + 1) % N) / N
    i, j = grid(N, N)
    C = ((i * j + 2) % max(M, 1)) / max(M, 1)
    return as_dtype({"alpha": 1.5, "beta": 1.2, "C": C, "A": A}, real)


def syrk_oracle(alpha: float, beta: float, C: Array, A: Array) -> Arguments:
    return {"C": np.tril(beta * C + alpha * (A @ A.T)) + np.triu(C, 1)}


# ---- trmm: B = alpha A' B, A unit lower triangular ----------------------------------------------


def trmm(real: DType) -> Any:
    @weft.kernel
    def trmm(alpha: real, A: real["M", "M"], B: real["M", "N"]):
        for i in range(M):
            for j in range(N):
                for k in range(i + 1, M):
                    B[i, j] += A[k, i] * B[k, j]
                B[i, j] = alpha * B[i, j]

    return trmm


def trmm_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(M, M)
    A = np.where(j < i, ((i + j) % M) / M, np.where(i == j, 1.0, -999.0))  # -999: not to be read
    i, j = grid(M, N)
    B = ((N + (i - j)) % N) / N
    return as_dtype({"alpha": 1.5, "A": A, "B": broadcast(B, M, N)}, real)


def trmm_oracle(alpha: float, A: Array, B: Array) -> Arguments:
    return {"B": alpha * (B + np.tril(A, -1).T @ B)}


BENCHMARKS = (
    Benchmark(
        "gemm", gemm, gemm_inputs, gemm_oracle,
        lambda NI, NJ, NK: 2.0 * NI * NJ * NK,
        ("NI", "NJ", "NK"),
        ((20, 25, 30), (60, 70, 80), (200, 220, 240), (1000, 1100, 1200), (2000, 2300, 2600)),
        matrix=True,
        regular=noisy(gemm_inputs),
    ),
    Benchmark(
        "gemver", gemver, gemver_inputs, gemver_oracle,
        lambda N: 10.0 * N * N,
        ("N",), ((40,), (120,), (400,), (2000,), (4000,)),
        regular=noisy(gemver_inputs),
    ),
    Benchmark(
        "gesummv", gesummv, gesummv_inputs, gesummv_oracle,
        lambda N: 4.0 * N * N,
        ("N",), ((30,), (90,), (250,), (1300,), (2800,)),
        regular=noisy(gesummv_inputs),
    ),
    Benchmark(
        "symm", symm, symm_inputs, symm_oracle,
        lambda M, N: 2.0 * M * M * N,
        ("M", "N"), _RANK, matrix=True,
        regular=noisy(symm_inputs),
    ),
    Benchmark(
        "syr2k", syr2k, syr2k_inputs, syr2k_oracle,
        lambda M, N: 2.0 * M * N * N,
        ("M", "N"), _RANK, matrix=True,
        regular=noisy(syr2k_inputs),
    ),
    Benchmark(
        "syrk", syrk, syrk_inputs, syrk_oracle,
        lambda M, N: 1.0 * M * N * N,
        ("M", "N"), _RANK, matrix=True,
        regular=noisy(syrk_inputs),
    ),
    Benchmark(
        "trmm", trmm, trmm_inputs, trmm_oracle,
        lambda M, N: 1.0 * M * M * N,
        ("M", "N"), _RANK, matrix=True,
        regular=noisy(trmm_inputs),
    ),
)  # fmt: skip
