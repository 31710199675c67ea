"""PolyBench 4.2.1, stencils: adi, fdtd-2d, heat-3d, jacobi-1d, jacobi-2d, seidel-2d."""

# ruff: noqa: F821, B007
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

# ---- adi: alternating direction implicit heat equation ------------------------------------------


def adi(real: DType) -> Any:
    @weft.kernel
    def adi(
        tsteps: weft.i64,
        u: real["N", "N"],
        v: real["N", "N"],
        p: real["N", "N"],
        q: real["N", "N"],
    ):
        DX = real(1.0) / N
        DY = real(1.0) / N
        DT = real(1.0) / tsteps
        B1 = real(2.0)
        B2 = real(1.0)
        mul1 = B1 * DT / (DX * DX)
        mul2 = B2 * DT / (DY * DY)
        a = -mul1 / 2.0
        b = 1.0 + mul1
        c = a
        d = -mul2 / 2.0
        e = 1.0 + mul2
        f = d
        for t in range(1, tsteps + 1):
            for i in range(1, N - 1):
                v[0, i] = 1.0
                p[i, 0] = 0.0
                q[i, 0] = v[0, i]
                for j in range(1, N - 1):
                    p[i, j] = -c / (a * p[i, j - 1] + b)
                    q[i, j] = (
                        -d * u[j, i - 1]
                        + (1.0 + 2.0 * d) * u[j, i]
                        - f * u[j, i + 1]
                        - a * q[i, j - 1]
                    ) / (a * p[i, j - 1] + b)
                v[N - 1, i] = 1.0
                for j in range(N - 2, 0, -1):
                    v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
            for i in range(1, N - 1):
                u[i, 0] = 1.0
                p[i, 0] = 0.0
                q[i, 0] = u[i, 0]
                for j in range(1, N - 1):
                    p[i, j] = -f / (d * p[i, j - 1] + e)
                    q[i, j] = (
                        -a * v[i - 1, j]
                        + (1.0 + 2.0 * a) * v[i, j]
                        - c * v[i + 1, j]
                        - d * q[i, j - 1]
                    ) / (d * p[i, j - 1] + e)
                u[i, N - 1] = 1.0
                for j in range(N - 2, 0, -1):
                    u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]

    return adi


def adi_inputs(real: np.dtype[Any], TSTEPS: int, N: int) -> Arguments:
    i, j = grid(N, N)
    u = broadcast((i + N - j) / max(N, 1), N, N)
    given = {"tsteps": TSTEPS, "u": u, "v": filled(N, N), "p": filled(N, N), "q": filled(N, N)}
    return as_dtype(given, real)


def adi_oracle(tsteps: int, u: Array, v: Array, p: Array, q: Array) -> Arguments:
    u, v, p, q = (x.astype(np.float64) for x in (u, v, p, q))
    if len(u) > 2:
        for _ in range(tsteps):
            a, d = -(len(u) ** 2) / tsteps, -(len(u) ** 2) / tsteps / 2
            _sweep(u, v, p, q, (a, 1 - 2 * a, a), (d, d))
            _sweep(v.T, u.T, p, q, (d, 1 - 2 * d, d), (a, a))
    return {"u": u, "v": v, "p": p, "q": q}


def _sweep(
    given: Array, made: Array, p: Array, q: Array, own: tuple[float, ...], other: tuple[float, ...]
) -> None:
    """One half step: explicit along rows of ``given``, implicit along columns of ``made``."""
    n = len(given) - 1
    lower, middle, upper = own
    x, y = other
    lines = -x * given[:, :-2] + (1 + 2 * x) * given[:, 1:-1] - y * given[:, 2:]
    made[0, 1:n], made[n, 1:n], p[1:n, 0], q[1:n, 0] = 1.0, 1.0, 0.0, 1.0
    for j in range(1, n):
        below = lower * p[1:n, j - 1] + middle
        p[1:n, j] = -upper / below
        q[1:n, j] = (lines[j] - lower * q[1:n, j - 1]) / below
    for j in range(n - 1, 0, -1):
        made[j, 1:n] = p[1:n, j] * made[j + 1, 1:n] + q[1:n, j]


# ---- fdtd-2d: finite differences in time, two-dimensional ---------------------------------------


def fdtd_2d(real: DType) -> Any:
    @weft.kernel
    def fdtd_2d(
        tmax: weft.i64,
        ex: real["NX", "NY"],
        ey: real["NX", "NY"],
        hz: real["NX", "NY"],
        fict: real["TMAX"],
    ):
        for t in range(tmax):
            for j in range(NY):
                ey[0, j] = fict[t]
            for i in range(1, NX):
                for j in range(NY):
                    ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
            for i in range(NX):
                for j in range(1, NY):
                    ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
            for i in range(NX - 1):
                for j in range(NY - 1):
                    hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])

    return fdtd_2d


def fdtd_2d_inputs(real: np.dtype[Any], TMAX: int, NX: int, NY: int) -> Arguments:
    i, j = grid(NX, NY)
    given = {
        "tmax": TMAX,
        "ex": (i * (j + 1)) / max(NX, 1),
        "ey": (i * (j + 2)) / max(NY, 1),
        "hz": (i * (j + 3)) / max(NX, 1),
        "fict": np.arange(TMAX) + 0.0,
    }
    return as_dtype(given, real)


def fdtd_2d_oracle(tmax: int, ex: Array, ey: Array, hz: Array, fict: Array) -> Arguments:
    ex, ey, hz = (x.astype(np.float64) for x in (ex, ey, hz))
    for t in range(tmax):
        ey[0, :] = fict[t]
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


# ---- heat-3d: the heat equation over a cube -----------------------------------------------------


def heat_3d(real: DType) -> Any:
    @weft.kernel
    def heat_3d(tsteps: weft.i64, A: real["N", "N", "N"], B: real["N", "N", "N"]):
        for t in range(1, tsteps + 1):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    for k in range(1, N - 1):
                        B[i, j, k] = (
                            0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                            + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                            + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                            + A[i, j, k]
                        )
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    for k in range(1, N - 1):
                        A[i, j, k] = (
                            0.125 * (B[i + 1, j, k] - 2.0 * B[i, j, k] + B[i - 1, j, k])
                            + 0.125 * (B[i, j + 1, k] - 2.0 * B[i, j, k] + B[i, j - 1, k])
                            + 0.125 * (B[i, j, k + 1] - 2.0 * B[i, j, k] + B[i, j, k - 1])
                            + B[i, j, k]
                        )

    return heat_3d


def heat_3d_inputs(real: np.dtype[Any], TSTEPS: int, N: int) -> Arguments:
    i, j, k = grid(N, N, N)
    A = (i + j + (N - k)) * 10.0 / max(N, 1)
    return as_dtype({"tsteps": TSTEPS, "A": A, "B": A.copy()}, real)


def heat_3d_oracle(tsteps: int, A: Array, B: Array) -> Arguments:
    A, B = A.astype(np.float64), B.astype(np.float64)
    inner = (slice(1, -1),) * 3
    for _ in range(tsteps if len(A) > 2 else 0):
        for x, y in ((A, B), (B, A)):
            second = (
                np.diff(x, 2, axis=0)[:, 1:-1, 1:-1]
                + np.diff(x, 2, axis=1)[1:-1, :, 1:-1]
                + np.diff(x, 2, axis=2)[1:-1, 1:-1]
            )
            y[inner] = 0.125 * second + x[inner]
    return {"A": A, "B": B}


# ---- jacobi-1d: mean of three neighbours --------------------------------------------------------


def jacobi_1d(real: DType) -> Any:
    @weft.kernel
    def jacobi_1d(tsteps: weft.i64, A: real["N"], B: real["N"]):
        for t in range(tsteps):
            for i in range(1, N - 1):
                B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
            for i in range(1, N - 1):
                A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])

    return jacobi_1d


def jacobi_1d_inputs(real: np.dtype[Any], TSTEPS: int, N: int) -> Arguments:
    i = np.arange(N)
    given = {"tsteps": TSTEPS, "A": (i + 2.0) / max(N, 1), "B": (i + 3.0) / max(N, 1)}
    return as_dtype(given, real)


def jacobi_1d_oracle(tsteps: int, A: Array, B: Array) -> Arguments:
    A, B = A.astype(np.float64), B.astype(np.float64)
    for _ in range(tsteps if len(A) > 2 else 0):
        for x, y in ((A, B), (B, A)):
            y[1:-1] = 0.33333 * (x[:-2] + x[1:-1] + x[2:])
    return {"A": A, "B": B}


# ---- jacobi-2d: mean of five neighbours ---------------------------------------------------------


def jacobi_2d(real: DType) -> Any:
    @weft.kernel
    def jacobi_2d(tsteps: weft.i64, A: real["N", "N"], B: real["N", "N"]):
        for t in range(tsteps):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    B[i, j] = 0.2 * (
                        A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j]
                    )
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    A[i, j] = 0.2 * (
                        B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j]
                    )

    return jacobi_2d


def jacobi_2d_inputs(real: np.dtype[Any], TSTEPS: int, N: int) -> Arguments:
    i, j = grid(N, N)
    A, B = (i * (j + 2) + 2) / max(N, 1), (i * (j + 3) + 3) / max(N, 1)
    return as_dtype({"tsteps": TSTEPS, "A": A, "B": B}, real)


def jacobi_2d_oracle(tsteps: int, A: Array, B: Array) -> Arguments:
    A, B = A.astype(np.float64), B.astype(np.float64)
    for _ in range(tsteps if len(A) > 2 else 0):
        for x, y in ((A, B), (B, A)):
            across = x[1:-1, :-2] + x[1:-1, 1:-1] + x[1:-1, 2:]
            y[1:-1, 1:-1] = 0.2 * (across + x[:-2, 1:-1] + x[2:, 1:-1])
    return {"A": A, "B": B}


# ---- seidel-2d: mean of nine neighbours, in place -----------------------------------------------


def seidel_2d(real: DType) -> Any:
    @weft.kernel
    def seidel_2d(tsteps: weft.i64, A: real["N", "N"]):
        for t in range(tsteps):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    A[i, j] = (
                        A[i - 1, j - 1]
                        + A[i - 1, j]
                        + A[i - 1, j + 1]
                        + A[i, j - 1]
                        + A[i, j]
                        + A[i, j + 1]
                        + A[i + 1, j - 1]
                        + A[i + 1, j]
                        + A[i + 1, j + 1]
                    ) / 9.0

    return seidel_2d


def seidel_2d_inputs(real: np.dtype[Any], TSTEPS: int, N: int) -> Arguments:
    i, j = grid(N, N)
    return as_dtype({"tsteps": TSTEPS, "A": (i * (j + 2) + 2) / max(N, 1)}, real)


def seidel_2d_oracle(tsteps: int, A: Array) -> Arguments:
    A = A.astype(np.float64)
    n = len(A) - 2
    if n < 1:
        return {"A": A}
    # Along a row, y[j] = (y[j - 1] + c[j]) / 9: a geometric series that float64 ends after 18.
    decay = 9.0 ** -np.arange(n + 1.0)
    for _ in range(tsteps):
        for i in range(1, n + 1):
            c = A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 1:-1] + A[i, 2:]
            c += A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            series = np.convolve(c / 9.0, decay[:24])[:n]
            A[i, 1:-1] = series + A[i, 0] * decay[1:]
    return {"A": A}


_DENSE = ((20, 30), (40, 90), (100, 250), (500, 1300), (1000, 2800))

BENCHMARKS = (
    Benchmark(
        "adi", adi, adi_inputs, adi_oracle,
        lambda TSTEPS, N: 30.0 * TSTEPS * N * N,
        ("TSTEPS", "N"), ((20, 20), (40, 60), (100, 200), (500, 1000), (1000, 2000)),
        regular=noisy(adi_inputs),
    ),
    Benchmark(
        "fdtd-2d", fdtd_2d, fdtd_2d_inputs, fdtd_2d_oracle,
        lambda TMAX, NX, NY: 11.0 * TMAX * NX * NY,
        ("TMAX", "NX", "NY"),
        ((20, 20, 30), (40, 60, 80), (100, 200, 240), (500, 1000, 1200), (1000, 2000, 2600)),
        regular=noisy(fdtd_2d_inputs),
    ),
    Benchmark(
        "heat-3d", heat_3d, heat_3d_inputs, heat_3d_oracle,
        lambda TSTEPS, N: 30.0 * TSTEPS * N**3,
        ("TSTEPS", "N"), ((20, 10), (40, 20), (100, 40), (500, 120), (1000, 200)),
        regular=noisy(heat_3d_inputs),
    ),
    Benchmark(
        "jacobi-1d", jacobi_1d, jacobi_1d_inputs, jacobi_1d_oracle,
        lambda TSTEPS, N: 6.0 * TSTEPS * N,
        ("TSTEPS", "N"), ((20, 30), (40, 120), (100, 400), (500, 2000), (1000, 4000)),
        regular=noisy(jacobi_1d_inputs),
    ),
    Benchmark(
        "jacobi-2d", jacobi_2d, jacobi_2d_inputs, jacobi_2d_oracle,
        lambda TSTEPS, N: 10.0 * TSTEPS * N * N,
        ("TSTEPS", "N"), _DENSE,
        regular=noisy(jacobi_2d_inputs),
    ),
    Benchmark(
        "seidel-2d", seidel_2d, seidel_2d_inputs, seidel_2d_oracle,
        lambda TSTEPS, N: 9.0 * TSTEPS * N * N,
        ("TSTEPS", "N"), ((20, 40), (40, 120), (100, 400), (500, 2000), (1000, 4000)),
        regular=noisy(seidel_2d_inputs),
    ),
)  # fmt: skip
