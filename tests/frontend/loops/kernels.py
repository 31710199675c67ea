"""Loop kernels that use every part of the language, each with data for a size.

Sizes of signatures are names of the function's body, which linters do not know.
"""

# ruff: noqa: B007, F821, F841

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

Arguments = list[Any]
COEFFICIENT = 0.25
BAND = 2


@weft.kernel
def lu(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, N):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def cholesky(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in range(i):
            A[i, i] -= A[i, k] * A[i, k]
        A[i, i] = math.sqrt(A[i, i])


@weft.kernel
def trisolv(L: weft.f64["N", "N"], x: weft.f64["N"], b: weft.f64["N"]):
    for i in range(N):
        x[i] = b[i]
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]


@weft.kernel
def jacobi(steps: int, A: weft.f64["N", "N"], B: weft.f64["N", "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i - 1, j] + A[i + 1, j])
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = B[i, j]


@weft.kernel
def seidel(steps: weft.i64, A: weft.f32["N", "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                A[i, j] = (
                    A[i - 1, j - 1]
                    + A[i - 1, j]
                    + A[i, j - 1]
                    + A[i, j]
                    + A[i, j + 1]
                    + A[i + 1, j]
                ) / 6


@weft.kernel
def floyd_warshall(path: weft.i32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@weft.kernel
def nussinov(seq: weft.i64["N"], table: weft.i64["N", "N"]):
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < N:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < N:
                if i < j - 1:
                    bond = 1 if seq[i] + seq[j] == 3 else 0
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + bond)
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])


@weft.kernel
def strides(x: weft.i64["N"], y: weft.i64["N"]):
    """Steps, descending loops, bounds with // and %, min and max."""
    for i in range(0, N, 3):
        y[i] += 1
    for i in range(N - 1, -1, -1):
        x[i] = x[i] * 2 + (x[i + 1] if i + 1 < N else 7)
    for i in range(N - 2, N // 3, -2):
        y[i] -= x[i // 2] + i % 3
    for i in range(min(3, N), max(N - 2, N // 2)):
        y[i] ^= x[i - 3]
    for i in range(max(N // 2, N - 4), N % 5, 1):
        y[i] = -y[i]
    for i in range(min(N - 1, 6), max(0, N - 9) - 1, -1):
        y[i] = y[i] * 3 - i
    for i in range(min(N // 2, 5), N, 4):
        y[i] = 1000 + i


@weft.kernel
def cases(A: weft.i32["N", "M"], count: weft.i32[8]):
    """Conditions on indices: and, or, not, chains, elif, else, != and ==, of min and max."""
    for i in range(N):
        for j in range(M):
            if i == 0 or j == 0:
                count[0] += 1
            elif not (1 < i <= j < 5):
                count[1] += A[i, j]
            elif i != j:
                count[2] -= A[j - 1, i] if j - 1 < N and i < M else 2
            else:
                count[3] = count[3] * 3 + A[i, j]
            if (i + j) % 3 == 1 and (i // 2 != j or i == 4):
                count[4] += i * j
            if min(i, j) > 1 and abs(i - j) <= 1:
                count[5] ^= A[i, j]
            if (N > 3 and M > 2) or i > j:
                count[6] += 1
            if i != 1 and j != i + 3 and i != 5 and j != 2 and i != 6 and j != 4:
                A[i, j] -= A[i - 1, j] if i > 0 else j
            if True:
                count[7] |= A[i, j] & 12


@weft.kernel
def scalars(x: weft.f64["N"], y: weft.f64["N"], alpha: weft.f64, n: int):
    """Local variables: numbers, index arithmetic, accumulators, carried from iteration to
    iteration; several targets and tuples."""
    total = 0.0
    largest = -math.inf
    count = 0
    for i in range(N):
        last = N - 1 - i
        value = alpha * x[i]
        total += value
        largest = max(value, largest, x[last])
        if i > 0:
            y[i] += before
        before = value * COEFFICIENT
        count += 1
        y[last], y[i] = y[i], y[last] + n
    half = N // 2
    if N > 0:
        y[half] = total
        x[0] = x[N - 1] = largest + count
    mean = total / (N + 1)
    for i in range(half):
        y[i] -= mean


@weft.kernel
def data(x: weft.f64["N"], y: weft.f64["N"], where: weft.i32["N"], bins: weft.i64["M"]):
    """Subscripts and conditions that depend on data."""
    for i in range(N):
        if x[i] > 0:
            y[where[i]] = x[i]
        else:
            x[i] = -x[i]
            y[i] -= 1
        if (i > 0 and y[i - 1] > y[i]) or x[i] != x[i]:
            y[i] += x[where[i]]
            bins[where[i] % 3] += 1
    found = False
    for i in range(N):
        found = found or x[i] > 2
    if found:
        for j in range(N):
            y[j] = min(y[j], 1.5)


@weft.kernel
def functions(x: weft.f64["N"], y: weft.f64["N"], k: weft.i32["N"]):
    for i in range(N):
        y[i] = math.exp(-abs(x[i])) + np.sqrt(x[i] ** 2 + 1) - math.atan2(x[i], 2)
        y[i] += np.where(x[i] > 0.5, math.sin(x[i]), np.cos(x[i]))
        y[i] = y[i] if not math.isnan(y[i]) else weft.f64(i)
        k[i] = weft.i32(int(y[i] * 10)) // 3 + k[i] % 4 - k[i] * weft.i32(len(x))


@weft.kernel
def matvec(A: weft.f64["P", "Q"], x: weft.f64["Q"], out: weft.f64["P"], scale: weft.f64):
    for i in range(P):
        out[i] = 0.0
        for j in range(Q):
            out[i] += scale * A[i, j] * x[j]


@weft.kernel
def shift(row: weft.f64["K"]):
    for i in range(1, K):
        row[i - 1] = row[i]


@weft.kernel
def calls(A: weft.f64["N", "N"], B: weft.f64["N", "N", "N"]):
    """Kernels in kernels, on whole arrays, rows, columns and slices; local arrays."""
    tmp = weft.zeros((N, 2), weft.f64)
    v = np.ones(N)
    for i in range(N):
        matvec(B[i], A[i], tmp[:, 0], 2)
        matvec(B[:, i, :], v, tmp[:, 1], A[i, i])
        for j in range(N):
            A[i, j] = tmp[j, 0] - tmp[j, 1]
        shift(A[i, i:])
        shift(v)
        row = A[i]
        for j in range(BAND, N):
            row[j] += row[j - BAND]
    if N > 0:
        A[:, 0] = 3.0


@weft.kernel
def whole_arrays(A: weft.f32["N", "M"], B: weft.f32["N + 1", 3]):
    rows, columns = A.shape
    A[:, 1:] = 2.0
    for i in range(len(A)):
        A[i, 0] = A.shape[1] + i
        B[i + 1, -1] = A[i, -1] * rows
    B[0] = columns


def bond(a, b):
    """A plain function of one expression."""
    return 1 if a + b == 3 else 0


def blur(x, i, weight):
    return weight * (x[max(i - 1, 0)] + x[min(i + 1, len(x) - 1)]) + x[i]


@weft.kernel
def clamped(x: weft.f64["N"], y: weft.f64["N"], z: weft.i64["N"]):
    """Subscripts with min, max, abs and conditionals; plain functions."""
    for i in range(N):
        y[i] += blur(x, i, 0.5)
        y[max(i - 2, 0)] -= x[abs(i - N // 2)] if i < N - 3 else x[i]
        z[N - 1 - i if i % 2 == 0 else min(i, N // 2)] += bond(z[i], i)
        for j in range(abs(i - 3)):
            z[i] ^= j if j < min(i, 2 * abs(i - 4)) else bond(i, j)


@weft.kernel
def rotate(row: weft.f64["K"], place: weft.i64["L"]):
    for i in range(L):
        place[i] = (place[i] + 1) % L
        for j in range(K):
            row[j] = row[j] * 0.5 + i


@weft.kernel
def views(A: weft.f64["N", "M"], place: weft.i64["N"]):
    """Parts of arrays at places that depend on data, which change while they are in use."""
    for i in range(N):
        row = A[place[i]]
        place[i] = N - 1 - place[i]
        for j in range(M):
            row[j] += j
        rotate(A[place[i], 1:], place)
        if M > 0:
            A[place[i], :] = A[place[i], 0] + 1


def _rng(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


def _definite(n: int) -> np.ndarray:
    a = _rng(n).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@weft.kernel
def either(x: weft.f64["N"], where: weft.i32["N"], y: weft.f64["N"]):
    for i in range(N):
        if x[i] > 0.5:
            y[i] = 1
        elif x[i] < y[i]:
            y[i] = x[where[i]] + y[i]
        else:
            y[i] = y[N - 1 - i] * 2.0


@weft.kernel
def folds(x: weft.i64["N"], b: weft.bool_["N"], y: weft.i64[5], c: weft.bool_[3]):
    for i in range(N):
        if x[i] < y[0]:
            y[0] = x[i]
        if y[1] <= 2 * x[i]:
            y[1] = 2 * x[i]
        y[2] = x[i] if y[2] > x[i] else y[2]
        y[3] = y[3] if y[3] >= x[i] else x[i]
        if x[i] < y[4]:
            y[4] = -x[i]
        c[0] = c[0] or b[i]
        c[1] = c[1] and b[i]
        if b[i] and x[i] > 3:
            c[2] = True


@weft.kernel
def float_folds(x: weft.f64["N"], b: weft.bool_["N"], y: weft.f64[7]):
    for i in range(N):
        if x[i] < y[0]:
            y[0] = x[i]
        if y[1] <= 2 * x[i]:
            y[1] = 2 * x[i]
        y[2] = x[i] if y[2] > x[i] else y[2]
        y[3] = y[3] if y[3] >= x[i] else x[i]
        if b[i] and x[i] > y[4]:
            y[4] = x[i]
        if x[i] >= y[5] and b[i]:
            y[5] = x[i]
        if not (x[i] >= y[6]):
            y[6] = x[i]


@weft.kernel
def guarded_names(x: weft.f64["N"], k: weft.i64["N"], y: weft.f64["N"], z: weft.f64["N"]):
    last: float = 0.5
    for i in range(N):
        if x[i] > 0:
            d = 2 * x[i]
            if d > y[i]:
                y[i] = d
            e = x[i] + 1
            z[i] = e * e
        if x[i] < 1 and last < 1:
            y[i] += last
            last = x[i]
        if k[i] < N:
            far = x[k[i]]
            if far < 0:
                z[i] = far
            far = far + 1
            z[i] *= far


def _floats(n: int) -> np.ndarray:
    return _rng(n).normal(size=n)


def _nan(x: np.ndarray) -> np.ndarray:
    x[len(x) // 2 :][:1] = np.nan
    return x


def _whole(low: int, high: int, *shape: int) -> np.ndarray:
    return _rng(sum(shape)).integers(low, high, size=shape)


def _i32(low: int, high: int, *shape: int) -> np.ndarray:
    return _whole(low, high, *shape).astype("int32")


@weft.kernel
def numbers(x: weft.f64["N"], y: weft.f64["N"], k: weft.i64["N"]):
    low: float = float("inf")
    last: int = 0
    for i in range(N):
        low = min(low, x[i])
        y[i] = (x[i] and 2.5) + (low or -1.0) * 2**-1 + int(x[i] > 0 and i % 2 == 0)
        k[i] = round(x[i] * 4) + (i % 3 or last or 7)
        if (x[i] and i % 2) or low:
            last = i


PROGRAMS: dict[str, tuple[weft.Kernel, Callable[[int], Arguments]]] = {
    "lu": (lu, lambda n: [_definite(n)]),
    "cholesky": (cholesky, lambda n: [_definite(n)]),
    "trisolv": (trisolv, lambda n: [_definite(n), _floats(n), _floats(n)]),
    "jacobi": (jacobi, lambda n: [n % 4, _definite(n), _definite(n)]),
    "seidel": (seidel, lambda n: [3 - n % 3, _definite(n).astype("float32")]),
    "floyd_warshall": (floyd_warshall, lambda n: [_i32(-3, 50, n, n)]),
    "nussinov": (nussinov, lambda n: [_whole(0, 4, n), np.zeros((n, n), "int64")]),
    "strides": (strides, lambda n: [_whole(-50, 50, n), _whole(-50, 50, n)]),
    "cases": (
        cases,
        lambda n: [_i32(0, 99, n, n + 1 - n % 3), np.zeros(8, "int32")],
    ),
    "scalars": (scalars, lambda n: [_floats(n), _floats(n), 1.5, -n]),
    "data": (
        data,
        lambda n: [_nan(_floats(n)), _floats(n), _i32(0, n or 1, n), np.zeros(3, "int64")],
    ),
    "either": (either, lambda n: [_nan(_floats(n)), _i32(0, n or 1, n), _floats(n)]),
    "folds": (
        folds,
        lambda n: [
            _whole(-9, 9, n), _floats(n) > 0, _whole(-3, 3, 5), np.array([False, True, False])
        ],
    ),
    "float_folds": (
        float_folds,
        lambda n: [_nan(np.round(_floats(n))), _floats(n) > 0, np.round(_floats(7)) * -0.0],
    ),
    "guarded_names": (
        guarded_names, lambda n: [_floats(n), _whole(0, 2 * n or 1, n), _floats(n), _floats(n)]
    ),
    "functions": (functions, lambda n: [_nan(_floats(n)), _floats(n), _i32(-9, 9, n)]),
    "numbers": (numbers, lambda n: [np.round(_floats(n)), _floats(n), _whole(0, 5, n)]),
    "calls": (calls, lambda n: [_definite(n), _rng(n).normal(size=(n, n, n))]),
    "clamped": (clamped, lambda n: [_floats(n), _floats(n), _whole(0, 5, n)]),
    "views": (views, lambda n: [_rng(n).normal(size=(n, n)), _whole(0, n or 1, n)]),
    "whole_arrays": (
        whole_arrays,
        lambda n: [np.ones((n, n + 1), "float32"), np.zeros((n + 1, 3), "float32")],
    ),
}  # fmt: skip
SIZES = (0, 1, 2, 3, 5, 7, 12)


def copies(arguments: Arguments) -> Arguments:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def in_python(kernel: weft.Kernel, arguments: Arguments) -> Arguments:
    """What the function itself makes of the arguments."""
    given = copies(arguments)
    with np.errstate(all="ignore"):
        kernel.python(*given)
    return given
