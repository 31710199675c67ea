"""Products, contractions, and kernels that call kernels."""

# ruff: noqa: B007, F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import math

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import (
    Program,
    dominant,
    float32,
    floats,
    whole,
    zeros32,
)


@weft.kernel
def syrk_upper(A: weft.f64["N", "K"], C: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i, N):
            for k in range(K):
                C[i, j] += A[i, k] * A[j, k]


@weft.kernel
def syrk_transposed(A: weft.f64["K", "N"], C: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i, N):
            C[i, j] = 0.0
            for k in range(K):
                C[i, j] += A[k, i] * A[k, j]
            C[j, i] = C[i, j]


@weft.kernel
def batched_matmul(
    A: weft.f32["B", "N", "K"], X: weft.f32["B", "K", "M"], Y: weft.f32["B", "N", "M"]
):
    for b in range(B):
        for i in range(N):
            for j in range(M):
                Y[b, i, j] = 0.0
                for k in range(K):
                    Y[b, i, j] += A[b, i, k] * X[b, k, j]


@weft.kernel
def matmul_scalar_sum(A: weft.f64["N", "K"], X: weft.f64["K", "M"], Y: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            s = 0.0
            for k in range(K):
                s += A[i, k] * X[k, j]
            Y[i, j] = s


@weft.kernel
def matmul_both_transposed(A: weft.f64["K", "N"], X: weft.f64["M", "K"], Y: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                Y[i, j] += A[k, i] * X[j, k]


@weft.kernel
def matmul_i32(A: weft.i32["N", "K"], X: weft.i32["K", "M"], Y: weft.i32["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                Y[i, j] += A[i, k] * X[k, j]


@weft.kernel
def matmul_u8(A: weft.u8["N", "K"], X: weft.i8["K", "M"], Y: weft.i32["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                Y[i, j] += weft.i32(A[i, k]) * weft.i32(X[k, j])


@weft.kernel
def matmul_f32_in_f64(A: weft.f32["N", "K"], X: weft.f32["K", "M"], Y: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            for k in range(K):
                Y[i, j] += weft.f64(A[i, k]) * weft.f64(X[k, j])


@weft.kernel
def complex_matmul(
    Ar: weft.f64["N", "K"], Ai: weft.f64["N", "K"], Br: weft.f64["K", "M"], Bi: weft.f64["K", "M"],
    Cr: weft.f64["N", "M"], Ci: weft.f64["N", "M"],
):  # fmt: skip
    for i in range(N):
        for j in range(M):
            for k in range(K):
                Cr[i, j] += Ar[i, k] * Br[k, j] - Ai[i, k] * Bi[k, j]
                Ci[i, j] += Ar[i, k] * Bi[k, j] + Ai[i, k] * Br[k, j]


@weft.kernel
def contraction(
    A: weft.f64["N", "N", "N", "N"],
    B: weft.f64["N", "N", "N", "N"],
    C: weft.f64["N", "N", "N", "N"],
):
    for a in range(N):
        for b in range(N):
            for c in range(N):
                for d in range(N):
                    for e in range(N):
                        for f in range(N):
                            C[a, b, c, d] += A[a, e, b, f] * B[d, f, c, e]


@weft.kernel
def four_index(A: weft.f64["N", "N", "N"], X: weft.f64["N", "N"], B: weft.f64["N", "N", "N"]):
    for i in range(N):
        for j in range(N):
            for k in range(N):
                B[i, j, k] = 0.0
                for p in range(N):
                    B[i, j, k] += X[p, j] * A[i, p, k]


@weft.kernel
def matvec(A: weft.f64["P", "Q"], x: weft.f64["Q"], y: weft.f64["P"]):
    for i in range(P):
        y[i] = 0.0
        for j in range(Q):
            y[i] += A[i, j] * x[j]


@weft.kernel
def dot(x: weft.f64["Q"], y: weft.f64["Q"], out: weft.f64[1]):
    out[0] = 0.0
    for i in range(Q):
        out[0] += x[i] * y[i]


@weft.kernel
def conjugate_gradients(
    steps: int, A: weft.f64["N", "N"], b: weft.f64["N"], x: weft.f64["N"], r: weft.f64["N"]
):
    p = weft.empty((N,), weft.f64)
    Ap = weft.empty((N,), weft.f64)
    rr = weft.zeros((1,), weft.f64)
    pAp = weft.zeros((1,), weft.f64)
    for i in range(N):
        x[i] = 0.0
        r[i] = b[i]
        p[i] = b[i]
    for t in range(steps):
        dot(r, r, rr)
        matvec(A, p, Ap)
        dot(p, Ap, pAp)
        alpha = rr[0] / (pAp[0] + 1e-300)
        before = rr[0]
        for i in range(N):
            x[i] += alpha * p[i]
            r[i] -= alpha * Ap[i]
        dot(r, r, rr)
        beta = rr[0] / (before + 1e-300)
        for i in range(N):
            p[i] = r[i] + beta * p[i]


@weft.kernel
def power_iteration(steps: int, A: weft.f64["N", "N"], x: weft.f64["N"]):
    y = weft.empty((N,), weft.f64)
    for t in range(steps):
        matvec(A, x, y)
        s = 0.0
        for i in range(N):
            s += y[i] * y[i]
        for i in range(N):
            x[i] = y[i] / math.sqrt(s)


@weft.kernel
def statistics(x: weft.f64["N", "M"], mean: weft.f64["M"], low: weft.f64["M"], high: weft.f64["M"]):
    for j in range(M):
        mean[j] = 0.0
        low[j] = x[0, j]
        high[j] = x[0, j]
    for i in range(N):
        for j in range(M):
            mean[j] += x[i, j] / N
            low[j] = min(low[j], x[i, j])
            high[j] = max(high[j], x[i, j])


@weft.kernel
def distances(
    x: weft.f64["N", "D"], c: weft.f64["K", "D"], best: weft.f64["N"], who: weft.i32["N"]
):
    for i in range(N):
        best[i] = 1e300
        who[i] = -1
        for k in range(K):
            s = 0.0
            for d in range(D):
                s += (x[i, d] - c[k, d]) * (x[i, d] - c[k, d])
            if s < best[i]:
                best[i] = s
                who[i] = k


@weft.kernel
def mixed(a: weft.u8["N"], b: weft.i32["N"], c: weft.f32["N"], d: weft.f64["N"], e: weft.i64["N"]):
    for i in range(N):
        e[i] = weft.i64(a[i]) * weft.i64(b[i])
        d[i] = weft.f64(c[i]) + weft.f64(e[i])
        a[i] = a[i] ^ 85
        b[i] = b[i] // 3 + b[i] % 7


@weft.kernel
def triple_product(A: weft.f64["N", "N"], B: weft.f64["N", "N"], C: weft.f64["N", "N"]):
    """C = A B Aᵀ."""
    t = weft.zeros((N, N), weft.f64)
    for i in range(N):
        for j in range(N):
            for k in range(N):
                t[i, j] += A[i, k] * B[k, j]
    for i in range(N):
        for j in range(N):
            C[i, j] = 0.0
            for k in range(N):
                C[i, j] += t[i, k] * A[j, k]


@weft.kernel
def kronecker(A: weft.f64["N", "N"], B: weft.f64[5, 5], C: weft.f64["5 * N", "5 * N"]):
    for i in range(N):
        for j in range(N):
            for k in range(5):
                for m in range(5):
                    C[5 * i + k, 5 * j + m] = A[i, j] * B[k, m]


@weft.kernel
def blocked_by_hand(A: weft.f64["N", "N"], B: weft.f64["N", "N"], C: weft.f64["N", "N"]):
    for it in range(0, N, 32):
        for kt in range(0, N, 32):
            for i in range(it, min(it + 32, N)):
                for k in range(kt, min(kt + 32, N)):
                    for j in range(N):
                        C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def trmm_right(A: weft.f64["N", "N"], B: weft.f64["M", "N"]):
    for i in range(M):
        for j in range(N - 1, -1, -1):
            B[i, j] = A[j, j] * B[i, j]
            for k in range(j):
                B[i, j] += B[i, k] * A[k, j]


@weft.kernel
def symv(A: weft.f64["N", "N"], x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N):
        for j in range(i):
            y[i] += A[i, j] * x[j]
            y[j] += A[i, j] * x[i]
        y[i] += A[i, i] * x[i]


def _i32(n: int, *shape: int) -> np.ndarray:
    return whole(n, -99, 99, *shape, dtype=np.int32)


def _product(n: int, dtype, into=None) -> tuple[np.ndarray, ...]:
    a, x = floats(n, n, n + 1).astype(dtype), floats(n + 1, n + 1, n + 2).astype(dtype)
    return a, x, np.ones((n, n + 2), into or dtype)


TENSORS = {
    "syrk_upper": Program(syrk_upper, lambda n: (floats(n, n, n + 1), floats(n, n, n)), 800),
    "syrk_transposed": Program(
        syrk_transposed, lambda n: (floats(n, n + 1, n), floats(n, n, n)), 800
    ),
    "batched_matmul": Program(
        batched_matmul,
        lambda n: (float32(n, 6, n, n + 1), float32(n, 6, n + 1, n), zeros32(6, n, n)),
        250,
    ),
    "matmul_scalar_sum": Program(matmul_scalar_sum, lambda n: _product(n, np.float64), 600),
    "matmul_both_transposed": Program(
        matmul_both_transposed,
        lambda n: (floats(n, n + 1, n), floats(n, n + 2, n + 1), np.ones((n, n + 2))),
        500,
    ),
    "matmul_i32": Program(
        matmul_i32, lambda n: (_i32(n, n, n + 1), _i32(n, n + 1, n), _i32(n, n, n)), 600
    ),
    "matmul_u8": Program(
        matmul_u8,
        lambda n: (
            whole(n, 0, 256, n, n + 1, dtype=np.uint8),
            whole(n, -128, 128, n + 1, n, dtype=np.int8),
            _i32(n, n, n),
        ),
        600,
    ),
    "matmul_f32_in_f64": Program(
        matmul_f32_in_f64, lambda n: _product(n, np.float32, np.float64), 500
    ),
    "complex_matmul": Program(
        complex_matmul,
        lambda n: (
            *(floats(n + i, n, n + 1) for i in (0, 1)),
            *(floats(n + i, n + 1, n + 2) for i in (2, 3)),
            *(floats(n + i, n, n + 2) for i in (4, 5)),
        ),
        400,
    ),
    "contraction": Program(
        contraction, lambda n: tuple(floats(n + i, n, n, n, n) for i in range(3)), 20
    ),
    "four_index": Program(
        four_index, lambda n: (floats(n, n, n, n), floats(n, n, n), floats(n, n, n, n)), 120
    ),
    "conjugate_gradients": Program(
        conjugate_gradients,
        lambda n: (3, dominant(n), floats(n, n), np.ones(n), np.ones(n)),
        2000,
    ),
    "power_iteration": Program(
        power_iteration, lambda n: (4, dominant(n), floats(n, n) + 2.0), 2000
    ),
    "statistics": Program(
        statistics, lambda n: (floats(n, n + 1, n), *(np.zeros(n) for _ in range(3))), 3000
    ),
    "distances": Program(
        distances,
        lambda n: (floats(n, n, 8), floats(n, 20, 8), np.zeros(n), np.zeros(n, np.int32)),
        50_000,
    ),
    "mixed": Program(
        mixed,
        lambda n: (
            whole(n, 0, 256, n, dtype=np.uint8), _i32(n, n), float32(n, n),
            np.zeros(n), np.zeros(n, np.int64),
        ),
        3_000_000,
    ),
    "triple_product": Program(
        triple_product, lambda n: (floats(n, n, n), floats(n, n, n), np.zeros((n, n))), 500
    ),
    "kronecker": Program(
        kronecker, lambda n: (floats(n, n, n), floats(n, 5, 5), np.zeros((5 * n, 5 * n))), 400
    ),
    "blocked_by_hand": Program(
        blocked_by_hand, lambda n: tuple(floats(n + i, n, n) for i in range(3)), 600
    ),
    "trmm_right": Program(
        trmm_right, lambda n: (floats(n, n, n), floats(n, n // 2 + 1, n)), 700
    ),
    "symv": Program(symv, lambda n: (floats(n, n, n), floats(n, n), np.zeros(n)), 4000),
}  # fmt: skip
