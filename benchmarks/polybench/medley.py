"""PolyBench 4.2.1, medley: deriche, floyd-warshall, nussinov."""

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
    noisy,
)
from weft.ir.dtypes import DType

# ---- deriche: recursive edge detection, four sweeps over an image -------------------------------


def deriche(real: DType) -> Any:
    @weft.kernel
    def deriche(
        alpha: real,
        imgIn: real["W", "H"],
        imgOut: real["W", "H"],
        y1: real["W", "H"],
        y2: real["W", "H"],
    ):
        k = (
            (1.0 - math.exp(-alpha))
            * (1.0 - math.exp(-alpha))
            / (1.0 + 2.0 * alpha * math.exp(-alpha) - math.exp(2.0 * alpha))
        )
        a1 = k
        a5 = k
        a2 = k * math.exp(-alpha) * (alpha - 1.0)
        a6 = a2
        a3 = k * math.exp(-alpha) * (alpha + 1.0)
        a7 = a3
        a4 = -k * math.exp(-2.0 * alpha)
        a8 = a4
        b1 = 2.0 ** (-alpha)
        b2 = -math.exp(-2.0 * alpha)
        c1 = 1.0
        c2 = 1.0
        for i in range(W):
            ym1 = 0.0
            ym2 = 0.0
            xm1 = 0.0
            for j in range(H):
                y1[i, j] = a1 * imgIn[i, j] + a2 * xm1 + b1 * ym1 + b2 * ym2
                xm1 = imgIn[i, j]
                ym2 = ym1
                ym1 = y1[i, j]
        for i in range(W):
            yp1 = 0.0
            yp2 = 0.0
            xp1 = 0.0
            xp2 = 0.0
            for j in range(H - 1, -1, -1):
                y2[i, j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2
                xp2 = xp1
                xp1 = imgIn[i, j]
                yp2 = yp1
                yp1 = y2[i, j]
        for i in range(W):
            for j in range(H):
                imgOut[i, j] = c1 * (y1[i, j] + y2[i, j])
        for j in range(H):
            tm1 = 0.0
            ym1 = 0.0
            ym2 = 0.0
            for i in range(W):
                y1[i, j] = a5 * imgOut[i, j] + a6 * tm1 + b1 * ym1 + b2 * ym2
                tm1 = imgOut[i, j]
                ym2 = ym1
                ym1 = y1[i, j]
        for j in range(H):
            tp1 = 0.0
            tp2 = 0.0
            yp1 = 0.0
            yp2 = 0.0
            for i in range(W - 1, -1, -1):
                y2[i, j] = a7 * tp1 + a8 * tp2 + b1 * yp1 + b2 * yp2
                tp2 = tp1
                tp1 = imgOut[i, j]
                yp2 = yp1
                yp1 = y2[i, j]
        for i in range(W):
            for j in range(H):
                imgOut[i, j] = c2 * (y1[i, j] + y2[i, j])

    return deriche


def deriche_inputs(real: np.dtype[Any], W: int, H: int) -> Arguments:
    i, j = grid(W, H)
    given = {
        "alpha": 0.25,
        "imgIn": ((313 * i + 991 * j) % 65536) / 65535.0,
        "imgOut": filled(W, H),
        "y1": filled(W, H),
        "y2": filled(W, H),
    }
    return as_dtype(given, real)


def deriche_oracle(alpha: float, imgIn: Array, imgOut: Array, y1: Array, y2: Array) -> Arguments:
    e = math.exp(-alpha)
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - math.exp(2 * alpha))
    ahead = (k, k * e * (alpha - 1))
    behind = (k * e * (alpha + 1), -k * math.exp(-2 * alpha))
    back = (2.0**-alpha, -math.exp(-2 * alpha))
    image = imgIn.astype(np.float64)
    # Filter along the last axis, then transposed along the other.
    y1, y2 = _forward(image.T, ahead, back).T, _backward(image.T, behind, back).T
    image = y1 + y2
    y1, y2 = _forward(image, ahead, back), _backward(image, behind, back)
    return {"imgOut": y1 + y2, "y1": y1, "y2": y2}


def _forward(x: Array, a: tuple[float, float], b: tuple[float, float]) -> Array:
    """y[t] = a0 x[t] + a1 x[t-1] + b0 y[t-1] + b1 y[t-2] along the first axis."""
    y = np.zeros((len(x) + 2, x.shape[1]))
    x = np.concatenate([np.zeros((1, x.shape[1])), x])
    for t in range(len(x) - 1):
        y[t + 2] = a[0] * x[t + 1] + a[1] * x[t] + b[0] * y[t + 1] + b[1] * y[t]
    return y[2:]


def _backward(x: Array, a: tuple[float, float], b: tuple[float, float]) -> Array:
    """y[t] = a0 x[t+1] + a1 x[t+2] + b0 y[t+1] + b1 y[t+2] along the first axis."""
    y = np.zeros((len(x) + 2, x.shape[1]))
    x = np.concatenate([x, np.zeros((2, x.shape[1]))])
    for t in reversed(range(len(x) - 2)):
        y[t] = a[0] * x[t + 1] + a[1] * x[t + 2] + b[0] * y[t + 1] + b[1] * y[t + 2]
    return y[:-2]


# ---- floyd-warshall: all shortest paths ---------------------------------------------------------


def floyd_warshall(whole: DType) -> Any:
    @weft.kernel
    def floyd_warshall(path: whole["N", "N"]):
        for k in range(N):
            for i in range(N):
                for j in range(N):
                    path[i, j] = min(path[i, j], path[i, k] + path[k, j])

    return floyd_warshall


def floyd_warshall_inputs(whole: np.dtype[Any], N: int) -> Arguments:
    i, j = grid(N, N)
    far = ((i + j) % 13 == 0) | ((i + j) % 7 == 0) | ((i + j) % 11 == 0)
    return {"path": np.where(far, 999, i * j % 7 + 1).astype(whole)}


def floyd_warshall_random(whole: np.dtype[Any], N: int) -> Arguments:
    return {"path": np.random.default_rng(N).integers(1, 1000, (N, N)).astype(whole)}


def floyd_warshall_oracle(path: Array) -> Arguments:
    path = path.copy()
    for k in range(len(path)):
        np.minimum(path, path[:, k, None] + path[None, k], out=path)
    return {"path": path}


# ---- nussinov: the secondary structure of an RNA ------------------------------------------------


def nussinov(whole: DType) -> Any:
    @weft.kernel
    def nussinov(seq: whole["N"], table: whole["N", "N"]):
        for i in range(N - 1, -1, -1):
            for j in range(i + 1, N):
                if j - 1 >= 0:
                    table[i, j] = max(table[i, j], table[i, j - 1])
                if i + 1 < N:
                    table[i, j] = max(table[i, j], table[i + 1, j])
                if j - 1 >= 0 and i + 1 < N:
                    if i < j - 1:
                        table[i, j] = max(
                            table[i, j], table[i + 1, j - 1] + (1 if seq[i] + seq[j] == 3 else 0)
                        )
                    else:
                        table[i, j] = max(table[i, j], table[i + 1, j - 1])
                for k in range(i + 1, j):
                    table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])

    return nussinov


def nussinov_inputs(whole: np.dtype[Any], N: int) -> Arguments:
    return {"seq": ((np.arange(N) + 1) % 4).astype(whole), "table": np.zeros((N, N), whole)}


def nussinov_random(whole: np.dtype[Any], N: int) -> Arguments:
    random = np.random.default_rng(N)
    table = random.integers(0, 3, (N, N)).astype(whole)
    return {"seq": random.integers(0, 4, N).astype(whole), "table": table}


def nussinov_oracle(seq: Array, table: Array) -> Arguments:
    table = table.copy()
    n = len(seq)
    bond = (seq[:, None] + seq[None, :] == 3).astype(table.dtype)
    for i in reversed(range(n - 1)):
        row = table[i]  # is final up to where k stands
        np.maximum(row[i + 1 :], table[i + 1, i + 1 :], out=row[i + 1 :])
        row[i + 1] = max(row[i + 1], table[i + 1, i])
        np.maximum(row[i + 2 :], table[i + 1, i + 1 : -1] + bond[i, i + 2 :], out=row[i + 2 :])
        row[i + 1] = max(row[i + 1], row[i])
        for k in range(i + 1, n - 1):
            row[k + 1] = max(row[k + 1], row[k])
            np.maximum(row[k + 1 :], row[k] + table[k + 1, k + 1 :], out=row[k + 1 :])
    return {"table": table}


BENCHMARKS = (
    Benchmark(
        "deriche", deriche, deriche_inputs, deriche_oracle,
        lambda W, H: 32.0 * W * H,
        ("W", "H"), ((64, 64), (192, 128), (720, 480), (4096, 2160), (7680, 4320)),
        dtype="float32", regular=noisy(deriche_inputs),
    ),
    Benchmark(
        "floyd-warshall", floyd_warshall, floyd_warshall_inputs, floyd_warshall_oracle,
        lambda N: 2.0 * N**3,
        ("N",), ((60,), (180,), (500,), (2800,), (5600,)),
        dtype="int32", regular=floyd_warshall_random,
    ),
    Benchmark(
        "nussinov", nussinov, nussinov_inputs, nussinov_oracle,
        lambda N: N**3 / 3.0,
        ("N",), ((60,), (180,), (500,), (2500,), (5500,)),
        dtype="int32", regular=nussinov_random,
    ),
)  # fmt: skip
