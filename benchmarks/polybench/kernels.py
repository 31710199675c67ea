"""PolyBench 4.2.1, linear-algebra/kernels: 2mm, 3mm, atax, bicg, doitgen, mvt."""

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

# ---- 2mm: D = alpha A B C + beta D --------------------------------------------------------------


def two_mm(real: DType) -> Any:
    @weft.kernel
    def two_mm(
        alpha: real,
        beta: real,
        tmp: real["NI", "NJ"],
        A: real["NI", "NK"],
        B: real["NK", "NJ"],
        C: real["NJ", "NL"],
        D: real["NI", "NL"],
    ):
        for i in range(NI):
            for j in range(NJ):
                tmp[i, j] = 0.0
                for k in range(NK):
                    tmp[i, j] += alpha * A[i, k] * B[k, j]
        for i in range(NI):
            for j in range(NL):
                D[i, j] *= beta
                for k in range(NJ):
                    D[i, j] += tmp[i, k] * C[k, j]

    return two_mm


def two_mm_inputs(real: np.dtype[Any], NI: int, NJ: int, NK: int, NL: int) -> Arguments:
    i, k = grid(NI, NK)
    A = ((i * k + 1) % NI) / NI
    k, j = grid(NK, NJ)
    B = (k * (j + 1) % NJ) / NJ
    j, m = grid(NJ, NL)
    C = ((j * (m + 3) + 1) % NL) / NL
    i, m = grid(NI, NL)
    D = (i * (m + 2) % max(NK, 1)) / max(NK, 1)
    given = {"alpha": 1.5, "beta": 1.2, "tmp": filled(NI, NJ), "A": A, "B": B, "C": C, "D": D}
    return as_dtype(given, real)


def two_mm_oracle(
    alpha: float, beta: float, tmp: Array, A: Array, B: Array, C: Array, D: Array
) -> Arguments:
    tmp = alpha * (A @ B)
    return {"tmp": tmp, "D": beta * D + tmp @ C}


# ---- 3mm: G = (A B) (C D) -----------------------------------------------------------------------


def three_mm(real: DType) -> Any:
    @weft.kernel
    def three_mm(
        E: real["NI", "NJ"],
        A: real["NI", "NK"],
        B: real["NK", "NJ"],
        F: real["NJ", "NL"],
        C: real["NJ", "NM"],
        D: real["NM", "NL"],
        G: real["NI", "NL"],
    ):
        for i in range(NI):
            for j in range(NJ):
                E[i, j] = 0.0
                for k in range(NK):
                    E[i, j] += A[i, k] * B[k, j]
        for i in range(NJ):
            for j in range(NL):
                F[i, j] = 0.0
                for k in range(NM):
                    F[i, j] += C[i, k] * D[k, j]
        for i in range(NI):
            for j in range(NL):
                G[i, j] = 0.0
                for k in range(NJ):
                    G[i, j] += E[i, k] * F[k, j]

    return three_mm


def three_mm_inputs(real: np.dtype[Any], NI: int, NJ: int, NK: int, NL: int, NM: int) -> Arguments:
    i, k = grid(NI, NK)
    A = ((i * k + 1) % NI) / (5 * NI)
    k, j = grid(NK, NJ)
    B = ((k * (j + 1) + 2) % NJ) / (5 * NJ)
    j, m = grid(NJ, NM)
    C = (j * (m + 3) % max(NL, 1)) / (5 * max(NL, 1))
    m, n = grid(NM, NL)
    D = ((m * (n + 2) + 2) % max(NK, 1)) / (5 * max(NK, 1))
    E, F, G = filled(NI, NJ), filled(NJ, NL), filled(NI, NL)
    return as_dtype({"E": E, "A": A, "B": B, "F": F, "C": C, "D": D, "G": G}, real)


def three_mm_oracle(A: Array, B: Array, C: Array, D: Array, **_: Array) -> Arguments:
    E, F = A @ B, C @ D
    return {"E": E, "F": F, "G": E @ F}


# ---- atax: y = A' (A x) -------------------------------------------------------------------------


def atax(real: DType) -> Any:
    @weft.kernel
    def atax(A: real["M", "N"], x: real["N"], y: real["N"], tmp: real["M"]):
        for i in range(N):
            y[i] = 0.0
        for i in range(M):
            tmp[i] = 0.0
            for j in range(N):
                tmp[i] = tmp[i] + A[i, j] * x[j]
            for j in range(N):
                y[j] = y[j] + A[i, j] * tmp[i]

    return atax


def atax_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(M, N)
    A = ((i + j) % N) / (5 * max(M, 1))
    x = 1 + np.arange(N) / max(N, 1)
    return as_dtype({"A": A, "x": x, "y": filled(N), "tmp": filled(M)}, real)


def atax_oracle(A: Array, x: Array, y: Array, tmp: Array) -> Arguments:
    return {"y": (A @ x) @ A, "tmp": A @ x}


# ---- bicg: s = A' r, q = A p --------------------------------------------------------------------


def bicg(real: DType) -> Any:
    @weft.kernel
    def bicg(A: real["N", "M"], s: real["M"], q: real["N"], p: real["M"], r: real["N"]):
        for i in range(M):
            s[i] = 0.0
        for i in range(N):
            q[i] = 0.0
            for j in range(M):
                s[j] = s[j] + r[i] * A[i, j]
                q[i] = q[i] + A[i, j] * p[j]

    return bicg


def bicg_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(N, M)
    A = (i * (j + 1) % N) / N
    p, r = (np.arange(M) % M) / M, (np.arange(N) % N) / N
    return as_dtype({"A": A, "s": filled(M), "q": filled(N), "p": p, "r": r}, real)


def bicg_oracle(A: Array, s: Array, q: Array, p: Array, r: Array) -> Arguments:
    return {"s": r @ A, "q": A @ p}


# ---- doitgen: A[r, q, :] = A[r, q, :] C4 --------------------------------------------------------


def doitgen(real: DType) -> Any:
    @weft.kernel
    def doitgen(A: real["NR", "NQ", "NP"], C4: real["NP", "NP"], sum: real["NP"]):
        for r in range(NR):
            for q in range(NQ):
                for p in range(NP):
                    sum[p] = 0.0
                    for s in range(NP):
                        sum[p] += A[r, q, s] * C4[s, p]
                for p in range(NP):
                    A[r, q, p] = sum[p]

    return doitgen


def doitgen_inputs(real: np.dtype[Any], NQ: int, NR: int, NP: int) -> Arguments:
    r, q, p = grid(NR, NQ, NP)
    A = ((r * q + p) % NP) / NP
    i, j = grid(NP, NP)
    return as_dtype({"A": A, "C4": (i * j % NP) / NP, "sum": filled(NP)}, real)


def doitgen_oracle(A: Array, C4: Array, sum: Array) -> Arguments:
    result = A @ C4
    rows = result.reshape(result.shape[0] * result.shape[1], result.shape[2])
    return {"A": result, "sum": rows[-1] if len(rows) else sum}


# ---- mvt: x1 += A y1, x2 += A' y2 ---------------------------------------------------------------


def mvt(real: DType) -> Any:
    @weft.kernel
    def mvt(x1: real["N"], x2: real["N"], y_1: real["N"], y_2: real["N"], A: real["N", "N"]):
        for i in range(N):
            for j in range(N):
                x1[i] = x1[i] + A[i, j] * y_1[j]
        for i in range(N):
            for j in range(N):
                x2[i] = x2[i] + A[j, i] * y_2[j]

    return mvt


def mvt_inputs(real: np.dtype[Any], N: int) -> Arguments:
    i, j = grid(N, N)
    k = np.arange(N)
    given = {
        "x1": (k % N) / N,
        "x2": ((k + 1) % N) / N,
        "y_1": ((k + 3) % N) / N,
        "y_2": ((k + 4) % N) / N,
        "A": broadcast((i * j % N) / N, N, N),
    }
    return as_dtype(given, real)


def mvt_oracle(x1: Array, x2: Array, y_1: Array, y_2: Array, A: Array) -> Arguments:
    return {"x1": x1 + A @ y_1, "x2": x2 + y_2 @ A}


_ATAX = ((38, 42), (116, 124), (390, 410), (1900, 2100), (1800, 2200))

BENCHMARKS = (
    Benchmark(
        "2mm", two_mm, two_mm_inputs, two_mm_oracle,
        lambda NI, NJ, NK, NL: 2.0 * NI * NJ * NK + 2.0 * NI * NJ * NL,
        ("NI", "NJ", "NK", "NL"),
        (
            (16, 18, 22, 24), (40, 50, 70, 80), (180, 190, 210, 220),
            (800, 900, 1100, 1200), (1600, 1800, 2200, 2400),
        ),
        matrix=True,
        regular=noisy(two_mm_inputs),
    ),
    Benchmark(
        "3mm", three_mm, three_mm_inputs, three_mm_oracle,
        lambda NI, NJ, NK, NL, NM: 2.0 * (NI * NJ * NK + NJ * NL * NM + NI * NL * NJ),
        ("NI", "NJ", "NK", "NL", "NM"),
        (
            (16, 18, 20, 22, 24), (40, 50, 60, 70, 80), (180, 190, 200, 210, 220),
            (800, 900, 1000, 1100, 1200), (1600, 1800, 2000, 2200, 2400),
        ),
        matrix=True,
        regular=noisy(three_mm_inputs),
    ),
    Benchmark(
        "atax", atax, atax_inputs, atax_oracle,
        lambda M, N: 4.0 * M * N,
        ("M", "N"), _ATAX,
        regular=noisy(atax_inputs),
    ),
    Benchmark(
        "bicg", bicg, bicg_inputs, bicg_oracle,
        lambda M, N: 4.0 * M * N,
        ("M", "N"), _ATAX,
        regular=noisy(bicg_inputs),
    ),
    Benchmark(
        "doitgen", doitgen, doitgen_inputs, doitgen_oracle,
        lambda NQ, NR, NP: 2.0 * NQ * NR * NP * NP,
        ("NQ", "NR", "NP"),
        ((8, 10, 12), (20, 25, 30), (40, 50, 60), (140, 150, 160), (220, 250, 270)),
        matrix=True,
        regular=noisy(doitgen_inputs),
    ),
    Benchmark(
        "mvt", mvt, mvt_inputs, mvt_oracle,
        lambda N: 4.0 * N * N,
        ("N",), ((40,), (120,), (400,), (2000,), (4000,)),
        regular=noisy(mvt_inputs),
    ),
)  # fmt: skip
